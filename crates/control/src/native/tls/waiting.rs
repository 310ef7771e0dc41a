//! Connections that wait for something, of which there may be only so many at a time. No address keeps the others waiting, however many
//! connections it opens.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use tokio::sync::oneshot;

/// The connections. Each has the receiver of a channel, whose sender is here. It gives up when the sender is dropped.
pub(super) struct Waiting {
    running: VecDeque<(IpAddr, bool, oneshot::Sender<()>)>,
    most: usize,
}

impl Waiting {
    /// Returns an empty set with room for `most` connections.
    pub(super) fn new(most: usize) -> Waiting {
        Waiting { running: VecDeque::new(), most }
    }

    /// Adds a connection. If there are too many, the oldest one of the addresses with the most connections gives up. Connections of known
    /// addresses and others have half of
    /// the places each.
    pub(super) fn begin(&mut self, address: IpAddr, is_known: bool) -> oneshot::Receiver<()> {
        self.running.retain(|(_, _, running)| !running.is_closed());
        let (here, there) = oneshot::channel();
        self.running.push_back((address, is_known, here));
        if self.running.len() > self.most {
            let known = self.running.iter().filter(|(_, is_known, _)| *is_known).count();
            // Known and unknown addresses have half of the places each.
            let known_leave = known > self.most / 2;
            let may_leave = |is_known: bool| is_known == known_leave;
            let mut counts = BTreeMap::<IpAddr, usize>::new();
            for (address, ..) in self.running.iter().filter(|(_, is_known, _)| may_leave(*is_known)) {
                *counts.entry(*address).or_default() += 1;
            }
            let most = counts.values().max();
            let leaves = |(address, is_known, _): &(IpAddr, bool, _)| {
                may_leave(*is_known) && counts.get(address) == most
            };
            let oldest = self.running.iter().position(leaves);
            oldest.and_then(|at| self.running.remove(at));
        }
        there
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn address(n: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, n).into()
    }

    #[test]
    fn a_handshake_gives_way_to_one_of_another_address() {
        let mut all = Waiting::new(4);
        let mut of_one: Vec<_> = (0..4).map(|_| all.begin(address(1), false)).collect();
        let ended =
            |there: &mut oneshot::Receiver<()>| there.try_recv() == Err(oneshot::error::TryRecvError::Closed);
        let mut of_other = all.begin(address(2), false);
        assert_eq!(of_one.iter_mut().map(ended).collect::<Vec<_>>(), [true, false, false, false]);
        let mut third = all.begin(address(1), false);
        assert!(ended(&mut of_one[1]) && !ended(&mut of_other) && !ended(&mut third));
        // A handshake that is over makes room.
        drop(of_one.pop());
        let mut fourth = all.begin(address(1), false);
        assert!(!ended(&mut of_one[2]) && !ended(&mut of_other) && !ended(&mut third) && !ended(&mut fourth));
    }

    /// Each address has one handshake, and the address of the new one is lower or higher than all others. The oldest handshake ends.
    #[test]
    fn a_new_handshake_does_not_give_way() {
        for newcomer in [1, 9] {
            let mut all = Waiting::new(4);
            let mut others: Vec<_> = (3..7).map(|n| all.begin(address(n), false)).collect();
            let mut new = all.begin(address(newcomer), false);
            assert!(new.try_recv() == Err(oneshot::error::TryRecvError::Empty));
            assert!(others[0].try_recv() == Err(oneshot::error::TryRecvError::Closed));
        }
    }

    #[test]
    fn known_addresses_have_half_of_the_places() {
        let mut all = Waiting::new(4);
        let ended =
            |there: &mut oneshot::Receiver<()>| there.try_recv() == Err(oneshot::error::TryRecvError::Closed);
        let mut known: Vec<_> = (0..2).map(|_| all.begin(address(1), true)).collect();
        let mut others: Vec<_> = (2..6).map(|n| all.begin(address(n), false)).collect();
        assert!(!known.iter_mut().any(ended));
        assert_eq!(others.iter_mut().map(ended).collect::<Vec<_>>(), [true, true, false, false]);
        // The other half is for unknown addresses, whoever comes.
        known.push(all.begin(address(1), true));
        assert!(ended(&mut known[0]) && !ended(&mut known[2]) && !others[2..].iter_mut().any(ended));
    }
}

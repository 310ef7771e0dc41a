//! The handshakes with clients of the port. No address keeps the others waiting, however many connections it opens.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use tokio::sync::oneshot;

/// The running handshakes. Each handshake has the receiver of a channel, whose sender is here. The handshake ends early when the sender is
/// dropped.
pub(super) struct Handshakes {
    running: VecDeque<(IpAddr, oneshot::Sender<()>)>,
    most: usize,
}

impl Handshakes {
    /// Returns an empty set with room for `most` handshakes.
    pub(super) fn new(most: usize) -> Handshakes {
        Handshakes { running: VecDeque::new(), most }
    }

    /// Begins a handshake. If there are too many, the oldest one of the addresses with the most handshakes ends.
    pub(super) fn begin(&mut self, address: IpAddr) -> oneshot::Receiver<()> {
        self.running.retain(|(_, running)| !running.is_closed());
        let (here, there) = oneshot::channel();
        self.running.push_back((address, here));
        if self.running.len() > self.most {
            let mut counts = BTreeMap::<IpAddr, usize>::new();
            self.running.iter().for_each(|(address, _)| *counts.entry(*address).or_default() += 1);
            let most = counts.values().max();
            let oldest = self.running.iter().position(|(address, _)| counts.get(address) == most);
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
        let mut all = Handshakes::new(4);
        let mut of_one: Vec<_> = (0..4).map(|_| all.begin(address(1))).collect();
        let ended =
            |there: &mut oneshot::Receiver<()>| there.try_recv() == Err(oneshot::error::TryRecvError::Closed);
        let mut of_other = all.begin(address(2));
        assert_eq!(of_one.iter_mut().map(ended).collect::<Vec<_>>(), [true, false, false, false]);
        let mut third = all.begin(address(1));
        assert!(ended(&mut of_one[1]) && !ended(&mut of_other) && !ended(&mut third));
        // A handshake that is over makes room.
        drop(of_one.pop());
        let mut fourth = all.begin(address(1));
        assert!(!ended(&mut of_one[2]) && !ended(&mut of_other) && !ended(&mut third) && !ended(&mut fourth));
    }

    /// Each address has one handshake, and the address of the new one is lower or higher than all others. The oldest handshake ends.
    #[test]
    fn a_new_handshake_does_not_give_way() {
        for newcomer in [1, 9] {
            let mut all = Handshakes::new(4);
            let mut others: Vec<_> = (3..7).map(|n| all.begin(address(n))).collect();
            let mut new = all.begin(address(newcomer));
            assert!(new.try_recv() == Err(oneshot::error::TryRecvError::Empty));
            assert!(others[0].try_recv() == Err(oneshot::error::TryRecvError::Closed));
        }
    }
}

//! Callbacks that notify features of the router's events, on the main thread.
//!
//! A feature registers its callbacks while the graph is built. It declares its objects and commands elsewhere ([`crate::feature`]).

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::OwnedFd;

use wire::Mac;
use wire::nd::{Message, NdOptions};

use super::{Hooks, Router};
use crate::setting::Setting;

/// A feature's callback for a new interface. At this time the interface has its name and its parent, is down, and has no settings.
pub type Made = fn(&mut Router, index: u32);

/// A feature's callback in each iteration of the main thread's loop. If the feature needs the next call by a certain time, returns
/// this time. `now` and the result are in nanoseconds of the monotonic clock. The callback must return within a millisecond.
pub type Turn = fn(&mut Router, now: u64) -> Option<u64>;

/// A feature's callback for new data in a file that it watches. It must read all of the data: it is called again only for later events.
/// `now` is in nanoseconds of the monotonic clock.
pub type Stirred = fn(&mut Router, now: u64);

/// A change of an interface, of which features are notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The interface is [usable](Router::usable) now.
    Up,
    /// Something about the usable interface may have changed: its addresses, Ethernet address, MTU, VRF, …
    Changed,
    /// This IPv6 address of the interface is used from now on: no other station has it.
    Unique(Ipv6Addr),
    /// A change that features were [notified of](Leaves) beforehand was refused and undone: the interface keeps what it was about
    /// to lose.
    Stays,
    /// The interface is no longer usable. Before an interface is removed, it goes down.
    Down,
}

/// A feature's callback after a change of an interface. The interface's routes and neighbors are up to date, unless their update failed.
pub type Follows = fn(&mut Router, index: u32, Change);

/// A loss of which features are notified before it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The link is lost: the interfaces are set down or removed, or the router stops.
    Link,
    /// The last IPv4 address is lost: the interface then has no IPv4 source address.
    Ip4,
    /// The last IPv6 address is lost, which is the link-local one.
    Ip6,
}

/// A feature's callback before usable interfaces lose their link or their last address. The feature can send its last packets
/// ([`Router::send_at_once`]). After that, the change is made, or it is refused and [undone](Change::Stays). A loss of a device's interface
/// is also reported for its sub-interfaces. The loss of a sub-interface may be reported twice: together with its device's interface, and
/// again on its own.
pub type Leaves = fn(&mut Router, interfaces: &[u32], Loss);

/// A valid Neighbor Discovery message of another station.
#[derive(Clone, Copy)]
pub struct Heard<'m> {
    /// The interface that received the message.
    pub interface: u32,
    /// The message's IPv6 source address.
    pub src: Ipv6Addr,
    /// The Ethernet address of the message's sender.
    pub from: Mac,
    /// The message.
    pub message: Message,
    /// The options of the message.
    pub options: &'m NdOptions<'m>,
}

/// A feature's callback for each Neighbor Discovery message that reaches the main thread. Returns true if the feature uses the message. A
/// message that neither a feature nor the router itself uses is counted.
pub type Hears = fn(&mut Router, &Heard<'_>) -> bool;

/// A feature's callback after its setting of an interface was changed from `before`. The reset of a removed interface's settings does not
/// count as a change.
pub type WasSet<T> = fn(&mut Router, index: u32, before: &T);

/// A change of a neighbor: its Ethernet address became known, changed, or is not known any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News {
    /// The index of the neighbor's interface.
    pub interface: u32,
    /// The neighbor's IP address.
    pub address: IpAddr,
    /// The neighbor's Ethernet address; if `gone`, the last known address.
    pub mac: Mac,
    /// True if the neighbor has a static entry now; false if `gone`.
    pub fixed: bool,
    /// True if the neighbor's Ethernet address is no longer known.
    pub gone: bool,
}

/// A feature's callback for each change of a neighbor. One event may change thousands of neighbors.
pub type Learns = fn(&mut Router, &News);

/// The callbacks of all features.
#[derive(Default)]
pub(super) struct Events {
    made: Vec<Made>,
    follows: Vec<Follows>,
    leaves: Vec<Leaves>,
    hears: Vec<Hears>,
    learns: Vec<Learns>,
    /// The callbacks for settings, by type of the setting: a vector of [`WasSet`].
    set: HashMap<TypeId, Box<dyn Any + Send>>,
    turns: Vec<Turn>,
    watched: Vec<(OwnedFd, Stirred)>,
    /// True if a feature requested a check of all links.
    links: bool,
    /// The earliest time at which a feature needs the next call of its [`Turn`] callback.
    next_turn: Option<u64>,
}

impl Hooks {
    /// Registers a callback for each interface that is added from now on: by a command, from a configuration file, or by a rollback.
    pub fn on_interface(&mut self, made: Made) {
        self.events.made.push(made);
    }

    /// Registers a callback for each change of an interface: it goes up or down, its addresses change, and so on. Soon after the
    /// change, the main thread also calls the feature's callback of type [`Turn`].
    pub fn on_change(&mut self, follows: Follows) {
        self.events.follows.push(follows);
    }

    /// Registers a callback that runs before interfaces go down, are removed or lose their last address, and before the router stops.
    pub fn on_leaving(&mut self, leaves: Leaves) {
        self.events.leaves.push(leaves);
    }

    /// Registers a callback for received Neighbor Discovery messages.
    pub fn on_discovery(&mut self, hears: Hears) {
        self.events.hears.push(hears);
    }

    /// Registers a callback for each change of a neighbor.
    pub fn on_neighbor(&mut self, learns: Learns) {
        self.events.learns.push(learns);
    }

    /// Registers a callback for each change of a setting on an interface. Soon after the change, the main thread also calls the
    /// feature's callback of type [`Turn`].
    pub fn on_set<T: Setting>(&mut self, set: WasSet<T>) {
        let all = self.events.set.entry(TypeId::of::<T>());
        let all: &mut dyn Any = &mut **all.or_insert_with(|| Box::new(Vec::<WasSet<T>>::new()));
        all.downcast_mut::<Vec<WasSet<T>>>().into_iter().for_each(|all| all.push(set));
    }

    /// Registers a callback for each iteration of the main thread's loop ([`Router::poll`]).
    pub fn on_turn(&mut self, turn: Turn) {
        self.events.turns.push(turn);
    }

    /// Registers a callback for new data in a file, such as a socket or a doorbell. Nothing else may read the file.
    pub fn watch(&mut self, file: OwnedFd, stirred: Stirred) {
        self.events.watched.push((file, stirred));
    }
}

impl Router {
    pub(super) fn interface_made(&mut self, index: u32) {
        for n in 0..self.hooks.events.made.len() {
            self.hooks.events.made[n](self, index);
        }
    }

    /// Notifies features of a change of an interface, after its routes and neighbors have been updated.
    pub(super) fn notify(&mut self, index: u32) {
        let usable = self.near.usable(index);
        let Some(info) = self.near.interfaces.get_mut(index) else { return };
        match (std::mem::replace(&mut info.was_usable, usable), usable) {
            (false, false) => {}
            (false, true) => self.notify_of(index, Change::Up),
            (true, true) => self.notify_of(index, Change::Changed),
            (true, false) => self.notify_of(index, Change::Down),
        }
    }

    pub(super) fn notify_of(&mut self, index: u32, change: Change) {
        for n in 0..self.hooks.events.follows.len() {
            self.hooks.events.follows[n](self, index, change);
            // The feature's timers may have changed.
            self.wake.ring();
        }
    }

    /// Notifies features that these interfaces are about to lose their link or their last address. Leaves out interfaces that were not
    /// usable when features were last notified of a change.
    pub(super) fn leaving(&mut self, interfaces: &[u32], loss: Loss) {
        let usable = self.usable_of(interfaces);
        for n in 0..self.hooks.events.leaves.len() {
            if !usable.is_empty() {
                self.hooks.events.leaves[n](self, &usable, loss);
            }
        }
    }

    /// Notifies features that a loss was cancelled: the interfaces keep what they were about to lose.
    pub(super) fn staying(&mut self, interfaces: &[u32]) {
        self.usable_of(interfaces).into_iter().for_each(|index| self.notify_of(index, Change::Stays));
    }

    /// Returns those of the given interfaces that were usable when features were last notified of a change.
    fn usable_of(&self, interfaces: &[u32]) -> Vec<u32> {
        let usable = |i: &&u32| self.near.interfaces.get(**i).is_some_and(|info| info.was_usable);
        interfaces.iter().filter(usable).copied().collect()
    }

    /// Notifies features that the router is about to stop, while it still has its interfaces.
    pub fn prepare_to_stop(&mut self) {
        // All at once, so that features can send the packets of many interfaces together.
        let all: Vec<u32> = self.interfaces().map(|i| i.index).collect();
        self.leaving(&all, Loss::Link);
    }

    /// Notifies features of a change of a neighbor.
    pub(super) fn notify_of_neighbor(&mut self, news: &News) {
        for n in 0..self.hooks.events.learns.len() {
            self.hooks.events.learns[n](self, news);
        }
    }

    /// Passes a Neighbor Discovery message to the features. Returns true if one of them uses it.
    pub(super) fn discovered(&mut self, heard: &Heard<'_>) -> bool {
        let mut used = false;
        for n in 0..self.hooks.events.hears.len() {
            used |= self.hooks.events.hears[n](self, heard);
        }
        used
    }

    /// Calls the callbacks for a setting, after its value on an interface was changed from `before`.
    pub(super) fn was_set<T: Setting>(&mut self, index: u32, before: &T) {
        let all: Option<&dyn Any> = self.hooks.events.set.get(&TypeId::of::<T>()).map(|all| &**all as _);
        let all = all.and_then(|all| all.downcast_ref::<Vec<WasSet<T>>>()).cloned().unwrap_or_default();
        for set in all {
            set(self, index, before);
            self.wake.ring();
        }
    }

    pub(super) fn turn_features(&mut self, now: u64) {
        let mut next = None;
        for n in 0..self.hooks.events.turns.len() {
            let wanted = self.hooks.events.turns[n](self, now);
            next = next.into_iter().chain(wanted).min();
        }
        self.hooks.events.next_turn = next;
    }

    /// Takes the files that features watch, with their callbacks. The daemon calls it once, at the start.
    pub fn take_watched(&mut self) -> Vec<(OwnedFd, Stirred)> {
        std::mem::take(&mut self.hooks.events.watched)
    }

    /// Requests that all links are checked soon. It is for drivers whose link changes the kernel does not report.
    pub fn suspect_links(&mut self) {
        self.hooks.events.links = true;
    }

    /// Returns true if [`suspect_links`](Self::suspect_links) has been called since the last call of this method.
    pub fn take_links_suspected(&mut self) -> bool {
        std::mem::take(&mut self.hooks.events.links)
    }

    /// Returns the earliest time at which a feature needs the next call of its [`Turn`] callback, in nanoseconds of the monotonic
    /// clock.
    pub(super) fn features_timeout(&self) -> Option<u64> {
        self.hooks.events.next_turn
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use drivers::Device;
    use graph::{Builder, GraphError};

    use super::*;
    use crate::Tables;
    use crate::router::{Parts, Sizes};
    use crate::testing;

    /// The names of new interfaces, and the times of the main thread's iterations, as recorded by the callbacks.
    #[derive(Default)]
    struct Seen(Vec<String>, Vec<u64>);

    fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
        crate::testing::install(b, t, hooks)?;
        testing::install_toy(b);
        hooks.state(|_| Ok(Seen::default()))?;
        hooks.on_interface(|router, index| {
            let name = router.interface(index).unwrap().name.clone();
            router.state_mut::<Seen>().unwrap().0.push(name);
            router.arcs().enable("ip4-unicast", testing::TOY, index, true).unwrap();
        });
        for patience in [7, 5, 9] {
            // One function per interval: function pointers capture nothing.
            hooks.on_turn(match patience {
                5 => |_, now| Some(now + 5),
                7 => |_, now| (now < 100).then_some(now + 7),
                _ => |router, now| {
                    router.state_mut::<Seen>().unwrap().1.push(now);
                    None
                },
            });
        }
        let (reader, _) = io::pipe().unwrap();
        hooks.watch(reader.into(), |router, now| {
            router.state_mut::<Seen>().unwrap().1.push(now);
            router.suspect_links();
        });
        Ok(())
    }

    fn router() -> Router {
        let Parts { router, .. } = Router::build(install, &Sizes { buffers: 256, workers: 1 }).unwrap();
        router
    }

    fn counts(r: &Router, index: u32) -> bool {
        r.features(index).into_iter().any(|(_, features)| features.contains(&(testing::TOY, true)))
    }

    #[test]
    fn features_are_notified_of_each_new_interface() {
        let mut r = router();
        let mac = wire::Mac([2, 0, 0, 0, 0, 1]);
        let loopback = r.add_loopback("loop0", mac).unwrap();
        let device = r.add_absent_device("d0", mac, 1500).unwrap();
        let tags = crate::ethernet::Tags { outer_service: false, outer: 7, inner: None };
        let sub = r.add_subinterface("d0.7", device, tags).unwrap();
        assert!(r.add_loopback("loop0", mac).is_err(), "the name is taken");
        assert_eq!(r.state::<Seen>().unwrap().0, ["loop0", "d0", "d0.7"]);
        assert!([loopback, device, sub].into_iter().all(|index| counts(&r, index)));
    }

    #[test]
    fn a_failed_interface_leaves_no_feature_enabled() {
        let mut r = router();
        let (device, ..) = crate::router::tests::device(0);
        let mute = Device { tx: Vec::new(), ..device };
        r.prefer_index(Some(3));
        assert!(r.add_device("d0", mute).is_err());
        assert_eq!(r.state::<Seen>().unwrap().0, ["d0"]);
        assert!(!counts(&r, 3));
    }

    #[test]
    fn the_earliest_feature_timeout_sets_the_next_turn() {
        let mut r = router();
        r.poll(50);
        assert_eq!(r.features_timeout(), Some(55));
        r.poll(200);
        assert_eq!((r.features_timeout(), r.next_timeout()), (Some(205), Some(205)));
        assert_eq!(r.state::<Seen>().unwrap().1, [50, 200]);
    }

    #[test]
    fn watched_files_and_suspected_links_are_taken_once() {
        let mut r = router();
        let watched = r.take_watched();
        assert_eq!((watched.len(), r.take_watched().len()), (1, 0));
        assert!(!r.take_links_suspected());
        watched.iter().for_each(|(_, stirred)| stirred(&mut r, 70));
        assert_eq!(r.state::<Seen>().unwrap().1, [70]);
        assert!(r.take_links_suspected() && !r.take_links_suspected());
    }
}

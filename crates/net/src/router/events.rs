//! Callbacks of features on the main thread for events of the router.
//!
//! A feature registers its callbacks while the graph is built. It declares its objects and commands elsewhere ([`crate::feature`]).

use std::os::fd::OwnedFd;

use super::{Hooks, Router};

/// A feature's callback for a new interface. At this time the interface has its name and its parent, is down, and has no settings.
pub type Made = fn(&mut Router, index: u32);

/// A feature's callback in each turn of the main thread. Returns the latest time at which the feature needs its next turn, if it needs one.
/// `now` and the result are in nanoseconds of the monotonic clock. The callback must return within a millisecond.
pub type Turn = fn(&mut Router, now: u64) -> Option<u64>;

/// A feature's callback for new data in a file that it watches. It must read all of the data: it is called again only for later events.
/// `now` is in nanoseconds of the monotonic clock.
pub type Stirred = fn(&mut Router, now: u64);

/// The callbacks of all features.
#[derive(Default)]
pub(super) struct Events {
    made: Vec<Made>,
    turns: Vec<Turn>,
    watched: Vec<(OwnedFd, Stirred)>,
    /// True if a feature requested a check of all links.
    links: bool,
    /// The earliest time at which a feature needs a turn.
    next_turn: Option<u64>,
}

impl Hooks {
    /// Registers a callback for each interface that is added from now on: by a command, from a configuration file, or by a rollback.
    pub fn on_interface(&mut self, made: Made) {
        self.events.made.push(made);
    }

    /// Registers a callback for each turn of the main thread ([`Router::poll`]).
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

    /// Returns true once after [`suspect_links`](Self::suspect_links) has been called, no matter how often.
    pub fn take_links_suspected(&mut self) -> bool {
        std::mem::take(&mut self.hooks.events.links)
    }

    /// Returns the earliest time at which a feature needs a turn, in nanoseconds of the monotonic clock.
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

    /// The names of the new interfaces and the times of the turns that the callbacks saw.
    #[derive(Default)]
    struct Seen(Vec<String>, Vec<u64>);

    fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
        crate::install(b, t, hooks)?;
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

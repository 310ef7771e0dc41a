//! Events: the state of the configuration and of the interfaces, and then each change of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use hyper::StatusCode;
use net::router::InterfaceInfo;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::client::Client;
use super::problem::Problem;
use crate::app::Context;

/// Pause after which the states of the interfaces are compared again.
const LOOK: Duration = Duration::from_millis(50);
/// Maximum number of interfaces that are compared in one step, and of changes that a watcher gets in one step.
const AT_ONCE: usize = 1000;
/// Maximum number of removals that are kept for watchers that do not know them yet.
const REMOVED: usize = 100_000;
/// Time without events after which a watcher gets an empty list. With that, it can show its client that the connection is alive.
const QUIET: Duration = Duration::from_secs(15);

/// The state of an interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) admin_up: bool,
    pub(super) link_up: bool,
    pub(super) mtu: u16,
}

impl Port {
    fn of(i: &InterfaceInfo, link_up: bool) -> Port {
        Port { name: i.name.clone(), index: i.index, admin_up: i.admin_up, link_up, mtu: i.mtu }
    }

    /// True if `i`, an interface with the same name, still has this state.
    fn is(&self, i: &InterfaceInfo, link_up: bool) -> bool {
        (self.index, self.admin_up, self.link_up, self.mtu) == (i.index, i.admin_up, link_up, i.mtu)
    }
}

/// An event, as an object of one member.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Event {
    /// The configuration has this generation.
    Generation(u64),
    /// An interface is new, or has this state now.
    Interface(Port),
    /// The interface with this name was removed.
    Removed(String),
    /// The client has got the whole initial state: all later events are changes. The value is always true.
    Complete(bool),
}

/// The states of all interfaces, which all watchers share. Each change has a number. A watcher keeps only the number of the last change
/// that its client knows, so very many watchers need no memory for very many interfaces.
#[derive(Default)]
pub(super) struct Board {
    /// The interfaces by name: their serial numbers, which are never used again, their states, and the numbers of their last changes.
    ports: BTreeMap<String, (u64, Port, u64)>,
    /// The last change of each interface: its name, and true if it was removed.
    changes: BTreeMap<u64, (String, bool)>,
    /// Number of the last change.
    last: u64,
    /// The numbers of the removals, the oldest first. Only [`REMOVED`] are kept.
    removed: VecDeque<u64>,
    /// The number of the last removal that was forgotten.
    forgotten: u64,
    /// The serial numbers of the interfaces seen so far in this round. A round compares all interfaces with the states stored here.
    seen: BTreeSet<u64>,
    /// The index of the next interface to compare.
    next: u32,
    /// When this round began.
    began: Option<Instant>,
    /// When the last complete round began, and when it ended.
    round: Option<(Instant, Instant)>,
}

impl Board {
    /// Compares some interfaces with the stored states, as a step of a round. Begins a round if one is due. Any watcher may call this, at
    /// any time.
    fn look(&mut self, c: &Context) {
        let begins = self.next == 0;
        if begins && self.round.is_some_and(|(_, ended)| ended.elapsed() < LOOK) {
            return;
        }
        if begins {
            self.began = Some(Instant::now());
        }
        let mut compared = 0;
        for i in c.system.router.interfaces_from(self.next).take(AT_ONCE) {
            compared += 1;
            self.next = i.index.saturating_add(1);
            self.seen.insert(i.serial);
            let link_up = c.system.router.link_up(i.index);
            let known = self.ports.get(&i.name);
            if !known.is_some_and(|(serial, port, _)| *serial == i.serial && port.is(i, link_up)) {
                self.change(Port::of(i, link_up), i.serial);
            }
        }
        if compared < AT_ONCE {
            self.end();
        }
    }

    /// Records the new state of an interface. If another interface with this name was removed in the meantime, its removal is not reported.
    fn change(&mut self, port: Port, serial: u64) {
        self.last += 1;
        let name = port.name.clone();
        self.changes.insert(self.last, (name.clone(), false));
        if let Some((.., before)) = self.ports.insert(name, (serial, port, self.last)) {
            self.changes.remove(&before);
        }
    }

    /// Ends a round: notes the removal of the interfaces that were not seen.
    fn end(&mut self) {
        let seen = std::mem::take(&mut self.seen);
        let gone = self.ports.extract_if(.., |_, (serial, ..)| !seen.contains(serial));
        for (name, (.., change)) in gone {
            self.changes.remove(&change);
            self.last += 1;
            self.changes.insert(self.last, (name, true));
            self.removed.push_back(self.last);
        }
        while self.removed.len() > REMOVED
            && let Some(oldest) = self.removed.pop_front()
        {
            self.changes.remove(&oldest);
            self.forgotten = oldest;
        }
        self.next = 0;
        self.round = self.began.map(|began| (began, Instant::now()));
    }
}

/// A client's view of the state, which follows the changes.
pub(super) struct Watcher {
    generation: Option<u64>,
    /// When the client began to watch.
    since: Instant,
    /// The number of the last change when the client was about to get the first interface. The client knows no interface that was removed
    /// before this change. `None` until a round that began after `since` has ended, because the states of earlier rounds may be old.
    first: Option<u64>,
    /// Number of the last change of an interface that the client knows.
    known: u64,
    /// True after the client has got the whole initial state.
    is_complete: bool,
    /// When the client got the last events.
    last: Instant,
}

impl Watcher {
    pub(super) fn new() -> Watcher {
        Watcher {
            generation: None,
            since: Instant::now(),
            first: None,
            known: 0,
            is_complete: false,
            last: Instant::now(),
        }
    }

    /// Returns some of the changes that the client does not know. `generation` is that of the configuration.
    ///
    /// # Errors
    /// If removals that the client does not know were forgotten.
    fn changes(&mut self, generation: u64, board: &Board) -> Result<Vec<Event>, Problem> {
        let mut events = Vec::new();
        if self.generation.replace(generation) != Some(generation) {
            events.push(Event::Generation(generation));
        }
        if self.first.is_none() && board.round.is_some_and(|(began, _)| began >= self.since) {
            self.first = Some(board.last);
        }
        let Some(first) = self.first else { return Ok(events) };
        if self.known.max(first) < board.forgotten {
            let why = "too many interfaces were removed while the client did not read: watch again";
            return Err(Problem::new(StatusCode::CONFLICT, why));
        }
        for (change, (name, is_removed)) in board.changes.range(self.known + 1..).take(AT_ONCE) {
            self.known = *change;
            match board.ports.get(name) {
                _ if *is_removed => events.extend((*change > first).then(|| Event::Removed(name.clone()))),
                Some((_, port, _)) => events.push(Event::Interface(port.clone())),
                None => {}
            }
        }
        if !self.is_complete && self.knows_all(board) {
            self.is_complete = true;
            events.push(Event::Complete(true));
        }
        Ok(events)
    }

    /// True if the client knows all changes.
    fn knows_all(&self, board: &Board) -> bool {
        self.first.is_some() && board.changes.range(self.known + 1..).next().is_none()
    }

    /// True if the client gets no event about an interface before the next round.
    fn waits_for(&self, board: &Board) -> bool {
        board.next == 0 && (self.first.is_none() || self.knows_all(board))
    }

    /// Waits for the next events: first those that describe the state, and then each change. Returns an empty list after [`QUIET`] without
    /// events.
    ///
    /// # Errors
    /// If the client has missed events.
    pub(super) async fn next(&mut self, client: &Client) -> Result<Vec<Event>, Problem> {
        loop {
            let (events, is_over) = client
                .slice(|c| {
                    let mut board = client.board.borrow_mut();
                    board.look(c);
                    let events = self.changes(c.journal.generation(), &board);
                    (events, self.waits_for(&board))
                })
                .await;
            let events = events?;
            if is_over && events.is_empty() {
                // A client that only waits for events may have to make room for another one.
                client.rests();
            }
            if !events.is_empty() || self.last.elapsed() >= QUIET {
                self.last = Instant::now();
                return Ok(events);
            }
            if is_over {
                sleep(LOOK).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A step of a history: an interface gets a state, a round ends, or a watcher looks.
    #[derive(Clone, Debug)]
    enum Turn {
        Set(u8, bool),
        Remove(u8),
        Round,
        Watch(usize),
    }

    fn turn() -> impl Strategy<Value = Turn> {
        prop_oneof![
            (0..6u8, any::<bool>()).prop_map(|(n, up)| Turn::Set(n, up)),
            (0..6u8).prop_map(Turn::Remove),
            Just(Turn::Round),
            (0..3usize).prop_map(Turn::Watch),
        ]
    }

    fn round(board: &mut Board, there: &BTreeMap<u8, (u64, bool)>) {
        board.began = Some(Instant::now());
        for (n, (serial, admin_up)) in there {
            let port = Port {
                name: format!("pg{n}"),
                index: u32::from(*n),
                admin_up: *admin_up,
                link_up: true,
                mtu: 1500,
            };
            board.seen.insert(*serial);
            let same = board.ports.get(&port.name).is_some_and(|(s, p, _)| s == serial && *p == port);
            if !same {
                board.change(port, *serial);
            }
        }
        board.end();
    }

    proptest! {
        /// A client that follows the events knows the states of all interfaces, whenever it began to watch.
        #[test]
        fn events_lead_to_the_state(history in prop::collection::vec(turn(), 1..120)) {
            let (mut board, mut there, mut serial) = (Board::default(), BTreeMap::new(), 0);
            let mut watchers: [Option<(Watcher, BTreeMap<String, bool>)>; 3] = [const { None }; 3];
            let mut follow = |board: &Board, of: usize| {
                let (watcher, known) = watchers[of].get_or_insert_with(|| (Watcher::new(), BTreeMap::new()));
                for event in watcher.changes(0, board).unwrap() {
                    match event {
                        Event::Interface(port) => drop(known.insert(port.name, port.admin_up)),
                        Event::Removed(name) => drop(known.remove(&name)),
                        Event::Generation(_) | Event::Complete(_) => {}
                    }
                }
                (known.clone(), watcher.is_complete)
            };
            for turn in history {
                match turn {
                    Turn::Set(n, up) => {
                        serial += 1;
                        there.entry(n).or_insert((serial, up)).1 = up;
                    }
                    Turn::Remove(n) => drop(there.remove(&n)),
                    Turn::Round => round(&mut board, &there),
                    Turn::Watch(of) => drop(follow(&board, of)),
                }
            }
            round(&mut board, &there);
            let wanted: BTreeMap<String, bool> = there.iter().map(|(n, (_, up))| (format!("pg{n}"), *up)).collect();
            for of in 0..3 {
                follow(&board, of);
                round(&mut board, &there);
                let (known, is_complete) = follow(&board, of);
                prop_assert_eq!(&known, &wanted);
                prop_assert!(is_complete);
            }
            // The board keeps one change of each interface.
            prop_assert_eq!(board.changes.len(), board.ports.len() + board.removed.len());
        }
    }

    #[test]
    fn a_client_that_has_missed_removals_is_told() {
        let (mut board, mut watcher) = (Board::default(), Watcher::new());
        round(&mut board, &BTreeMap::from([(0, (1, true))]));
        let events = watcher.changes(0, &board).unwrap();
        assert_eq!(events.len(), 3, "the generation, an interface, and the end of the state: {events:?}");
        round(&mut board, &BTreeMap::new());
        board.forgotten = board.last;
        assert_eq!(watcher.changes(0, &board).unwrap_err().status, StatusCode::CONFLICT);
        // One that begins now has missed nothing.
        assert!(Watcher::new().changes(0, &board).is_ok());
    }
}

//! The client's side of an interface: it looks for the server, offers its memory, and begins anew when the connection is
//! lost. It does no I/O: events and the time in, actions out.
//!
//! ```text
//!                  ┌──────────────────── 1 s ─────────────────────┐
//!                  ▼                                              │
//!   Down ──Up──▶ Waiting ──Connect──▶ Greeting ──HELLO──▶ Offering ──CONNECTED──▶ Up
//!     ▲                                   └──────── 5 s, or whatever goes wrong ──┘
//!     └─Down── any
//! ```
//!
//! While it offers, it sends one message at a time, and the next one when the server has acknowledged that: VPP 26.06 reads
//! one message and then none before the next one arrives. Some servers acknowledge nothing; they get all that is left after
//! a short while.

use super::message::{AddRing, Init, Message, SECRET_LEN, VERSION};
use super::server::or_no_reason;
use super::{Layout, MAX_LOG2_RING, NAME, SECOND};

/// How long after a failure the server is looked for again.
const RETRY: u64 = SECOND;
/// How long a server may take for each step.
const PATIENCE: u64 = 5 * SECOND;
/// How long after a message without an acknowledgement all others are sent.
const UNACKNOWLEDGED: u64 = SECOND / 4;

/// What a client wants.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) id: u32,
    pub(super) secret: Option<[u8; SECRET_LEN]>,
    /// Name of the interface, for the peer's operator.
    pub(super) name: String,
    /// The most rings of either direction, their size and that of their buffers.
    pub(super) layout: Layout,
}

/// What happened.
#[derive(Debug)]
pub(super) enum Event {
    /// The interface was set up, or down.
    Admin(bool),
    /// A message, or the number of a type that is none.
    Message(Result<Message, u16>),
    /// The memory that [`Action::Make`] asked for is there: bytes of each region.
    Made(Vec<u64>),
    /// The server closed the connection, or there is none.
    Closed(String),
    /// What was to be done could not be; or the operator wants an end; or the rings are broken. The peer is told why.
    End(String),
}

/// What is to be done, in this order. What is left is forgotten when one fails.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    /// Open a connection; [`Event::Closed`] if that fails.
    Connect,
    /// Make memory and rings as described, and answer with [`Event::Made`].
    Make(Layout),
    /// Send a message. Regions and rings go with their files.
    Send(Message),
    /// Let packets pass; the peer's program and interface, in its own words.
    Attach(String, String),
    /// Close the connection and forget the memory, for this reason.
    Close(String),
}

#[derive(Debug, PartialEq)]
enum State {
    Down,
    Waiting,
    Greeting,
    Offering {
        peer: String,
        layout: Layout,
        /// What is still to be sent, the last message first.
        left: Vec<Message>,
        /// When the server should have acknowledged the last message; `None` when all are sent.
        acknowledged_by: Option<u64>,
        /// Acknowledgements that may still come.
        unacknowledged: usize,
    },
    Up,
}

/// One interface.
#[derive(Debug)]
pub(super) struct Client {
    wish: Wish,
    state: State,
    /// When to look for the server again, or to lose patience.
    due: u64,
}

impl Client {
    pub(super) fn new(wish: Wish) -> Client {
        Client { wish, state: State::Down, due: 0 }
    }

    /// When [`timeout`](Client::timeout) is due.
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        match &self.state {
            State::Down | State::Up => None,
            State::Offering { acknowledged_by: Some(at), .. } => Some(self.due.min(*at)),
            _ => Some(self.due),
        }
    }

    /// The time is over that [`poll_timeout`](Client::poll_timeout) named.
    pub(super) fn timeout(&mut self, now: u64) -> Vec<Action> {
        match self.poll_timeout() {
            Some(due) if due <= now => {}
            _ => return Vec::new(),
        }
        match &mut self.state {
            State::Waiting => self.connect(now),
            State::Offering { left, acknowledged_by, unacknowledged, .. } if now < self.due => {
                *acknowledged_by = None;
                *unacknowledged += left.len();
                left.drain(..).rev().map(Action::Send).collect()
            }
            _ => self.end(now, "the server did not answer in time"),
        }
    }

    /// Something happened.
    pub(super) fn handle(&mut self, now: u64, event: Event) -> Vec<Action> {
        match event {
            Event::Admin(true) if self.state == State::Down => self.connect(now),
            Event::Admin(true) => Vec::new(),
            Event::Admin(false) => {
                let actions = self.end(now, "the interface is set down");
                self.state = State::Down;
                actions
            }
            Event::Closed(why) => self.close(now, why),
            Event::End(why) => self.end(now, why),
            Event::Made(sizes) => match &self.state {
                State::Offering { layout, .. } => self.offer(now, *layout, &sizes),
                _ => Vec::new(),
            },
            // Of a connection that is no more.
            Event::Message(_) if matches!(self.state, State::Down | State::Waiting) => Vec::new(),
            Event::Message(Err(kind)) => self.end(now, format!("a message of unknown type {kind}")),
            Event::Message(Ok(Message::Disconnect { reason, .. })) => {
                self.close(now, format!("the server refused or disconnected: {}", or_no_reason(&reason)))
            }
            Event::Message(Ok(message)) => match self.message(now, message) {
                Ok(actions) => actions,
                Err(why) => self.end(now, why),
            },
        }
    }

    fn message(&mut self, now: u64, message: Message) -> Result<Vec<Action>, String> {
        let kind = message.kind();
        match (&mut self.state, message) {
            (State::Greeting, Message::Hello(hello)) => {
                if !(hello.min_version..=hello.max_version).contains(&VERSION) {
                    let version = |v: u16| format!("{}.{}", v >> 8, v & 0xff);
                    let (min, max) = (version(hello.min_version), version(hello.max_version));
                    return Err(format!(
                        "the server speaks versions {min} to {max} of the protocol, this router 2.0"
                    ));
                }
                let own = self.wish.layout;
                let layout = Layout {
                    to_server: own.to_server.min(hello.max_to_server.saturating_add(1)),
                    to_client: own.to_client.min(hello.max_to_client.saturating_add(1)),
                    log2_ring: own.log2_ring.min(hello.max_log2_ring_size).min(MAX_LOG2_RING),
                    ..own
                };
                let (left, peer) = (Vec::new(), hello.name);
                self.state = State::Offering { peer, layout, left, acknowledged_by: None, unacknowledged: 0 };
                Ok(vec![Action::Make(layout)])
            }
            (State::Offering { unacknowledged, .. }, Message::Ack) if *unacknowledged > 0 => {
                *unacknowledged -= 1;
                Ok(self.next_message(now))
            }
            // Acknowledgements that are still missing are of no use any more.
            (State::Offering { peer, left, .. }, Message::Connected(interface)) if left.is_empty() => {
                let peer = std::mem::take(peer);
                self.state = State::Up;
                Ok(vec![Action::Attach(peer, interface)])
            }
            _ => Err(format!("{kind} out of order")),
        }
    }

    fn connect(&mut self, now: u64) -> Vec<Action> {
        (self.state, self.due) = (State::Greeting, now + PATIENCE);
        vec![Action::Connect]
    }

    /// Begins to tell the server all that it has to know.
    fn offer(&mut self, now: u64, layout: Layout, sizes: &[u64]) -> Vec<Action> {
        let Wish { id, secret, name, .. } = &self.wish;
        let (id, secret) = (*id, secret.unwrap_or_default());
        let init = Init { version: VERSION, id, mode: 0, secret, name: NAME.into() };
        let regions = (0..).zip(sizes).map(|(index, size)| Message::AddRegion { index, size: *size });
        let rings = layout.rings().map(|(direction, index, offset)| {
            let log2_size = layout.log2_ring;
            Message::AddRing(AddRing { direction, index, region: 0, offset, log2_size, private_header: 0 })
        });
        let all = std::iter::once(Message::Init(init)).chain(regions).chain(rings);
        let mut all: Vec<Message> = all.chain([Message::Connect(name.clone())]).collect();
        all.reverse();
        if let State::Offering { left, .. } = &mut self.state {
            *left = all;
        }
        self.next_message(now)
    }

    /// The next message of the offer, if there is one.
    fn next_message(&mut self, now: u64) -> Vec<Action> {
        self.due = now + PATIENCE;
        let State::Offering { left, acknowledged_by, unacknowledged, .. } = &mut self.state else {
            return Vec::new();
        };
        // Behind the last one, CONNECT, comes CONNECTED.
        let next = left.pop();
        *acknowledged_by = (!left.is_empty()).then_some(now + UNACKNOWLEDGED);
        *unacknowledged += usize::from(next.is_some());
        next.map(Action::Send).into_iter().collect()
    }

    /// Ends the connection, and tells the server why.
    fn end(&mut self, now: u64, why: impl Into<String>) -> Vec<Action> {
        let reason = why.into();
        if matches!(self.state, State::Down | State::Waiting) {
            return Vec::new();
        }
        let mut actions = vec![Action::Send(Message::Disconnect { code: 0, reason: reason.clone() })];
        actions.extend(self.close(now, reason));
        actions
    }

    fn close(&mut self, now: u64, why: String) -> Vec<Action> {
        if matches!(self.state, State::Down | State::Waiting) {
            return Vec::new();
        }
        (self.state, self.due) = (State::Waiting, now + RETRY);
        vec![Action::Close(why)]
    }
}

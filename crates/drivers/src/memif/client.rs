//! The state machine of an interface in the client role. It connects to the server, offers its memory, and starts again when the connection
//! is lost. It does no I/O: its input is events and the time, and its output is actions.
//!
//! ```text
//!                  ┌──────────────────── 1 s ─────────────────────┐
//!                  ▼                                              │
//!   Down ──Up──▶ Waiting ──Connect──▶ Greeting ──HELLO──▶ Offering ──CONNECTED──▶ Up
//!     ▲                                   └──────── 5 s, or any error ────────────┘
//!     └─Down── any
//! ```
//!
//! In the state `Offering`, the client sends one message at a time and waits for the server's acknowledgement. VPP 26.06 needs that: it
//! reads only one message each time a message arrives, so messages sent together may stay unread. If an acknowledgement is missing after
//! 250 ms, the client sends all remaining messages.

use super::message::{AddRing, Init, Message, SECRET_LEN, VERSION};
use super::server::or_no_reason;
use super::{Layout, MAX_LOG2_RING, NAME, SECOND};

/// Nanoseconds from a failure to the next connection attempt.
const RETRY: u64 = SECOND;
/// Time limit for each step of the server, in nanoseconds.
const PATIENCE: u64 = 5 * SECOND;
/// If the server acknowledges nothing for this many nanoseconds, the client sends all remaining messages at once.
const UNACKNOWLEDGED: u64 = SECOND / 4;

/// Configuration of a client.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) id: u32,
    pub(super) secret: Option<[u8; SECRET_LEN]>,
    /// Name of the interface, which the client sends to the server.
    pub(super) name: String,
    /// The largest layout to offer: number of rings in each direction, ring size and buffer size.
    pub(super) layout: Layout,
}

/// An event for the state machine.
#[derive(Debug)]
pub(super) enum Event {
    /// The interface was set up or down.
    Admin(bool),
    /// A message, or its type number if the type is unknown.
    Message(Result<Message, u16>),
    /// The memory for [`Action::Make`] is ready. The numbers are the sizes of its regions in bytes.
    Made(Vec<u64>),
    /// The server closed the connection, or the connection failed.
    Closed(String),
    /// The connection must end: an action failed, the operator ended it, or the rings are broken. The peer gets the
    /// reason.
    End(String),
}

/// An action for the caller. The caller carries actions out in order; if one fails, it skips the actions after it.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    /// Connect; report [`Event::Closed`] if that fails.
    Connect,
    /// Create memory and rings with this layout, and report [`Event::Made`].
    Make(Layout),
    /// Send a message. Messages about regions and rings carry their files.
    Send(Message),
    /// Start to pass packets. The strings are the names that the peer has sent: of its program, and of its interface.
    Attach(String, String),
    /// Close the connection and drop the memory, for this reason.
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
        /// Messages still to be sent, in reverse order.
        left: Vec<Message>,
        /// Time in nanoseconds at which the client stops waiting for the acknowledgement of the last message sent. `None` while the memory
        /// is being created, and when all messages are sent.
        acknowledged_by: Option<u64>,
        /// Number of messages sent that the server has not acknowledged yet.
        unacknowledged: usize,
    },
    Up,
}

/// The client side of one interface.
#[derive(Debug)]
pub(super) struct Client {
    wish: Wish,
    state: State,
    /// Time in nanoseconds: of the next connection attempt, or at which the server must have answered.
    due: u64,
}

impl Client {
    pub(super) fn new(wish: Wish) -> Client {
        Client { wish, state: State::Down, due: 0 }
    }

    /// Returns the time in nanoseconds at which [`timeout`](Client::timeout) must be called; `None` if the client waits for nothing.
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        match &self.state {
            State::Down | State::Up => None,
            State::Offering { acknowledged_by: Some(at), .. } => Some(self.due.min(*at)),
            _ => Some(self.due),
        }
    }

    /// Handles a time limit that has expired. Call this at the time that [`poll_timeout`](Client::poll_timeout) returned.
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

    /// Handles an event.
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
            // The message belongs to an earlier connection.
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
                        "the server supports protocol versions {min} to {max}, but this router supports only 2.0"
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
            // Acknowledgements still missing do not matter any more.
            (State::Offering { peer, left, .. }, Message::Connected(interface)) if left.is_empty() => {
                let peer = std::mem::take(peer);
                self.state = State::Up;
                Ok(vec![Action::Attach(peer, interface)])
            }
            _ => Err(format!("{kind} arrived out of order")),
        }
    }

    fn connect(&mut self, now: u64) -> Vec<Action> {
        (self.state, self.due) = (State::Greeting, now + PATIENCE);
        vec![Action::Connect]
    }

    /// Prepares all messages of the offer. Returns the action that sends the first of them.
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

    /// Returns the action that sends the next message of the offer to the server; empty if all messages are sent.
    fn next_message(&mut self, now: u64) -> Vec<Action> {
        self.due = now + PATIENCE;
        let State::Offering { left, acknowledged_by, unacknowledged, .. } = &mut self.state else {
            return Vec::new();
        };
        // The server answers the last message, CONNECT, with CONNECTED.
        let next = left.pop();
        *acknowledged_by = (!left.is_empty()).then_some(now + UNACKNOWLEDGED);
        *unacknowledged += usize::from(next.is_some());
        next.map(Action::Send).into_iter().collect()
    }

    /// Ends the connection, and sends the server the reason.
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

//! The server's state machine of one connection. It checks the client's request, and collects the client's regions and rings. It does no
//! I/O: its input is events and the time, and its output is actions.
//!
//! ```text
//!   accepted ──HELLO sent──▶ Greeting ──INIT──▶ Collecting ──CONNECT──▶ Up
//!                                 │ 5 s without CONNECT         │        │
//!                                 └────────────▶ Closed ◀───────┴────────┘ DISCONNECT, or anything out of order
//! ```

use super::message::{AddRing, Direction, Hello, Init, Message, SECRET_LEN, VERSION};
use super::{MAX_LOG2_RING, NAME, SECOND};

/// Time limit for a client's messages up to CONNECT, in nanoseconds.
const PATIENCE: u64 = 5 * SECOND;
/// Maximum number of regions of a client.
const MAX_REGIONS: usize = 16;
/// Maximum number of regions of a trusted client, whose buffers may be in many regions.
const MAX_REGIONS_TRUSTED: usize = 256;
/// Maximum number of rings of a client in each direction.
const MAX_RINGS: usize = 64;

/// State of an interface that a client asks for.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    /// True if the interface is set up.
    pub(super) up: bool,
    /// True while the interface is blocked after a fault of its last client.
    pub(super) barred: bool,
    /// True if another client has the interface.
    pub(super) taken: bool,
    pub(super) secret: Option<[u8; SECRET_LEN]>,
    pub(super) trusted: bool,
    /// Name of the interface, which the server sends to the client.
    pub(super) name: String,
}

/// An event for the state machine. `F` is a received file.
#[derive(Debug)]
pub(super) enum Event<F> {
    /// A message, or its type number if the type is unknown; and the message's file, if it has one.
    Message(Result<Message, u16>, Option<F>),
    /// The peer closed the connection.
    Closed,
    /// The connection must end: an action failed, the operator ended it, or the rings are broken. The peer gets the
    /// reason.
    End(String),
}

/// An action for the caller. The caller carries actions out in order; if one fails, it skips the actions after it.
#[derive(Debug, PartialEq)]
pub(super) enum Action<F> {
    Send(Message),
    /// Assign this interface to the client.
    Claim(u32),
    /// Map the regions and start to pass packets.
    Attach(Plan<F>),
    /// Close the connection, for this reason.
    Close(String),
}

/// The regions and rings of a client.
#[derive(Debug, PartialEq)]
pub(super) struct Plan<F> {
    /// Name of the client's program, as the client has sent it.
    pub(super) peer: String,
    /// Name of the client's interface, as the client has sent it.
    pub(super) peer_interface: String,
    /// Size in bytes and file of each region.
    pub(super) regions: Vec<(u64, F)>,
    pub(super) to_server: Vec<PlannedRing<F>>,
    pub(super) to_client: Vec<PlannedRing<F>>,
}

/// Location of a ring, and its event descriptor.
#[derive(Debug, PartialEq)]
pub(super) struct PlannedRing<F> {
    pub(super) region: u16,
    pub(super) offset: u32,
    pub(super) log2_size: u8,
    pub(super) bell: F,
}

#[derive(Debug)]
enum State<F> {
    Greeting,
    Collecting { plan: Plan<F>, max_regions: usize, name: String },
    Up,
    Closed,
}

/// One connection of the server.
#[derive(Debug)]
pub(super) struct Server<F> {
    state: State<F>,
    deadline: u64,
    asked: Option<u32>,
}

impl<F> Server<F> {
    /// Starts a connection with an accepted client.
    pub(super) fn new(now: u64) -> (Server<F>, Vec<Action<F>>) {
        let hello = Message::Hello(Hello {
            name: NAME.into(),
            min_version: VERSION,
            max_version: VERSION,
            max_region: MAX_REGIONS_TRUSTED as u16 - 1,
            max_to_client: MAX_RINGS as u16 - 1,
            max_to_server: MAX_RINGS as u16 - 1,
            max_log2_ring_size: MAX_LOG2_RING,
        });
        (Server { state: State::Greeting, deadline: now + PATIENCE, asked: None }, vec![Action::Send(hello)])
    }

    /// Returns the interface ID that the client asked for, even if the request was refused; `None` before the client has asked.
    pub(super) fn asked(&self) -> Option<u32> {
        self.asked
    }

    /// Returns the time in nanoseconds at which [`timeout`](Server::timeout) must be called; `None` if the server waits for nothing.
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        matches!(self.state, State::Greeting | State::Collecting { .. }).then_some(self.deadline)
    }

    /// Handles a time limit that has expired. Call this at the time that [`poll_timeout`](Server::poll_timeout) returned.
    pub(super) fn timeout(&mut self, now: u64) -> Vec<Action<F>> {
        match self.poll_timeout() {
            Some(due) if due <= now => self.end("the client did not complete the connection in time"),
            _ => Vec::new(),
        }
    }

    /// Handles an event; `listed` returns the state of an interface on this socket.
    pub(super) fn handle(
        &mut self,
        event: Event<F>,
        listed: impl Fn(u32) -> Option<Listed>,
    ) -> Vec<Action<F>> {
        if matches!(self.state, State::Closed) {
            return Vec::new();
        }
        match event {
            Event::Closed => self.close("the client closed the connection".into()),
            Event::End(why) => self.end(why),
            Event::Message(Err(kind), _) => self.end(format!("a message of unknown type {kind}")),
            Event::Message(Ok(Message::Disconnect { reason, .. }), _) => {
                self.close(format!("the client disconnected: {}", or_no_reason(&reason)))
            }
            Event::Message(Ok(message), file) => match self.message(message, file, listed) {
                Ok(actions) => actions,
                Err(why) => self.end(why),
            },
        }
    }

    fn message(
        &mut self,
        message: Message,
        file: Option<F>,
        listed: impl Fn(u32) -> Option<Listed>,
    ) -> Result<Vec<Action<F>>, String> {
        let kind = message.kind();
        match (&mut self.state, message, file) {
            (State::Greeting, Message::Init(init), None) => {
                let Init { id, name, .. } = init.clone();
                self.asked = Some(id);
                let interface = admit(&init, listed(id))?;
                let max_regions = if interface.trusted { MAX_REGIONS_TRUSTED } else { MAX_REGIONS };
                let plan = Plan {
                    peer: name,
                    peer_interface: String::new(),
                    regions: Vec::new(),
                    to_server: Vec::new(),
                    to_client: Vec::new(),
                };
                self.state = State::Collecting { plan, max_regions, name: interface.name };
                Ok(vec![Action::Claim(id), Action::Send(Message::Ack)])
            }
            (State::Collecting { plan, max_regions, .. }, Message::AddRegion { index, size }, Some(file)) => {
                if usize::from(index) != plan.regions.len() {
                    return Err(format!(
                        "ADD_REGION names region {index}; expected region {}",
                        plan.regions.len()
                    ));
                }
                if plan.regions.len() == *max_regions {
                    return Err(format!("more than {max_regions} regions"));
                }
                plan.regions.push((size, file));
                Ok(vec![Action::Send(Message::Ack)])
            }
            (State::Collecting { plan, .. }, Message::AddRing(ring), Some(bell)) => {
                let list = match ring.direction {
                    Direction::ToServer => &mut plan.to_server,
                    Direction::ToClient => &mut plan.to_client,
                };
                list.push(check_ring(ring, bell, list.len(), plan.regions.len())?);
                Ok(vec![Action::Send(Message::Ack)])
            }
            (State::Collecting { plan, name, .. }, Message::Connect(peer_interface), None) => {
                let name = std::mem::take(name);
                if plan.to_server.is_empty() && plan.to_client.is_empty() {
                    return Err("CONNECT arrived before any ADD_RING".into());
                }
                let plan = Plan {
                    peer_interface,
                    peer: std::mem::take(&mut plan.peer),
                    regions: std::mem::take(&mut plan.regions),
                    to_server: std::mem::take(&mut plan.to_server),
                    to_client: std::mem::take(&mut plan.to_client),
                };
                self.state = State::Up;
                Ok(vec![Action::Attach(plan), Action::Send(Message::Connected(name))])
            }
            (_, Message::AddRegion { .. } | Message::AddRing(_), None) => {
                Err(format!("{kind} arrived without its file descriptor"))
            }
            (_, _, Some(_)) => Err(format!("{kind} arrived with a file descriptor, or out of order")),
            _ => Err(format!("{kind} arrived out of order")),
        }
    }

    /// Ends the connection, and sends the peer the reason.
    fn end(&mut self, why: impl Into<String>) -> Vec<Action<F>> {
        let reason = why.into();
        let mut actions = vec![Action::Send(Message::Disconnect { code: 0, reason: reason.clone() })];
        actions.extend(self.close(reason));
        actions
    }

    fn close(&mut self, why: String) -> Vec<Action<F>> {
        self.state = State::Closed;
        vec![Action::Close(why)]
    }
}

/// Checks a client's request for an interface. Returns the interface, or the reason of the refusal.
fn admit(init: &Init, interface: Option<Listed>) -> Result<Listed, String> {
    if init.version != VERSION {
        let (major, minor) = (init.version >> 8, init.version & 0xff);
        return Err(format!("the client uses protocol version {major}.{minor}, but this router uses 2.0"));
    }
    let Some(interface) = interface else {
        return Err(format!("no server interface has id {}", init.id));
    };
    let id = init.id;
    if interface.secret.is_some_and(|secret| !same(&secret, &init.secret)) {
        return Err(format!("the secret for interface id {id} is wrong"));
    }
    if init.mode != 0 {
        return Err(format!("interface id {id} uses Ethernet mode, not mode {}", init.mode));
    }
    match (interface.up, interface.taken) {
        (false, _) => Err(format!("interface id {id} is set down")),
        (_, true) => Err(format!("interface id {id} is already connected")),
        _ if interface.barred => {
            Err(format!("interface id {id} is blocked for some seconds after a fault of its last client"))
        }
        _ => Ok(interface),
    }
}

/// Compares two secrets in constant time.
fn same(a: &[u8; SECRET_LEN], b: &[u8; SECRET_LEN]) -> bool {
    a.iter().zip(b).fold(0, |d, (a, b)| d | (a ^ b)) == 0
}

fn check_ring<F>(ring: AddRing, bell: F, due: usize, regions: usize) -> Result<PlannedRing<F>, String> {
    let AddRing { index, region, offset, log2_size, private_header, .. } = ring;
    if usize::from(index) != due {
        return Err(format!("ADD_RING names ring {index}; expected ring {due}"));
    }
    if due == MAX_RINGS {
        return Err(format!("more than {MAX_RINGS} rings"));
    }
    if log2_size > MAX_LOG2_RING {
        return Err(format!("a ring has 2^{log2_size} descriptors, more than 2^{MAX_LOG2_RING}"));
    }
    if usize::from(region) >= regions {
        return Err(format!("a ring is in region {region}, which does not exist"));
    }
    if private_header != 0 {
        return Err("private headers are not supported".into());
    }
    Ok(PlannedRing { region, offset, log2_size, bell })
}

/// Returns the peer's reason, or a note that it gave none.
pub(super) fn or_no_reason(reason: &str) -> &str {
    if reason.is_empty() { "it gave no reason" } else { reason }
}

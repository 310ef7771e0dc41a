//! The server's side of one connection: who may have which interface, and what it brings along. It does no I/O: events
//! and the time in, actions out.
//!
//! ```text
//!   accepted ──HELLO sent──▶ Greeting ──INIT──▶ Collecting ──CONNECT──▶ Up
//!                                 │ nothing of worth within 5 s │        │
//!                                 └────────────▶ Closed ◀───────┴────────┘ DISCONNECT, or anything out of order
//! ```

use super::message::{AddRing, Direction, Hello, Init, Message, SECRET_LEN, VERSION};
use super::{MAX_LOG2_RING, NAME, SECOND};

/// How long a client may take to say all.
const PATIENCE: u64 = 5 * SECOND;
/// Regions that a client may bring: one; or those of its buffers, if it is trusted.
const MAX_REGIONS: usize = 16;
const MAX_REGIONS_TRUSTED: usize = 256;
/// Rings that a client may bring in each direction.
const MAX_RINGS: usize = 64;

/// An interface as a client finds it.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    /// Whether it is set up.
    pub(super) up: bool,
    /// True if the last client broke it a moment ago.
    pub(super) barred: bool,
    /// Whether another client has it.
    pub(super) taken: bool,
    pub(super) secret: Option<[u8; SECRET_LEN]>,
    pub(super) trusted: bool,
    /// Its name, for the peer's operator.
    pub(super) name: String,
}

/// What happened. `F` is a file that came along.
#[derive(Debug)]
pub(super) enum Event<F> {
    /// A message, or the number of a type that is none.
    Message(Result<Message, u16>, Option<F>),
    /// The peer closed the connection.
    Closed,
    /// What was to be done could not be; or the operator wants an end; or the rings are broken. The peer is told why.
    End(String),
}

/// What is to be done, in this order. What is left is forgotten when one fails.
#[derive(Debug, PartialEq)]
pub(super) enum Action<F> {
    Send(Message),
    /// The client has this interface from now on, unless another has it already.
    Claim(u32),
    /// Map the regions and let packets pass.
    Attach(Plan<F>),
    /// Close the connection, for this reason.
    Close(String),
}

/// What a client brought along.
#[derive(Debug, PartialEq)]
pub(super) struct Plan<F> {
    /// The client's program and its interface, in its own words.
    pub(super) peer: String,
    pub(super) peer_interface: String,
    /// Memory: bytes and file of each region.
    pub(super) regions: Vec<(u64, F)>,
    pub(super) to_server: Vec<PlannedRing<F>>,
    pub(super) to_client: Vec<PlannedRing<F>>,
}

/// Where a ring lies, and the file that says that there is something in it.
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

/// One connection.
#[derive(Debug)]
pub(super) struct Server<F> {
    state: State<F>,
    deadline: u64,
    asked: Option<u32>,
}

impl<F> Server<F> {
    /// A client was accepted.
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

    /// The interface that the client has asked for, whether it got it or not.
    pub(super) fn asked(&self) -> Option<u32> {
        self.asked
    }

    /// When [`timeout`](Server::timeout) is due.
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        matches!(self.state, State::Greeting | State::Collecting { .. }).then_some(self.deadline)
    }

    /// The time is over that [`poll_timeout`](Server::poll_timeout) named.
    pub(super) fn timeout(&mut self, now: u64) -> Vec<Action<F>> {
        match self.poll_timeout() {
            Some(due) if due <= now => self.end("the client did not say all that is needed in time"),
            _ => Vec::new(),
        }
    }

    /// Something happened; `listed` says what there is of an interface on this socket.
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
                    return Err(format!("region {index} where {} was due", plan.regions.len()));
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
                    return Err("CONNECT without a ring".into());
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
                Err(format!("{kind} without its file"))
            }
            (_, _, Some(_)) => Err(format!("{kind} with a file, or out of order")),
            _ => Err(format!("{kind} out of order")),
        }
    }

    /// Ends the connection, and tells the peer why.
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

/// Whether a client may have the interface that it asks for.
fn admit(init: &Init, interface: Option<Listed>) -> Result<Listed, String> {
    if init.version != VERSION {
        let (major, minor) = (init.version >> 8, init.version & 0xff);
        return Err(format!("the client speaks version {major}.{minor} of the protocol, this router 2.0"));
    }
    let Some(interface) = interface else {
        return Err(format!("there is no interface with id {} that is a server", init.id));
    };
    let id = init.id;
    if interface.secret.is_some_and(|secret| !same(&secret, &init.secret)) {
        return Err(format!("the secret for interface id {id} is wrong"));
    }
    if init.mode != 0 {
        return Err(format!("interface id {id} has Ethernet packets, not those of mode {}", init.mode));
    }
    match (interface.up, interface.taken) {
        (false, _) => Err(format!("interface id {id} is set down")),
        (_, true) => Err(format!("interface id {id} is connected already")),
        _ if interface.barred => {
            Err(format!("interface id {id} admits nobody for some seconds: the last client broke its rings"))
        }
        _ => Ok(interface),
    }
}

/// Whether two secrets are one. How long it takes tells nothing of where they differ.
fn same(a: &[u8; SECRET_LEN], b: &[u8; SECRET_LEN]) -> bool {
    a.iter().zip(b).fold(0, |d, (a, b)| d | (a ^ b)) == 0
}

fn check_ring<F>(ring: AddRing, bell: F, due: usize, regions: usize) -> Result<PlannedRing<F>, String> {
    let AddRing { index, region, offset, log2_size, private_header, .. } = ring;
    if usize::from(index) != due {
        return Err(format!("ring {index} where {due} was due"));
    }
    if due == MAX_RINGS {
        return Err(format!("more than {MAX_RINGS} rings"));
    }
    if log2_size > MAX_LOG2_RING {
        return Err(format!("a ring of 2^{log2_size} descriptors; there can be 2^{MAX_LOG2_RING}"));
    }
    if usize::from(region) >= regions {
        return Err(format!("a ring in region {region}, of which nothing was said"));
    }
    if private_header != 0 {
        return Err("private headers, which this router does not know".into());
    }
    Ok(PlannedRing { region, offset, log2_size, bell })
}

/// A peer's reason, or word that it gave none.
pub(super) fn or_no_reason(reason: &str) -> &str {
    if reason.is_empty() { "it gave no reason" } else { reason }
}

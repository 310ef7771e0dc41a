//! The table of a program's messages, with the functions that answer requests.

use crate::define::{Done, Dump, Get, Message, Request};
use crate::shape::Info;
use crate::wire::{Malformed, Reader, Writer};
use crate::{Code, crc};

/// The client of a request.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// Number of the client's connection. Registrations for events are stored under this number.
    pub client: u64,
    /// The client's number for the request, which the reply repeats.
    pub context: u32,
}

/// A reply: its return value, and its encoded fields after the header.
pub struct Reply {
    /// The return value; 0 for success.
    pub retval: i32,
    /// The encoded fields after the header.
    pub body: Vec<u8>,
}

/// Returns the next encoded object of a dump; `None` at the end. Changes may be made between two calls, so each call gets the
/// current state.
pub type Cursor<C> = Box<dyn FnMut(&C) -> Option<Vec<u8>>>;

/// Answers a request.
type Answer<C> = Box<dyn Fn(&mut C, &Caller, &mut Reader<'_>) -> Result<Reply, Malformed>>;
/// Begins a dump.
type Begin<C> = Box<dyn Fn(&C, &mut Reader<'_>) -> Result<Cursor<C>, Malformed>>;
/// Answers one request of a dump with cursors: returns some objects, and the reply.
type Part<C> = Box<dyn Fn(&C, &mut Reader<'_>) -> Result<(Vec<Vec<u8>>, Reply), Malformed>>;

/// Returns new events: for each, the number of the client that gets the event, and the encoded fields after the event's header.
pub type Look<C> = Box<dyn Fn(&mut C) -> Vec<(u64, Vec<u8>)>>;

/// A part of a dump with cursors: some objects, and the reply.
pub type Found<Q> = (Vec<<Q as Get>::Details>, Result<<Q as Get>::Reply, Code>);

/// How a request with one reply runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// The request changes nothing but the client's own registrations for events.
    Reading,
    /// The request resets counters, and changes no configuration.
    Operating,
    /// The request may change something, such as the configuration. Its change is made alone, not in one transaction with those of other
    /// requests.
    Alone,
    /// The request changes one object. If more requests for the same message follow, all their changes may be made in one transaction.
    InBatch,
}

/// How a message is served.
pub enum Serve<C> {
    /// The program does not serve this message: it is a reply, a details message or an event.
    No,
    /// The program's socket handles the message itself.
    Socket,
    /// A request with one reply.
    Request {
        /// What the request may change, and with which other requests it runs.
        runs: Runs,
        /// Index of the reply in the table.
        reply: usize,
        /// The function that answers the request.
        answer: Answer<C>,
    },
    /// A request for all objects.
    Dump {
        /// Index of the details message in the table.
        details: usize,
        /// The function that begins the dump.
        begin: Begin<C>,
    },
    /// A request for objects from a cursor on.
    Get {
        /// Index of the details message in the table.
        details: usize,
        /// Index of the reply in the table.
        reply: usize,
        /// The function that returns a part of the objects.
        part: Part<C>,
    },
}

/// How a request is answered, for the JSON definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The name of the reply; for a dump, of its details messages.
    pub reply: String,
    /// The name of the details messages that precede the reply; `None` if there are none.
    pub stream: Option<String>,
    /// True if the answer has several messages.
    pub is_stream: bool,
    /// The names of the events that the request turns on and off.
    pub events: &'static [&'static str],
}

/// A message in the table.
pub struct Entry<C> {
    /// Description of the message.
    pub info: Info,
    /// Checksum of the message's definition.
    pub crc: u32,
    /// Name of the reply, and further properties of the answer, if the message is a request. `None` also for requests that were added by
    /// [`Module::bare`].
    pub service: Option<Service>,
    /// How the program handles the message when a client sends it.
    pub serve: Serve<C>,
    /// Returns the encoded fields, after the head, of a message with default values.
    pub empty: fn() -> Vec<u8>,
}

impl<C> Entry<C> {
    /// Returns the name on the wire, which includes the checksum.
    pub fn wire_name(&self) -> String {
        format!("{}_{:08x}", self.info.name, self.crc)
    }
}

/// A module of messages.
pub struct Listed {
    /// Name of the module.
    pub name: &'static str,
    /// Version of the module: major, minor, patch.
    pub version: [u32; 3],
    /// Indexes of the module's messages in the table.
    pub messages: Vec<usize>,
}

/// All messages of a program. A message's identifier on the wire is its index plus one.
pub struct Table<C> {
    entries: Vec<Entry<C>>,
    modules: Vec<Listed>,
    /// The functions that return new events, with the index of each event's entry.
    looks: Vec<(usize, Look<C>)>,
}

impl<C> Default for Table<C> {
    fn default() -> Self {
        Table { entries: Vec::new(), modules: Vec::new(), looks: Vec::new() }
    }
}

impl<C: 'static> Table<C> {
    /// Returns the module with this name, to which messages are added. Adds the module with this version if it does not exist. Several
    /// features may add messages to one module of VPP.
    pub fn module(&mut self, name: &'static str, version: [u32; 3]) -> Module<'_, C> {
        let at = self.modules.iter().position(|module| module.name == name).unwrap_or_else(|| {
            self.modules.push(Listed { name, version, messages: Vec::new() });
            self.modules.len() - 1
        });
        Module { table: self, at }
    }

    /// Returns all messages, in the order of their identifiers.
    pub fn entries(&self) -> &[Entry<C>] {
        &self.entries
    }

    /// Returns the functions that return new events, each with the identifier of its event's message. The program calls these functions
    /// some tens of times per second.
    pub fn looks(&self) -> impl Iterator<Item = (u16, &Look<C>)> {
        self.looks.iter().map(|(at, look)| (id_of(*at), look))
    }

    /// Returns the modules.
    pub fn modules(&self) -> &[Listed] {
        &self.modules
    }

    /// Returns the message with this identifier on the wire.
    pub fn get(&self, id: u16) -> Option<&Entry<C>> {
        self.entries.get(usize::from(id).checked_sub(1)?)
    }

    /// Returns the identifier of a message, by its name without checksum.
    pub fn id(&self, name: &str) -> Option<u16> {
        let at = self.entries.iter().position(|e| e.info.name == name)?;
        Some(id_of(at))
    }

    /// Returns the messages of a module.
    pub fn entries_of(&self, module: &Listed) -> impl Iterator<Item = &Entry<C>> {
        module.messages.iter().filter_map(|at| self.entries.get(*at))
    }

    fn add<M: Message>(&mut self, to: usize, info: Info, service: Option<Service>, serve: Serve<C>) {
        let empty = || encoded(&M::default());
        if let Some(module) = self.modules.get_mut(to) {
            module.messages.push(self.entries.len());
        }
        self.entries.push(Entry { crc: crc::of(&info), info, service, serve, empty });
    }
}

/// Returns the identifier on the wire of the entry at an index; 0, which no entry has, if the index is too large.
pub fn id_of(at: usize) -> u16 {
    u16::try_from(at + 1).unwrap_or(0)
}

/// Encodes the fields of a message after its head.
pub fn encoded(message: &impl Message) -> Vec<u8> {
    let mut w = Writer::default();
    message.put(&mut w);
    w.into_bytes()
}

/// Encodes a result as a reply. After an error, all fields have their default values.
fn reply<M: Message>(result: Result<M, Code>) -> Reply {
    match result {
        Ok(message) => Reply { retval: 0, body: encoded(&message) },
        Err(Code(retval)) => Reply { retval, body: encoded(&M::default()) },
    }
}

/// A module of a table, to which messages can be added.
pub struct Module<'t, C> {
    table: &'t mut Table<C>,
    /// Index of the module.
    at: usize,
}

impl<C: 'static> Module<'_, C> {
    /// Adds a request that may change something, such as the configuration ([`Runs::Alone`]).
    pub fn request<Q: Request>(self, answer: fn(&mut C, &Caller, Q) -> Result<Q::Reply, Code>) -> Self {
        self.served::<Q>(Runs::Alone, answer)
    }

    /// Adds a request that resets counters, and changes no configuration.
    pub fn operation<Q: Request>(self, answer: fn(&mut C, &Caller, Q) -> Result<Q::Reply, Code>) -> Self {
        self.served::<Q>(Runs::Operating, answer)
    }

    /// Adds a request that changes one object. Clients may send very many of these requests at once, so their changes may be made in one
    /// transaction.
    pub fn request_in_batch<Q: Request>(
        self,
        answer: fn(&mut C, &Caller, Q) -> Result<Q::Reply, Code>,
    ) -> Self {
        self.served::<Q>(Runs::InBatch, answer)
    }

    /// Adds a request that changes nothing but the client's own registrations for events.
    pub fn registration<Q: Request>(self, answer: fn(&mut C, &Caller, Q) -> Result<Q::Reply, Code>) -> Self {
        self.served::<Q>(Runs::Reading, answer)
    }

    /// Adds a request that only reads.
    pub fn question<Q: Request>(self, answer: fn(&C, Q) -> Result<Q::Reply, Code>) -> Self {
        self.served::<Q>(Runs::Reading, move |c, _, q| answer(c, q))
    }

    fn served<Q: Request>(
        self,
        runs: Runs,
        answer: impl Fn(&mut C, &Caller, Q) -> Result<Q::Reply, Code> + 'static,
    ) -> Self {
        let run: Answer<C> =
            Box::new(move |c, caller, r| Q::take(r).map(|request| reply(answer(c, caller, request))));
        let service = service::<Q>();
        let at = self.table.entries.len();
        self.table.add::<Q>(
            self.at,
            Q::info(),
            Some(service),
            Serve::Request { runs, reply: at + 1, answer: run },
        );
        self.table.add::<Q::Reply>(self.at, Q::reply(), None, Serve::No);
        self
    }

    /// Adds a request for all objects. `begin` returns a function that returns one object after the other.
    pub fn dump<Q: Dump, F: FnMut(&C) -> Option<Q::Details> + 'static>(
        self,
        begin: impl Fn(&C, Q) -> F + 'static,
    ) -> Self {
        let begin: Begin<C> = Box::new(move |c, r| {
            let mut next = begin(c, Q::take(r)?);
            Ok(Box::new(move |c: &C| next(c).map(|object| encoded(&object))) as Cursor<C>)
        });
        let info = Q::Details::info();
        let service = Service { reply: info.name.clone(), stream: None, is_stream: true, events: &[] };
        // Several dumps may return the same type of object.
        let known = self.table.entries.iter().position(|e| e.info.name == info.name);
        let details = known.unwrap_or(self.table.entries.len() + 1);
        self.table.add::<Q>(self.at, Q::info(), Some(service), Serve::Dump { details, begin });
        if known.is_none() {
            self.table.add::<Q::Details>(self.at, info, None, Serve::No);
        }
        self
    }

    /// Adds a request for objects, beginning at a cursor. `part` returns some objects, and the reply with the next cursor.
    pub fn get<Q: Get>(self, part: fn(&C, Q) -> Found<Q>) -> Self {
        let part: Part<C> = Box::new(move |c, r| {
            let (objects, end) = part(c, Q::take(r)?);
            Ok((objects.iter().map(encoded).collect(), reply(end)))
        });
        let (details, end) = (Q::Details::info(), Q::Reply::info());
        let service = Service {
            reply: end.name.clone(),
            stream: Some(details.name.clone()),
            is_stream: true,
            events: &[],
        };
        let at = self.table.entries.len();
        self.table.add::<Q>(
            self.at,
            Q::info(),
            Some(service),
            Serve::Get { reply: at + 1, details: at + 2, part },
        );
        self.table.add::<Q::Reply>(self.at, end, None, Serve::No);
        self.table.add::<Q::Details>(self.at, details, None, Serve::No);
        self
    }

    /// Adds a request that the program's socket answers itself.
    pub fn of_socket<Q: Request>(self) -> Self {
        self.table.add::<Q>(self.at, Q::info(), Some(service::<Q>()), Serve::Socket);
        self.table.add::<Q::Reply>(self.at, Q::reply(), None, Serve::No);
        self
    }

    /// Adds a message that the program's socket handles itself. Use this for messages that are not requests, and for requests whose reply
    /// is not added right after them.
    pub fn bare<M: Message>(self) -> Self {
        self.table.add::<M>(self.at, M::info(), None, Serve::Socket);
        self
    }

    /// Adds an event for single clients. The program calls `look` some tens of times per second: it returns new events, each with the
    /// number of its client.
    pub fn event_from<M: Message>(self, look: fn(&mut C) -> Vec<(u64, M)>) -> Self {
        let found =
            move |c: &mut C| look(c).iter().map(|(client, event)| (*client, encoded(event))).collect();
        self.table.looks.push((self.table.entries.len(), Box::new(found)));
        self.event::<M>()
    }

    /// Adds an event.
    pub fn event<M: Message>(self) -> Self {
        self.table.add::<M>(self.at, M::info(), None, Serve::No);
        self
    }
}

fn service<Q: Request>() -> Service {
    Service { reply: Q::reply().name, stream: None, is_stream: false, events: Q::EVENTS }
}

/// Returns a function that returns `objects` one after the other. For a dump of few objects.
pub fn all<C, T>(objects: Vec<T>) -> impl FnMut(&C) -> Option<T> {
    let mut objects = objects.into_iter();
    move |_| objects.next()
}

/// Success without further fields.
pub const DONE: Result<Done, Code> = Ok(Done);

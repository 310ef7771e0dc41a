//! One client's connection.
//!
//! Requests are answered in their order: one after the other, or several together whose changes are made in one transaction ([`batch`]).
//! A dump is made in slices of a millisecond; other clients are served in between. The router identifies the client by the connection,
//! so it ignores the client index in requests.

mod batch;
mod long;

use std::cell::{OnceCell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use model::cli::CliError;
use model::origin::{FrontEnd, Origin, Peer};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time;
use vapi::shape::Head;
use vapi::table::{Entry, Reply, Runs, Serve, encoded, id_of};
use vapi::wire::{Count, Line, Malformed, Reader, Text};
use vapi::{Caller, Code, Message, Table, json};

use self::batch::Held;
use self::long::BUSY;
use crate::api::frame::{self, Input};
use crate::api::memclnt::{
    api_versions_reply, control_ping_reply, get_api_json_reply, get_first_msg_id, get_first_msg_id_reply,
    message_table_entry, module_version, sockclnt_create, sockclnt_create_reply, sockclnt_delete_reply,
};
use crate::api::socket::Service;
use crate::api::vlib::{cli_inband, cli_inband_reply};
use crate::app::{Context, Queue};
use crate::cli::{Client, Entrance, Guest, Hold, Registry, Role, Seat, Share, State, Stream, Turn, Turns};

/// The identifier of `sockclnt_create`. It is fixed, because clients send this message before they know the table of messages.
pub(super) const CREATE: u16 = 15;
/// Time after which other tasks get their turn.
const SLICE: Duration = Duration::from_millis(1);
/// Maximum time for which answers wait for the statistics segment.
const STATISTICS: Duration = Duration::from_millis(50);
/// Size in bytes of the collected answers at which they are sent, even if more requests wait.
const ENOUGH: usize = 64 << 10;
/// Number of bytes reserved in the input buffer before each read. While at least this many bytes wait, [`Socket::glance`] and
/// [`Socket::wait`] read no more.
const PIECE: usize = 64 << 10;
/// Maximum length of a client's first message, in bytes.
const LONGEST_FIRST: usize = 1 << 10;
/// Maximum time for which a client may read none of its answers. After it, the client is disconnected.
const STALLED: Duration = Duration::from_secs(10);
/// Maximum length of a command's output, in bytes.
const LONGEST_OUTPUT: usize = 4 << 20;
/// Maximum total run time of the commands in one request.
const LONGEST_COMMAND: Duration = Duration::from_secs(60);

/// State that all connections of a socket share.
pub(super) struct Api {
    table: Rc<Table<Context>>,
    commands: Rc<Registry<Context>>,
    role: Role,
    turns: Turns,
    /// The definitions of all messages as JSON, made when a client first asks for them.
    json: OnceCell<Rc<str>>,
}

impl Api {
    pub(super) fn new(service: Service) -> Api {
        let Service { table, commands, role, turns, .. } = service;
        Api { table, commands, role, turns, json: OnceCell::new() }
    }
}

/// A client's connection.
pub(super) struct Connection {
    api: Rc<Api>,
    cx: Rc<RefCell<Context>>,
    peer: Peer,
    /// The client's number.
    client: u64,
    events: Rc<Queue>,
    /// The client's entry in the list of clients.
    _guest: Guest,
    /// Answers that are not sent yet.
    out: Vec<u8>,
    /// Requests that are not answered yet, because the changes of their batch are not made yet. Empty whenever other tasks run.
    held: Held,
    share: Share,
    seat: Rc<Seat>,
    /// The memory for answers that the client has not read.
    hold: Hold,
    /// Permission to run on the main thread; only one non-root client has it at a time. `None` while this client does not have it.
    turn: Option<Turn>,
    /// When the current slice began.
    begun: Instant,
    /// True after the client has introduced itself.
    is_known: bool,
}

/// A client's socket, and the bytes that it has sent.
struct Socket {
    from: ReadHalf<Box<dyn Stream>>,
    to: WriteHalf<Box<dyn Stream>>,
    input: Input,
}

impl Socket {
    /// Reads more bytes from the socket. Returns false at the end of the stream.
    async fn more(&mut self) -> io::Result<bool> {
        self.input.bytes.reserve(PIECE);
        Ok(self.from.read_buf(&mut self.input.bytes).await? > 0)
    }

    /// Lets other tasks run once. Reads the client's input meanwhile, but only while fewer than [`PIECE`] bytes wait.
    ///
    /// # Errors
    /// If the client leaves.
    async fn glance(&mut self) -> io::Result<()> {
        let has_room = self.input.bytes.len() < PIECE;
        tokio::select! {
            // Polled first, so that the router notices that the client leaves, even if the other branch is ready, too.
            biased;
            got = self.more(), if has_room => if !got? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            },
            () = tokio::task::yield_now() => return Ok(()),
        }
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Waits for `time`. Reads the client's input meanwhile, but only while fewer than [`PIECE`] bytes wait.
    ///
    /// # Errors
    /// If the client leaves.
    async fn wait(&mut self, time: Duration) -> io::Result<()> {
        let until = time::Instant::now() + time;
        loop {
            let has_room = self.input.bytes.len() < PIECE;
            tokio::select! {
                biased;
                () = time::sleep_until(until) => return Ok(()),
                got = self.more(), if has_room => if !got? {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                },
            }
        }
    }

    /// Sends all bytes. Fails if the client reads nothing for [`STALLED`].
    async fn send(&mut self, mut bytes: &[u8], seat: &Seat) -> io::Result<()> {
        while !bytes.is_empty() {
            seat.enter(State::Told);
            let sent = time::timeout(STALLED, self.to.write(bytes)).await;
            match sent.map_err(|_| invalid("it does not read its answers"))?? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => bytes = &bytes[n..],
            }
            seat.enter(State::Served);
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Nothing borrows the state while tasks are dropped, but a panic here would end the router.
        if let Ok(mut cx) = self.cx.try_borrow_mut() {
            // After an error, requests may still be held. Their changes must not become part of another client's batch.
            cx.end_batch();
            cx.events.leave(self.client);
        }
    }
}

/// The next step of the connection after a message.
#[derive(PartialEq)]
enum Next {
    Message,
    /// The connection ends, as the client requested.
    End,
}

/// The answer to a request. The inner error is a return value.
type Answered = Result<Result<Reply, Code>, Malformed>;

/// Returns the role that a request needs.
fn needed(runs: Runs) -> Role {
    match runs {
        Runs::Reading => Role::Viewer,
        Runs::Operating => Role::Operator,
        Runs::Alone | Runs::InBatch => Role::Admin,
    }
}

fn invalid(why: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_string())
}

impl Connection {
    pub(super) fn new(api: Rc<Api>, cx: Rc<RefCell<Context>>, peer: Peer, pid: Option<i32>) -> Connection {
        let role = api.role;
        let entry = Client { entrance: Entrance::Api, role, peer: peer.clone(), pid };
        let guest = cx.borrow().sessions.enter(entry);
        let (client, events) = cx.borrow_mut().events.enter();
        let (share, seat) = (Share::of(&api.turns, &peer, role), Seat::new(peer.uid()));
        let hold = share.hold(&seat);
        Connection {
            api,
            cx,
            peer,
            client,
            events,
            _guest: guest,
            out: Vec::new(),
            held: Held::default(),
            share,
            seat,
            hold,
            turn: None,
            begun: Instant::now(),
            is_known: false,
        }
    }

    pub(super) fn seat(&self) -> Rc<Seat> {
        self.seat.clone()
    }

    /// Serves the client until it leaves, or until it is disconnected in favor of another client. The client must introduce itself within
    /// `patience`.
    pub(super) async fn serve(self, stream: Box<dyn Stream>, patience: Duration) -> io::Result<()> {
        let seat = self.seat();
        tokio::select! {
            // Checked first: the next request of a disconnected client must not start.
            biased;
            () = seat.left() => {
                Err(invalid("it was idle, and the router needed its slot or its memory for another client"))
            }
            ended = self.answer_all(stream, patience) => ended,
        }
    }

    async fn answer_all(mut self, stream: Box<dyn Stream>, patience: Duration) -> io::Result<()> {
        let (from, to) = tokio::io::split(stream);
        let mut socket = Socket { from, to, input: Input::default() };
        let until = time::Instant::now() + patience;
        loop {
            let events = self.events.clone();
            tokio::select! {
                got = socket.more() => if !got? {
                    return Ok(());
                },
                events = events.next() => {
                    let events = events.map_err(|_| invalid("it does not read its events"))?;
                    for event in events {
                        frame::append(&mut self.out, |out| out.extend(event));
                    }
                }
                () = time::sleep_until(until), if !self.is_known => {
                    return Err(invalid("it did not introduce itself"));
                }
            }
            self.begin_slice().await;
            loop {
                let longest = if self.is_known { frame::LONGEST } else { LONGEST_FIRST };
                let next = socket.input.next(longest);
                let next = next.map_err(|e| invalid(format!("it announced a message of {} bytes", e.0)))?;
                // Copied, because more may arrive while it is answered.
                let Some(message) = next.map(<[u8]>::to_vec) else { break };
                self.seat.begin();
                if self.message(&message, &mut socket).await? == Next::End {
                    return self.flush(&mut socket).await;
                }
                if self.is_batch_over(&socket.input) {
                    self.end_batch();
                }
                if self.held.is_empty() {
                    self.pause(&mut socket).await?;
                }
            }
            socket.input.forget_taken();
            self.flush(&mut socket).await?;
            self.seat.enter(State::Asked);
        }
    }

    /// Begins a slice. A non-root client first waits for its turn: only one non-root client runs at a time.
    async fn begin_slice(&mut self) {
        if self.turn.is_none() {
            self.turn = self.share.take().await;
        }
        self.begun = Instant::now();
    }

    /// Ends the slice, and sends the answers collected so far. Before sending, waits until the statistics segment shows the changes
    /// that the answers report, but at most for [`STATISTICS`].
    async fn flush(&mut self, socket: &mut Socket) -> io::Result<()> {
        if self.turn.is_some() {
            // Keeps the turn until all other tasks have run: a client that sends all the time would have one slice after the other.
            tokio::task::yield_now().await;
            self.turn = None;
        }
        let statistics = {
            let mut c = self.cx.borrow_mut();
            c.note_interfaces();
            c.statistics.clone()
        };
        if !statistics.is_fresh() {
            let _ = time::timeout(STATISTICS, statistics.fresh()).await;
        }
        let out = std::mem::take(&mut self.out);
        let sent = socket.send(&out, &self.seat).await;
        // A smaller reservation is always granted.
        let _ = self.hold.set(0);
        sent
    }

    /// Lets other tasks run if the slice is over. Sends the answers if they have at least [`ENOUGH`] bytes.
    async fn pause(&mut self, socket: &mut Socket) -> io::Result<()> {
        if self.out.len() >= ENOUGH {
            self.flush(socket).await?;
            self.begin_slice().await;
        }
        if self.begun.elapsed() >= SLICE {
            // Keeps the turn until all other tasks have run.
            tokio::task::yield_now().await;
            self.turn = None;
            self.begin_slice().await;
        }
        Ok(())
    }

    /// Handles a message. Like VPP, does not answer messages without a definition.
    async fn message(&mut self, message: &[u8], socket: &mut Socket) -> io::Result<Next> {
        let mut r = Reader::new(message);
        let Ok(id) = r.array().map(u16::from_be_bytes) else {
            return Err(invalid("it sent an empty message"));
        };
        let api = self.api.clone();
        let Some(entry) = api.table.get(id) else {
            tracing::debug!("API: a message has the unknown identifier {id}");
            return Ok(Next::Message);
        };
        self.record(id, false, message.get(2..).unwrap_or_default());
        if !self.can_join(id, entry) {
            self.end_batch();
        }
        let name = entry.info.name.as_str();
        if name == "sockclnt_create" {
            self.create(&mut r).map_err(invalid)?;
            return Ok(Next::Message);
        }
        let head: Result<[u8; 8], _> = r.array();
        let Ok([_, _, _, _, a, b, c, d]) = head else {
            tracing::debug!("API: a message {name} is too short for its header");
            return Ok(Next::Message);
        };
        let caller = Caller { client: self.client, context: u32::from_be_bytes([a, b, c, d]) };
        if name == "sockclnt_delete" {
            let reply = sockclnt_delete_reply { context: caller.context, response: 1 };
            self.bare("sockclnt_delete_reply", &encoded(&reply));
            return Ok(Next::End);
        }
        match &entry.serve {
            Serve::No => tracing::debug!("API: a client sent {name}, which is no request"),
            Serve::Socket => self.own(entry, id, caller, r, socket).await?,
            Serve::Request { runs: Runs::Reading, reply, answer } => {
                let answered = self.run(name, |cx| answer(cx, &caller, &mut r).map(Ok));
                self.answer(*reply, caller, answered);
            }
            Serve::Request { runs, reply, .. } if self.api.role < needed(*runs) => {
                self.answer(*reply, caller, Ok(Err(Code::READ_ONLY)));
            }
            Serve::Request { runs: Runs::InBatch, reply, answer } => {
                if self.cx.borrow().must_be_idle().is_err() {
                    self.end_batch();
                    self.wait_for_changes(Instant::now() + BUSY, socket).await?;
                }
                self.join(id, name, (*reply, caller), |cx| answer(cx, &caller, &mut r).map(Ok));
            }
            Serve::Request { runs: Runs::Alone | Runs::Operating, reply, answer } => {
                let until = Instant::now() + BUSY;
                self.wait_for_changes(until, socket).await?;
                let mut answered = self.run(name, |cx| answer(cx, &caller, &mut r).map(Ok));
                if let Err(code) = self.finish_begun(until, socket).await? {
                    answered = Ok(Err(code));
                }
                self.log_warning(name);
                self.answer(*reply, caller, answered);
            }
            Serve::Dump { details, begin } => {
                let begun = begin(&self.cx.borrow(), &mut r);
                let Ok(mut cursor) = begun else { return Ok(Next::Message) };
                loop {
                    let object = cursor(&self.cx.borrow());
                    let Some(object) = object else { break };
                    self.put(*details, caller, None, &object);
                    self.pause(socket).await?;
                }
            }
            Serve::Get { details, reply, part } => {
                let got = part(&self.cx.borrow(), &mut r);
                let answered = got.map(|(objects, end)| {
                    objects.iter().for_each(|object| self.put(*details, caller, None, object));
                    end
                });
                self.answer(*reply, caller, answered.map(Ok));
            }
        }
        Ok(Next::Message)
    }

    /// Runs a request. Its client and its name become the origin of its changes.
    fn run(&self, name: &str, request: impl FnOnce(&mut Context) -> Answered) -> Answered {
        let mut cx = self.cx.borrow_mut();
        cx.origin = Origin::new(FrontEnd::Api, self.peer.clone(), name);
        request(&mut cx)
    }

    /// Logs and clears the warning about a request's change, if there is one. If it were not cleared, the next command of another client
    /// would show it.
    fn log_warning(&self, name: &str) {
        if let Some(warning) = self.cx.borrow_mut().warning.take() {
            tracing::warn!("API request {name} of {}: {warning}", self.peer);
        }
    }

    /// Appends a reply. The reply has its full size even if the request was malformed or is refused.
    fn answer(&mut self, reply: usize, caller: Caller, answered: Answered) {
        let Reply { retval, body } = match answered {
            Ok(Ok(reply)) => reply,
            Ok(Err(code)) => self.refusal(reply, code),
            Err(_) => self.refusal(reply, Code::INVALID_VALUE),
        };
        self.put(reply, caller, Some(retval), &body);
    }

    fn refusal(&self, reply: usize, Code(retval): Code) -> Reply {
        let body = self.api.table.entries().get(reply).map(|e| (e.empty)()).unwrap_or_default();
        Reply { retval, body }
    }

    /// Records a message, if the operator has switched on the trace of its direction: messages from clients or, with `sent`, to clients.
    /// `bytes` is the message after its identifier.
    fn record(&self, id: u16, sent: bool, bytes: &[u8]) {
        let mut cx = self.cx.borrow_mut();
        let is_on = if sent { cx.messages.sent } else { cx.messages.received };
        if is_on && let Some(entry) = self.api.table.get(id) {
            cx.messages.record((self.client, sent), (id, entry), bytes);
        }
    }

    /// Appends a message to the output. `at` is the index of its definition in the table of messages; the definition determines the
    /// header.
    fn put(&mut self, at: usize, caller: Caller, retval: Option<i32>, body: &[u8]) {
        let head = self.api.table.entries().get(at).map_or(Head::Bare, |e| e.info.head);
        let context = caller.context.to_be_bytes();
        frame::append(&mut self.out, |out| {
            out.extend(id_of(at).to_be_bytes());
            match head {
                Head::Request => out.extend([[0; 4], context].concat()),
                Head::Reply | Head::Unsigned => {
                    out.extend([context, retval.unwrap_or_default().to_be_bytes()].concat());
                }
                Head::Details => out.extend(context),
                Head::Event => out.extend([0; 4]),
                Head::Bare => {}
            }
            out.extend(body);
        });
        let start = self.out.len() - body.len() - head.fields().len() * 4;
        self.record(id_of(at), true, &self.out[start..]);
    }

    /// Appends a message without a header.
    fn bare(&mut self, name: &str, body: &[u8]) {
        if let Some(id) = self.api.table.id(name) {
            frame::append(&mut self.out, |out| {
                out.extend(id.to_be_bytes());
                out.extend(body);
            });
        }
    }

    /// Answers a client's first message with the table of messages.
    fn create(&mut self, r: &mut Reader<'_>) -> Result<(), Malformed> {
        let sockclnt_create { context, name } = sockclnt_create::take(r)?;
        let entries = self.api.table.entries().iter().enumerate();
        let entry = |(at, e): (usize, &Entry<Context>)| message_table_entry {
            index: id_of(at),
            name: Text(e.wire_name()),
        };
        let message_table = entries.map(entry).collect();
        // Bit 31 marks clients of sockets.
        let index = 1 << 31 | self.client as u32;
        let reply = sockclnt_create_reply { context, index, message_table, ..Default::default() };
        self.bare("sockclnt_create_reply", &encoded(&reply));
        self.is_known = true;
        tracing::debug!("API: client '{}' of {} connected", name.0, self.peer);
        Ok(())
    }

    /// Answers a request about the API itself, or one that takes long and therefore runs in slices.
    async fn own(
        &mut self,
        entry: &Entry<Context>,
        id: u16,
        caller: Caller,
        mut r: Reader<'_>,
        socket: &mut Socket,
    ) -> io::Result<()> {
        // The reply's entry follows that of its request. The index of an entry is its identifier less one.
        let reply = usize::from(id);
        let table = self.api.table.clone();
        let body = match entry.info.name.as_str() {
            "control_ping" => {
                let ping =
                    control_ping_reply { client_index: self.client as u32, vpe_pid: std::process::id() };
                Ok(encoded(&ping))
            }
            "memclnt_keepalive" => Ok(Vec::new()),
            "get_api_json" => {
                let json = self.api.json.get_or_init(|| json::all(&table).into()).clone();
                // A client that does not get the memory gets no definitions.
                self.reserve(json.len()).map_err(|_| {
                    invalid("no memory for the message definitions: other clients hold too much (show cli-sessions)")
                })?;
                Ok(encoded(&get_api_json_reply { json: Line(json.to_string()) }))
            }
            "api_versions" => {
                let api_versions = table.modules().iter().map(|module| {
                    let [major, minor, patch] = module.version;
                    module_version { major, minor, patch, name: Text(format!("{}.api", module.name)) }
                });
                Ok(encoded(&api_versions_reply {
                    count: Count::default(),
                    api_versions: api_versions.collect(),
                }))
            }
            "get_first_msg_id" => {
                get_first_msg_id::take(&mut r).map_err(|_| Code::INVALID_VALUE).and_then(|asked| {
                    // The name is followed by a checksum.
                    let named = |name: &str| asked.name.0.rsplit_once('_').is_some_and(|(of, _)| of == name);
                    let module = table.modules().iter().find(|m| named(m.name)).ok_or(Code::NO_SUCH_ENTRY)?;
                    Ok(encoded(&get_first_msg_id_reply {
                        first_msg_id: module.messages.first().map_or(0, |at| id_of(*at)),
                    }))
                })
            }
            "cli_inband" => match cli_inband::take(&mut r) {
                Ok(cli_inband { cmd }) => {
                    let (text, code) = self.command(&cmd.0, socket).await?;
                    let reply_body = encoded(&cli_inband_reply { reply: Line(text) });
                    self.put(reply, caller, Some(code.map_or(0, |code| code.0)), &reply_body);
                    return Ok(());
                }
                Err(_) => Err(Code::INVALID_VALUE),
            },
            // Messages of clients in shared memory.
            _ if entry.service.is_some() => Err(Code::UNIMPLEMENTED),
            _ => return Ok(()),
        };
        self.answer(reply, caller, Ok(body.map(|body| Reply { retval: 0, body })));
        Ok(())
    }

    /// Checks that a request with CLI commands is within its limits: `out` is not too long, there is memory for it, and `until` has
    /// not passed.
    fn within(&mut self, out: &str, until: Instant) -> Result<(), CliError> {
        within(out, until)?;
        self.reserve(out.len())
    }

    /// Reserves memory for an answer of this many bytes. The reservation ends when the answer is sent.
    fn reserve(&mut self, bytes: usize) -> Result<(), CliError> {
        // Memory is needed for the earlier answers, for the text, and for the message with the text.
        self.hold.set(self.out.len() + 2 * bytes)
    }
}

/// Checks that a request with CLI commands is within its limits: `out` is not too long, and `until` has not passed.
fn within(out: &str, until: Instant) -> Result<(), CliError> {
    if out.len() > LONGEST_OUTPUT {
        let why = format!("the output is longer than {LONGEST_OUTPUT} bytes: use volley ctl");
        return Err(CliError::new(why));
    }
    if Instant::now() >= until {
        let seconds = LONGEST_COMMAND.as_secs();
        return Err(CliError::new(format!(
            "stopped after {seconds} s: use volley ctl for commands that wait"
        )));
    }
    Ok(())
}

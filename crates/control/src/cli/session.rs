//! One client's session on the command line.

use super::client::is_farewell;
use super::protocol::{LONGEST_READ, LONGEST_REQUEST, Reply, Request};
use super::sessions::{Client, Guest};
use super::turns::{Hold, Share};
use model::cli::{Answer, Call, CliError, Completion, Job, Registry, Step, Values};
use model::visible::visible;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tokio::time::{self, Instant};

/// The user ID of root.
pub(super) const ROOT: u32 = 0;
/// Bytes that a completion candidate takes in a reply, in addition to its text and its help.
const OF_CANDIDATE: usize = 64;
/// Maximum text in one reply, in bytes.
const CHUNK: usize = 32 << 10;
/// Number of bytes by which the buffer of requests grows at a time.
const PIECE: usize = 4 << 10;
/// Time without input after which the server takes a client for a person and shows it the prompt.
const GREETING: Duration = Duration::from_secs(2);
/// How long a command without output continues after its client has shut down its side of the connection. The client may wait for the
/// answer, or be gone.
const LINGER: Duration = Duration::from_secs(10);
/// Like [`LINGER`], for a client of plain text, which may be a script that ends its input and reads on (`echo ... | nc`), and for a client
/// that has sent more than the router reads ahead.
const LONG_LINGER: Duration = Duration::from_secs(30);
/// Time limit for a rejected client to read why it is rejected.
const FAREWELL: Duration = Duration::from_secs(1);

/// A connection to a client, over a UNIX or a TCP socket.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

/// The state of a client's connection. When the server needs room for a new client, it compares these states to choose a client to
/// disconnect.
pub(crate) struct Seat {
    state: Cell<State>,
    /// When the client last sent a request, or read a part of a reply.
    last: Cell<Instant>,
    /// True after the first whole request.
    spoken: Cell<bool>,
    /// The client's user; `None` if it is not known (TCP).
    user: Option<u32>,
    leave: Notify,
}

/// The messages to a client that is disconnected to make room.
#[derive(Clone)]
pub(super) struct LetGo {
    /// For a client that has been idle for long.
    pub(super) idle: String,
    /// For a client that never sent a request.
    pub(super) silent: String,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum State {
    /// The session waits for a request.
    Asked,
    /// The session waits for the client to read output.
    Told,
    /// The client's command runs.
    Served,
    /// The client is being disconnected. The value is true if no reply is half sent: then the client can be sent the reason.
    Leaving(bool),
}

impl Seat {
    pub(crate) fn new(user: Option<u32>) -> Rc<Seat> {
        Rc::new(Seat {
            user,
            state: Cell::new(State::Asked),
            last: Cell::new(Instant::now()),
            spoken: Cell::new(false),
            leave: Notify::new(),
        })
    }

    /// Returns the time since which the client has been idle; `None` while its command runs, or if the client is being disconnected.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        matches!(self.state.get(), State::Asked | State::Told).then(|| self.last.get())
    }

    /// Returns the time since which the client has read nothing of its pending output; `None` if no output is pending.
    pub(crate) fn told_since(&self) -> Option<Instant> {
        (self.state.get() == State::Told).then(|| self.last.get())
    }

    pub(super) fn is_root(&self) -> bool {
        self.user == Some(ROOT)
    }

    pub(super) fn user(&self) -> Option<u32> {
        self.user
    }

    pub(super) fn has_spoken(&self) -> bool {
        self.spoken.get()
    }

    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.state.get(), State::Leaving(_))
    }

    /// Returns the state.
    pub(crate) fn state(&self) -> State {
        self.state.get()
    }

    /// Disconnects the client.
    pub(super) fn leave(&self) {
        self.state.set(State::Leaving(self.state.get() == State::Asked));
        self.leave.notify_one();
    }

    /// Waits until the client is to be disconnected.
    pub(crate) async fn left(&self) {
        self.leave.notified().await;
    }

    /// Waits until the running command has had no output for `time`.
    async fn quiet(&self, time: Duration) {
        loop {
            let due = self.last.get() + time;
            match self.state.get() {
                // A write is pending. If the client is gone, the write fails.
                State::Told => time::sleep(time).await,
                _ if due <= Instant::now() => return,
                _ => time::sleep_until(due).await,
            }
        }
    }

    /// Notes that a whole request has arrived.
    pub(crate) fn begin(&self) {
        self.spoken.set(true);
        self.enter(State::Served);
    }

    /// Records that the client is active now. Also sets the state of its session, unless the client is being disconnected.
    pub(crate) fn enter(&self, state: State) {
        self.last.set(Instant::now());
        if !self.is_leaving() {
            self.state.set(state);
        }
    }
}

/// The format of a client's input (see `protocol.rs`).
#[derive(Clone, Copy, PartialEq)]
enum Speech {
    Requests,
    Lines,
}

/// A client's session.
pub(super) struct Session<C> {
    requests: Requests,
    replies: Replies,
    registry: Rc<Registry<C>>,
    cx: Rc<RefCell<C>>,
    share: Share,
    client: Client,
}

impl<C: Values + 'static> Session<C> {
    pub(super) fn new(
        stream: Box<dyn Stream>,
        registry: Rc<Registry<C>>,
        cx: Rc<RefCell<C>>,
        prompt: Rc<str>,
        share: Share,
        client: Client,
        guest: Guest,
    ) -> Session<C> {
        let seat = Seat::new(client.peer.uid());
        let (input, output) = tokio::io::split(stream);
        let replies = Replies { output, prompt, speech: Speech::Requests, seat, guest };
        let longest = if client.role.is_admin() { LONGEST_REQUEST } else { LONGEST_READ };
        let requests = Requests { input, buffer: Vec::new(), taken: 0, searched: 0, longest };
        Session { requests, replies, registry, cx, share, client }
    }

    /// Returns a [`Call`] with the client's user and role. The other fields have their defaults.
    fn call(&self) -> Call {
        Call { role: self.client.role, peer: self.client.peer.clone(), ..Call::default() }
    }

    pub(super) fn seat(&self) -> Rc<Seat> {
        Rc::clone(&self.replies.seat)
    }

    /// Serves the client until it leaves or is disconnected. A disconnected client is sent the reason, unless a reply is half sent.
    pub(super) async fn serve(mut self, why: LetGo) -> io::Result<()> {
        let seat = self.seat();
        tokio::select! {
            // Checked first: a disconnected client's next request must not start.
            biased;
            () = seat.left() => {}
            ended = self.answer_all() => return match ended {
                Err(error) if error.kind() == io::ErrorKind::InvalidData => self.farewell(error.to_string()).await,
                ended => ended,
            },
        }
        match seat.state.get() {
            State::Leaving(true) => {
                self.farewell(if seat.has_spoken() { why.idle } else { why.silent }).await
            }
            _ => Ok(()),
        }
    }

    /// Rejects the client, and sends it the reason `why`.
    pub(super) async fn turn_away(mut self, why: String) -> io::Result<()> {
        let speech = time::timeout(GREETING, self.requests.speech()).await;
        self.replies.speech = speech.unwrap_or(Ok(Speech::Lines))?;
        self.farewell(why).await
    }

    async fn farewell(mut self, why: String) -> io::Result<()> {
        let all = async {
            match self.replies.speech {
                Speech::Requests => self.replies.send(&Reply::Closed(why)).await?,
                Speech::Lines => self.replies.write(format!("{why}\n").as_bytes()).await?,
            }
            self.replies.output.shutdown().await?;
            // Closing a socket with unread input would discard the message before the client reads it.
            self.requests.clear();
            while self.requests.more().await? {
                self.requests.clear();
            }
            Ok(())
        };
        time::timeout(FAREWELL, all).await.unwrap_or(Ok(()))
    }

    async fn answer_all(&mut self) -> io::Result<()> {
        let silent = time::timeout(GREETING, self.requests.speech()).await.is_err();
        if silent {
            self.replies.speech = Speech::Lines;
            self.replies.ask().await?;
        }
        // The first byte decides the form, however late it arrives.
        self.replies.speech = self.requests.speech().await?;
        match (self.replies.speech, silent) {
            (Speech::Requests, false) => {}
            // The client is a program after all. End the prompt's line.
            (Speech::Requests, true) => self.replies.write(b"\n").await?,
            (Speech::Lines, false) => self.replies.ask().await?,
            (Speech::Lines, true) => {}
        }
        match self.replies.speech {
            Speech::Requests => self.answer_requests().await,
            Speech::Lines => self.answer_lines().await,
        }
    }

    async fn answer_requests(&mut self) -> io::Result<()> {
        let seat = self.seat();
        while let Some(request) = self.requests.next().await? {
            let from = self.call();
            let Session { requests, replies, registry, cx, share, .. } = self;
            seat.begin();
            tokio::select! {
                () = requests.gone(&seat, LINGER) => return Ok(()),
                answered = answer(&request, from, replies, registry, cx, share) => answered?,
            }
            seat.enter(State::Asked);
        }
        Ok(())
    }

    async fn answer_lines(&mut self) -> io::Result<()> {
        let seat = self.seat();
        while let Some(line) = self.requests.next().await? {
            seat.begin();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim();
            if line.ends_with(" HTTP/1.1") || line.ends_with(" HTTP/1.0") {
                // A web page may have sent this without the user's knowledge, so do not run the following lines.
                return self.replies.write(b"this is not a web server\n").await;
            }
            if is_farewell(line) {
                return Ok(());
            }
            let call = self.call();
            let Session { requests, replies, registry, cx, share, .. } = self;
            let end = tokio::select! {
                () = requests.gone(&seat, LONG_LINGER) => return Ok(()),
                end = run(line, call, replies, registry, cx, share) => end?,
            };
            if let Err(error) = end {
                replies.write(format!("{}\n", error.render()).as_bytes()).await?;
            }
            replies.ask().await?;
        }
        Ok(())
    }
}

async fn answer<C: Values + 'static>(
    request: &[u8],
    from: Call,
    replies: &mut Replies,
    registry: &Rc<Registry<C>>,
    cx: &RefCell<C>,
    share: &Share,
) -> io::Result<()> {
    match serde_json::from_slice(request) {
        Ok(Request::Hello) => {
            let prompt = replies.prompt.to_string();
            replies.send(&Reply::Hello { prompt }).await
        }
        Ok(Request::Run { line, json, directory, binary }) => {
            let call = Call { json, directory: directory.into(), binary, ..from };
            let end = run(&line, call, replies, registry, cx, share).await?;
            let json = json
                || line.split_whitespace().next_back().is_some_and(|last| ["--json", "-j"].contains(&last));
            let told = |error: CliError| if json { error.json() } else { error.render() };
            let reply = end.map_or_else(|error| Reply::Failed(told(error)), |()| Reply::Done);
            replies.send(&reply).await
        }
        Ok(Request::Complete { line }) => {
            let complete = || registry.complete(&cx.borrow(), &line, from.role);
            let completion: Completion = share.turn(complete).await;
            let mut hold = share.hold(&replies.seat);
            let bytes =
                completion.candidates.iter().map(|c| c.text.len() + c.help.len() + OF_CANDIDATE).sum();
            match hold.set(bytes) {
                Ok(()) => replies.send(&Reply::Completion(completion)).await,
                Err(error) => replies.send(&Reply::Failed(error.render())).await,
            }
        }
        Err(error) => replies.send(&Reply::Failed(format!("invalid request: {error}"))).await,
    }
}

/// Runs a command to its end, slice by slice if it is long.
async fn run<C: Values + 'static>(
    line: &str,
    call: Call,
    replies: &mut Replies,
    registry: &Rc<Registry<C>>,
    cx: &RefCell<C>,
    share: &Share,
) -> io::Result<Result<(), CliError>> {
    let _running = replies.guest.runs(line);
    let ran = share.turn(|| registry.run(&mut cx.borrow_mut(), line, call)).await;
    let Answer { text, job } = match ran {
        Ok(answer) => answer,
        Err(error) => return Ok(Err(error)),
    };
    let mut hold = share.hold(&replies.seat);
    if let Err(error) = hold.set(text.len() + job.as_ref().map_or(0, |job| job.kept())) {
        return Ok(Err(error));
    }
    replies.print(&text).await?;
    drop(text);
    match job {
        Some(job) => finish(job, replies, cx, share, hold).await,
        None => Ok(Ok(())),
    }
}

async fn finish<C>(
    mut job: Box<dyn Job<C>>,
    replies: &mut Replies,
    cx: &RefCell<C>,
    share: &Share,
    mut hold: Hold,
) -> io::Result<Result<(), CliError>> {
    loop {
        let mut text = String::new();
        let step = share.turn(|| job.step(&mut cx.borrow_mut(), &mut text)).await;
        if let Err(error) = hold.set(text.len() + job.kept()) {
            return Ok(Err(error));
        }
        replies.print(&text).await?;
        match step {
            Step::Again => tokio::task::yield_now().await,
            Step::After(time) => time::sleep(time).await,
            Step::Data { bytes, told } => {
                replies.send(&Reply::Data { bytes: bytes.len(), told }).await?;
                replies.write(&bytes).await?;
                tokio::task::yield_now().await;
            }
            Step::Done => return Ok(Ok(())),
            Step::Failed(error) => return Ok(Err(error)),
        }
    }
}

/// The output to the client.
struct Replies {
    output: WriteHalf<Box<dyn Stream>>,
    prompt: Rc<str>,
    speech: Speech,
    seat: Rc<Seat>,
    guest: Guest,
}

impl Replies {
    /// Sends text in parts: each part that the client reads counts as progress.
    async fn print(&mut self, text: &str) -> io::Result<()> {
        let text = visible(text);
        let mut text = &*text;
        while !text.is_empty() {
            let (part, rest) = text.split_at(text.floor_char_boundary(CHUNK));
            match self.speech {
                Speech::Requests => self.send(&Reply::Out(part.to_owned())).await?,
                Speech::Lines => self.write(part.as_bytes()).await?,
            }
            text = rest;
        }
        Ok(())
    }

    async fn send(&mut self, reply: &Reply) -> io::Result<()> {
        let mut line = serde_json::to_vec(reply)?;
        line.push(b'\n');
        self.write(&line).await
    }

    /// Shows the prompt.
    async fn ask(&mut self) -> io::Result<()> {
        let prompt = Rc::clone(&self.prompt);
        self.write(prompt.as_bytes()).await?;
        self.seat.enter(State::Asked);
        Ok(())
    }

    /// Sends bytes, without a time limit: the operator may read page by page.
    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.seat.enter(State::Told);
        self.output.write_all(bytes).await?;
        self.seat.enter(State::Served);
        Ok(())
    }
}

/// The input from the client. The buffer holds at most `longest` bytes.
struct Requests {
    input: ReadHalf<Box<dyn Stream>>,
    buffer: Vec<u8>,
    /// Number of bytes already taken from the start of the buffer.
    taken: usize,
    /// End of the part already searched for a line feed.
    searched: usize,
    /// Maximum length of a request, in bytes.
    longest: usize,
}

impl Requests {
    /// Waits for the first byte, and returns the input format that this byte indicates.
    async fn speech(&mut self) -> io::Result<Speech> {
        if self.buffer.is_empty() {
            self.more().await?;
        }
        Ok(match self.buffer.first() {
            Some(b'{' | b'"') => Speech::Requests,
            _ => Speech::Lines,
        })
    }

    /// Returns the next line; `None` at the end of the input. The last line may lack a line feed.
    async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let rest = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.take(self.searched + end + 1)));
            }
            self.searched = self.buffer.len();
            if self.searched - self.taken >= self.longest {
                let why =
                    format!("disconnected: a line or request is longer than {} KiB", self.longest >> 10);
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            if !self.more().await? {
                return Ok((self.taken < self.searched).then(|| self.take(self.searched)));
            }
        }
    }

    /// Returns the buffer's bytes from `taken` to `end`, and sets `taken` to `end`. [`more`](Self::more) later removes all taken
    /// bytes together.
    fn take(&mut self, end: usize) -> Vec<u8> {
        let line = self.buffer.get(self.taken..end).unwrap_or_default().to_vec();
        (self.taken, self.searched) = (end, end);
        line
    }

    /// Returns when the client seems to be gone: when reading from it fails or, after the end of its input, when the command has
    /// had no output for `linger`. Stores the input that arrives meanwhile. If the buffer becomes full, the end of the input cannot be
    /// seen: then the client seems to be gone after [`LONG_LINGER`].
    async fn gone(&mut self, seat: &Seat, linger: Duration) {
        while self.buffer.len() - self.taken < self.longest {
            match self.more().await {
                Ok(true) => {}
                // The client has shut down its side, but may still read.
                Ok(false) => return seat.quiet(linger).await,
                Err(_) => return,
            }
        }
        seat.quiet(LONG_LINGER).await;
    }

    /// Reads more input. Returns false at the end of the input. No input is lost if the future is dropped.
    async fn more(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        let room = self.longest - self.buffer.len();
        // Without this reservation, reading into a full buffer would double the buffer.
        self.buffer.reserve_exact(room.min(PIECE));
        Ok((&mut self.input).take(room as u64).read_buf(&mut self.buffer).await? > 0)
    }

    /// Discards all input.
    fn clear(&mut self) {
        self.buffer.clear();
        (self.taken, self.searched) = (0, 0);
    }
}

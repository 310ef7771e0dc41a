//! One client of the command line, from its first byte to its end.

use super::client::is_farewell;
use super::protocol::{LONGEST_REQUEST, Reply, Request};
use super::turns::{Share, Turns};
use model::cli::{Answer, Call, CliError, Completion, Job, Registry, Step, Values};
use model::origin::Peer;
use model::visible::visible;
use std::cell::{Cell, RefCell};
use std::future;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tokio::time::{self, Instant};

/// The number of the user root.
pub(super) const ROOT: u32 = 0;
/// How much text goes into one reply, in bytes.
const CHUNK: usize = 32 << 10;
/// How long a client may be silent before it counts as a person, who is shown a prompt.
const GREETING: Duration = Duration::from_secs(2);
/// How long a command that says nothing runs on for a client that has closed its side: it may wait for the answer, or be gone.
const LINGER: Duration = Duration::from_secs(10);
/// How long a client that is sent away is given to read why.
const FAREWELL: Duration = Duration::from_secs(1);

/// A connection of either kind.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

/// What is known of a client to those who look for one that can go.
pub(super) struct Seat {
    state: Cell<State>,
    /// When it last sent a request, or took a part of a reply.
    last: Cell<Instant>,
    /// Whether it ever sent a whole request.
    spoken: Cell<bool>,
    /// Whether it is one of root's.
    is_root: bool,
    leave: Notify,
}

/// What a client is told that has to go.
#[derive(Clone)]
pub(super) struct LetGo {
    /// One that has done nothing for long.
    pub(super) idle: String,
    /// One that never said anything.
    pub(super) silent: String,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// A request is waited for.
    Asked,
    /// It is waited for until it has read.
    Told,
    /// Its command runs.
    Served,
    /// It is to go; with a word of farewell, unless it is in the middle of a reply.
    Leaving(bool),
}

impl Seat {
    fn new(is_root: bool) -> Rc<Seat> {
        Rc::new(Seat {
            is_root,
            state: Cell::new(State::Asked),
            last: Cell::new(Instant::now()),
            spoken: Cell::new(false),
            leave: Notify::new(),
        })
    }

    /// Since when it has done nothing; `None` while its command runs, or when it leaves anyway.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        matches!(self.state.get(), State::Asked | State::Told).then(|| self.last.get())
    }

    pub(super) fn is_root(&self) -> bool {
        self.is_root
    }

    pub(super) fn has_spoken(&self) -> bool {
        self.spoken.get()
    }

    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.state.get(), State::Leaving(_))
    }

    /// Tells it to go.
    pub(super) fn leave(&self) {
        self.state.set(State::Leaving(self.state.get() == State::Asked));
        self.leave.notify_one();
    }

    /// Waits until the command that runs has had nothing to say for so long.
    async fn quiet(&self, time: Duration) {
        loop {
            let due = self.last.get() + time;
            match self.state.get() {
                // Should it be gone, that shows by itself.
                State::Told => time::sleep(time).await,
                _ if due <= Instant::now() => return,
                _ => time::sleep_until(due).await,
            }
        }
    }

    /// A whole request has come.
    fn begin(&self) {
        self.spoken.set(true);
        self.enter(State::Served);
    }

    fn enter(&self, state: State) {
        self.last.set(Instant::now());
        if !self.is_leaving() {
            self.state.set(state);
        }
    }
}

/// How a client speaks (see `protocol.rs`).
#[derive(Clone, Copy, PartialEq)]
enum Speech {
    Requests,
    Lines,
}

/// A client.
pub(super) struct Session<C> {
    requests: Requests,
    replies: Replies,
    registry: Rc<Registry<C>>,
    cx: Rc<RefCell<C>>,
    read_only: bool,
    share: Share,
    peer: Peer,
}

impl<C: Values + 'static> Session<C> {
    pub(super) fn new(
        stream: Box<dyn Stream>,
        registry: Rc<Registry<C>>,
        cx: Rc<RefCell<C>>,
        prompt: Rc<str>,
        read_only: bool,
        turns: &Turns,
        peer: Peer,
    ) -> Session<C> {
        let is_root = peer.uid() == Some(ROOT);
        let share = Share::of(turns, is_root);
        let (input, output) = tokio::io::split(stream);
        let replies = Replies { output, prompt, speech: Speech::Requests, seat: Seat::new(is_root) };
        let requests = Requests { input, buffer: Vec::new(), taken: 0, searched: 0 };
        Session { requests, replies, registry, cx, read_only, share, peer }
    }

    pub(super) fn seat(&self) -> Rc<Seat> {
        Rc::clone(&self.replies.seat)
    }

    /// Answers until the client is gone, or told to go, which it is told why.
    pub(super) async fn serve(mut self, why: LetGo) -> io::Result<()> {
        let seat = self.seat();
        tokio::select! {
            // First: what a client that has to go asks for in the same moment is not begun.
            biased;
            () = seat.leave.notified() => {}
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

    /// Says why there is no place for the client.
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
            // To close with something unread would take the words away from the client before it has read them.
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
        // What is said decides, however late: no request is a command, and no command a request.
        self.replies.speech = self.requests.speech().await?;
        match (self.replies.speech, silent) {
            (Speech::Requests, false) => {}
            // The prompt is not for a program, but stands in a line of its own.
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
            let Session { requests, replies, registry, cx, read_only, share, peer } = self;
            let from = Call { read_only: *read_only, peer: peer.clone(), ..Call::default() };
            seat.begin();
            tokio::select! {
                () = requests.gone(&seat) => return Ok(()),
                answered = answer(&request, from, replies, registry, cx, share) => answered?,
            }
            seat.enter(State::Asked);
        }
        Ok(())
    }

    async fn answer_lines(&mut self) -> io::Result<()> {
        while let Some(line) = self.requests.next().await? {
            self.replies.seat.begin();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim();
            if line.ends_with(" HTTP/1.1") || line.ends_with(" HTTP/1.0") {
                // A browser, whose user may know nothing of it; what follows is not for this user to say.
                return self.replies.write(b"this is no web server\n").await;
            }
            if is_farewell(line) {
                return Ok(());
            }
            let call = Call { read_only: self.read_only, peer: self.peer.clone(), ..Call::default() };
            let end = run(line, call, &mut self.replies, &self.registry, &self.cx, &self.share).await?;
            if let Err(error) = end {
                self.replies.write(format!("{}\n", error.render()).as_bytes()).await?;
            }
            self.replies.ask().await?;
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
            let complete = || registry.complete(&cx.borrow(), &line, from.read_only);
            let completion: Completion = share.turn(complete).await;
            replies.send(&Reply::Completion(completion)).await
        }
        Err(error) => replies.send(&Reply::Failed(format!("this is no request: {error}"))).await,
    }
}

/// Runs a command to its end; a long one slice by slice.
async fn run<C: Values + 'static>(
    line: &str,
    call: Call,
    replies: &mut Replies,
    registry: &Rc<Registry<C>>,
    cx: &RefCell<C>,
    share: &Share,
) -> io::Result<Result<(), CliError>> {
    let ran = share.turn(|| registry.run(&mut cx.borrow_mut(), line, call)).await;
    let Answer { text, job } = match ran {
        Ok(answer) => answer,
        Err(error) => return Ok(Err(error)),
    };
    replies.print(&text).await?;
    match job {
        Some(job) => finish(job, replies, cx, share).await,
        None => Ok(Ok(())),
    }
}

async fn finish<C>(
    mut job: Box<dyn Job<C>>,
    replies: &mut Replies,
    cx: &RefCell<C>,
    share: &Share,
) -> io::Result<Result<(), CliError>> {
    loop {
        let mut text = String::new();
        let step = share.turn(|| job.step(&mut cx.borrow_mut(), &mut text)).await;
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

/// What goes to the client.
struct Replies {
    output: WriteHalf<Box<dyn Stream>>,
    prompt: Rc<str>,
    speech: Speech,
    seat: Rc<Seat>,
}

impl Replies {
    /// Sends text in parts that each make progress, however long it is.
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

    /// However long it takes: somebody may be reading, page by page.
    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.seat.enter(State::Told);
        self.output.write_all(bytes).await?;
        self.seat.enter(State::Served);
        Ok(())
    }
}

/// The requests that arrive, of which no more is kept than the longest one may be.
struct Requests {
    input: ReadHalf<Box<dyn Stream>>,
    buffer: Vec<u8>,
    /// How much at the start of the buffer was taken already.
    taken: usize,
    /// Up to here there is no line feed behind what was taken.
    searched: usize,
}

impl Requests {
    /// How the client speaks, by its first byte, which is waited for.
    async fn speech(&mut self) -> io::Result<Speech> {
        if self.buffer.is_empty() {
            self.more().await?;
        }
        Ok(match self.buffer.first() {
            Some(b'{' | b'"') => Speech::Requests,
            _ => Speech::Lines,
        })
    }

    /// The next line; `None` at the end. What follows the last line feed is a line too.
    async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let rest = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.take(self.searched + end + 1)));
            }
            self.searched = self.buffer.len();
            if self.searched - self.taken >= LONGEST_REQUEST {
                let why =
                    format!("disconnected: a line or a request has {} KiB at most", LONGEST_REQUEST >> 10);
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            if !self.more().await? {
                return Ok((self.taken < self.searched).then(|| self.take(self.searched)));
            }
        }
    }

    /// Takes what comes before `end`. The buffer is tidied up by [`more`](Self::more): it may hold very many lines.
    fn take(&mut self, end: usize) -> Vec<u8> {
        let line = self.buffer.get(self.taken..end).unwrap_or_default().to_vec();
        (self.taken, self.searched) = (end, end);
        line
    }

    /// Waits until the client is gone, or seems to be; keeps what it sends meanwhile.
    async fn gone(&mut self, seat: &Seat) {
        while self.buffer.len() - self.taken < LONGEST_REQUEST {
            match self.more().await {
                Ok(true) => {}
                // It may read on.
                Ok(false) => return seat.quiet(LINGER).await,
                Err(_) => return,
            }
        }
        // The rest stays with the system until there is room; that the client is gone shows when it is written to.
        future::pending().await
    }

    /// Whether something was read; nothing is lost if this is not awaited to the end.
    async fn more(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        let room = LONGEST_REQUEST - self.buffer.len();
        Ok((&mut self.input).take(room as u64).read_buf(&mut self.buffer).await? > 0)
    }

    /// Forgets what has come.
    fn clear(&mut self) {
        self.buffer.clear();
        (self.taken, self.searched) = (0, 0);
    }
}

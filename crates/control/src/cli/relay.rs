//! Reads and closes clients' sockets in separate threads instead of the main thread.
//!
//! A client may pass open files with its data. The kernel closes unclaimed files when a thread reads from the socket or closes it. Closing
//! such a file can block forever: for example a socket that lingers, or a file of a FUSE server that never answers. So each client's socket
//! belongs to a separate thread, which may hang. The thread relays bytes between this socket and a socket pair of the router.
//!
//! Since Linux 6.16 the kernel can refuse passed files (`SO_PASSRIGHTS`). Older kernels are common.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{setsockopt, sockopt};

/// Buffer size for each direction, in bytes.
const ROOM: usize = 16 << 10;
/// Size of a socket's send buffer, in bytes. The kernel counts the data in it as memory of the router until the client reads.
const SEND_BUFFER: usize = 32 << 10;
/// After the session has ended, the rest of its output is discarded if the client reads nothing for this long. After the client has left,
/// the session ends if the session neither reads nor writes for this long.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Stack size of a thread, in bytes.
const STACK: usize = 128 << 10;

/// Maximum number of threads that wait at once for clients to read the rest of their output.
const MOST_FINISHING: usize = 64;

/// A client's socket that is not closed on drop, because closing it may hang.
pub(super) type Unclosed = std::mem::ManuallyDrop<UnixStream>;

/// Counts the threads of a listener's clients.
#[derive(Clone, Default)]
pub(super) struct Relays {
    counts: Arc<Counts>,
    /// True if the kernel refuses files that clients pass over these sockets. Closing such a socket never hangs.
    pub(super) refuses_files: bool,
}

#[derive(Default)]
struct Counts {
    all: AtomicUsize,
    /// Number of threads that wait for a client to read the rest of its output after the client's session has ended.
    finishing: AtomicUsize,
    /// Sockets that a thread still has to close, each with a last message for its client. These clients have no session.
    left: Mutex<Vec<(Unclosed, Arc<[u8]>)>>,
}

impl Counts {
    fn next_left(&self) -> Option<(Unclosed, Arc<[u8]>)> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

/// Increases a count by one until dropped.
struct Entered {
    counts: Arc<Counts>,
    which: fn(&Counts) -> &AtomicUsize,
    /// The count before the increase.
    before: usize,
}

impl Entered {
    fn new(counts: &Arc<Counts>, which: fn(&Counts) -> &AtomicUsize) -> Entered {
        let before = which(counts).fetch_add(1, Ordering::AcqRel);
        Entered { counts: counts.clone(), which, before }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        (self.which)(&self.counts).fetch_sub(1, Ordering::AcqRel);
    }
}

impl Relays {
    /// Returns counters, all 0, for the threads of a listener's clients. `refuses_files` is true if the kernel refuses files that
    /// these clients pass.
    pub(super) fn new(refuses_files: bool) -> Relays {
        Relays { refuses_files, ..Relays::default() }
    }

    /// Queues a client's socket as if no thread could be started to close it.
    #[cfg(test)]
    pub(super) fn leave(&self, client: UnixStream, words: &[u8]) {
        self.counts.left.lock().unwrap().push((Unclosed::new(client), words.into()));
    }

    /// Returns the number of threads.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.counts.all.load(Ordering::Acquire)
    }

    /// Returns the number of hanging threads: those that neither serve one of the `sessions` sessions nor wait for a client to read.
    pub(super) fn hanging(&self, sessions: usize) -> usize {
        let finishing = self.counts.finishing.load(Ordering::Acquire);
        self.counts.all.load(Ordering::Acquire).saturating_sub(sessions + finishing)
    }

    /// Starts a thread that relays between the client's socket and a new socket pair. Returns the router's end of the pair, which is
    /// non-blocking. If no thread or descriptor is left, returns the client's own socket instead, provided that the kernel refuses files
    /// passed on it.
    ///
    /// # Errors
    /// If no descriptor or thread is left, and the client may pass files. Another thread then closes the client's socket later.
    pub(super) fn stand_in(&self, client: Unclosed) -> io::Result<UnixStream> {
        self.stand_in_by(client, UnixStream::pair)
    }

    fn stand_in_by(
        &self,
        client: Unclosed,
        pair: impl FnOnce() -> io::Result<(UnixStream, UnixStream)>,
    ) -> io::Result<UnixStream> {
        let entered = Entered::new(&self.counts, |counts| &counts.all);
        // The socket is shared with the thread. If the thread cannot be started, its closure is dropped, but this function still has the
        // socket.
        let client = Arc::new(Mutex::new(Some(client)));
        let take =
            |client: &Mutex<Option<Unclosed>>| client.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (theirs, mut ways) = (client.clone(), [Way::new(), Way::new()]);
        let ready = pair().and_then(|(outer, inner)| {
            let sockets = client.lock().unwrap_or_else(PoisonError::into_inner);
            for socket in [sockets.as_deref(), Some(&outer), Some(&inner)].into_iter().flatten() {
                socket.set_nonblocking(true)?;
                setsockopt(socket, sockopt::SndBuf, &SEND_BUFFER)?;
            }
            drop(sockets);
            spawn(move || {
                let Some(client) = take(&theirs) else { return };
                relay(&client, &outer, &entered.counts, &mut ways);
                // This ends the session. The next drop may hang.
                drop(outer);
                drop(std::mem::ManuallyDrop::into_inner(client));
                drop(entered);
            })?;
            Ok(inner)
        });
        let error = match ready {
            Ok(inner) => return Ok(inner),
            Err(error) => error,
        };
        match take(&client) {
            // A thread is not needed here, so an operator can connect even when threads have run out.
            Some(client) if self.refuses_files => {
                let client = std::mem::ManuallyDrop::into_inner(client);
                client.set_nonblocking(true)?;
                Ok(client)
            }
            client => {
                self.close(client.into_iter().collect(), &Arc::from([]));
                Err(error)
            }
        }
    }

    /// Sends a message to clients and closes their sockets. A thread does this, because closing may hang; if the kernel refuses passed
    /// files, no thread is needed. If no thread can be started, the sockets wait for [`close_left`](Relays::close_left).
    pub(super) fn close(&self, clients: Vec<Unclosed>, words: &Arc<[u8]>) {
        if self.refuses_files {
            clients.into_iter().for_each(|client| send_off(client, words));
            return;
        }
        let all = clients.into_iter().map(|client| (client, words.clone()));
        self.counts.left.lock().unwrap_or_else(PoisonError::into_inner).extend(all);
        self.close_left();
    }

    /// True if sockets of clients wait for a thread to close them.
    pub(super) fn has_left(&self) -> bool {
        !self.counts.left.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Starts a thread that closes the waiting sockets, if there are any.
    pub(super) fn close_left(&self) {
        if !self.has_left() {
            return;
        }
        let entered = Entered::new(&self.counts, |counts| &counts.all);
        // If no thread can be started, the sockets wait for the next thread.
        let _ = spawn(move || {
            // One at a time: if closing one hangs, another thread closes the rest.
            while let Some((client, words)) = entered.counts.next_left() {
                send_off(client, &words);
            }
            drop(entered);
        });
    }
}

/// Sends a message to a client and closes its socket. This may hang if clients can pass files.
fn send_off(client: Unclosed, words: &[u8]) {
    // This is the first message, so the socket buffer has room for it.
    let _ = client.set_nonblocking(true).and_then(|()| (&*client).write(words));
    drop(std::mem::ManuallyDrop::into_inner(client));
}

/// Starts a thread for clients.
fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("volley_cli".into()).stack_size(STACK).spawn(work).map(|_| ())
}

/// Relays bytes until both directions have ended. If the session closes its socket first, the rest of its output is still passed on to the
/// client. Allocates nothing, because each thread that allocates gets a heap of half a MiB.
fn relay(client: &UnixStream, router: &UnixStream, counts: &Arc<Counts>, [inwards, outwards]: &mut [Way; 2]) {
    // A socket that has hung up is no longer polled: poll would return at once, every time.
    let (mut client_is_there, mut router_is_there) = (true, true);
    let (mut moved, mut finishing) = (Instant::now(), None);
    loop {
        let n = inwards.pass(client, router) + outwards.pass(router, client);
        if n > 0 {
            moved = Instant::now();
        }
        if outwards.is_broken() {
            // The session's next write fails.
            let _ = router.shutdown(Shutdown::Read);
        }
        if (inwards.has_ended() && outwards.has_ended()) || (!router_is_there && outwards.has_ended()) {
            return;
        }
        if !router_is_there {
            let entered = finishing.get_or_insert_with(|| Entered::new(counts, |counts| &counts.finishing));
            if entered.before >= MOST_FINISHING {
                return;
            }
        }
        // A session that waits to write does not notice that its client has left.
        let is_over = !router_is_there || outwards.is_broken();
        let left = is_over.then(|| (moved + LAST_WORDS).saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return;
        }
        let of = |reads: bool, writes: bool| {
            PollFlags::from_iter(
                [(reads, PollFlags::POLLIN), (writes, PollFlags::POLLOUT)]
                    .map(|(b, f)| if b { f } else { PollFlags::empty() }),
            )
        };
        let of_client = PollFd::new(client.as_fd(), of(inwards.wants(), outwards.waits()));
        let of_router = PollFd::new(router.as_fd(), of(outwards.wants(), inwards.waits()));
        let mut files = [of_client, of_router];
        let first = if client_is_there { 0 } else { 1 };
        let last = if router_is_there { 2 } else { 1 };
        let files = files.get_mut(first..last).unwrap_or_default();
        let time = left.map_or(PollTimeout::NONE, |t| PollTimeout::try_from(t).unwrap_or(PollTimeout::MAX));
        // If the poll fails, the loop moves bytes and polls again.
        let _ = poll(files, time);
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR;
        let mut is_there = files.iter().map(|f| !f.revents().is_some_and(|r| r.intersects(gone)));
        if client_is_there && is_there.next() == Some(false) {
            (client_is_there, moved) = (false, Instant::now());
            outwards.break_off();
        }
        if router_is_there && is_there.next() == Some(false) {
            router_is_there = false;
            inwards.break_off();
        }
    }
}

/// One direction of the relay.
struct Way {
    bytes: Vec<u8>,
    /// Number of bytes of `bytes` that have been written.
    written: usize,
    state: State,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum State {
    #[default]
    Open,
    /// All input has been read, but perhaps not yet passed on.
    Read,
    /// All input has been passed on to the reader, and so has the end of the input.
    Ended,
    /// The reader has closed its socket.
    Broken,
}

impl Way {
    fn new() -> Way {
        Way { bytes: Vec::with_capacity(ROOM), written: 0, state: State::Open }
    }

    fn wants(&self) -> bool {
        self.state == State::Open && self.bytes.is_empty()
    }

    fn waits(&self) -> bool {
        !self.bytes.is_empty()
    }

    fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended | State::Broken)
    }

    fn is_broken(&self) -> bool {
        self.state == State::Broken
    }

    fn break_off(&mut self) {
        if !self.has_ended() {
            self.state = State::Broken;
        }
        self.bytes.clear();
    }

    /// Relays as much as possible without blocking. Returns the number of bytes passed on.
    fn pass(&mut self, mut from: &UnixStream, mut to: &UnixStream) -> usize {
        let mut passed = 0;
        loop {
            if self.bytes.is_empty() && self.state == State::Open {
                self.bytes.resize(ROOM, 0);
                let n = match from.read(&mut self.bytes) {
                    Ok(n) => Some(n),
                    Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
                    // A broken connection counts as the end.
                    Err(_) => Some(0),
                };
                self.bytes.truncate(n.unwrap_or(0));
                self.written = 0;
                match n {
                    None => return passed,
                    Some(0) => self.state = State::Read,
                    Some(_) => {}
                }
            }
            let rest = self.bytes.get(self.written..).unwrap_or_default();
            if rest.is_empty() {
                self.bytes.clear();
                if self.state == State::Read {
                    let _ = to.shutdown(Shutdown::Write);
                    self.state = State::Ended;
                }
                if self.state != State::Open {
                    return passed;
                }
                continue;
            }
            match to.write(rest) {
                Ok(n) => (self.written, passed) = (self.written + n, passed + n),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return passed,
                Err(_) => {
                    self.break_off();
                    return passed;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use nix::libc::linger;
    use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    /// Returns a client's socket, and the router's end of the relay.
    fn pair(relays: &Relays) -> (UnixStream, UnixStream) {
        let (client, accepted) = UnixStream::pair().unwrap();
        let inner = stand_in(relays, &client, accepted);
        (client, inner)
    }

    fn stand_in(relays: &Relays, client: &UnixStream, accepted: UnixStream) -> UnixStream {
        let inner = relays.stand_in(Unclosed::new(accepted)).unwrap();
        inner.set_nonblocking(false).unwrap();
        for socket in [client, &inner] {
            socket.set_read_timeout(Some(LONG)).unwrap();
        }
        inner
    }

    fn all_ended(relays: &Relays) -> bool {
        let end = Instant::now() + LONG;
        while relays.count() > 0 && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
        relays.count() == 0
    }

    #[test]
    fn large_data_and_half_close_pass_both_ways() {
        let relays = Relays::default();
        let (mut client, mut inner) = pair(&relays);
        let bytes: Vec<u8> = (0..300_000u32).map(|i| (i * 7) as u8).collect();
        let echo = thread::spawn(move || {
            let mut all = Vec::new();
            // The read ends when the client has shut down its direction. The other direction is still open.
            inner.read_to_end(&mut all).unwrap();
            inner.write_all(&all).unwrap();
        });
        let (mut writer, sent) = (client.try_clone().unwrap(), bytes.clone());
        let write = thread::spawn(move || {
            writer.write_all(&sent).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut back = Vec::new();
        client.read_to_end(&mut back).unwrap();
        assert!(back == bytes);
        write.join().unwrap();
        echo.join().unwrap();
        assert!(all_ended(&relays));
    }

    #[test]
    fn client_is_closed_without_a_free_descriptor() {
        let relays = Relays::default();
        let (mut client, accepted) = UnixStream::pair().unwrap();
        client.set_read_timeout(Some(LONG)).unwrap();
        let full = || Err(nix::errno::Errno::EMFILE.into());
        let refused = relays.stand_in_by(Unclosed::new(accepted), full).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(nix::libc::EMFILE));
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "the other end is not closed");
        assert!(all_ended(&relays));
        // A socket left without a thread is closed once a thread can be started.
        let (mut client, accepted) = UnixStream::pair().unwrap();
        client.set_read_timeout(Some(LONG)).unwrap();
        relays.leave(accepted, b"too many");
        relays.close_left();
        let mut said = String::new();
        client.read_to_string(&mut said).unwrap();
        assert_eq!(said, "too many");
        assert!(all_ended(&relays));
    }

    #[test]
    fn client_that_cannot_pass_files_needs_no_thread() {
        let relays = Relays::new(true);
        let (mut client, accepted) = UnixStream::pair().unwrap();
        let full = || Err(nix::errno::Errno::EAGAIN.into());
        let mut own = relays.stand_in_by(Unclosed::new(accepted), full).unwrap();
        client.write_all(b"show version").unwrap();
        let mut said = [0; 12];
        own.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"show version");
        assert_eq!(own.read(&mut said).unwrap_err().kind(), ErrorKind::WouldBlock, "the socket blocks");
        assert!(all_ended(&relays));
    }

    #[test]
    fn writing_to_a_closed_client_fails() {
        let relays = Relays::default();
        let (mut client, mut inner) = pair(&relays);
        client.write_all(b"show version\n").unwrap();
        drop(client);
        let mut said = String::new();
        inner.read_to_string(&mut said).unwrap();
        assert_eq!(said, "show version\n", "input sent before the close is lost");
        let end = Instant::now() + LONG;
        while inner.write_all(b"answer").is_ok() {
            assert!(Instant::now() < end);
            thread::sleep(Duration::from_millis(1));
        }
        drop(inner);
        assert!(all_ended(&relays));
    }

    #[test]
    fn client_that_reads_nothing_loses_its_thread() {
        let relays = Relays::default();
        let (client, inner) = pair(&relays);
        inner.set_nonblocking(true).unwrap();
        let end = Instant::now() + Duration::from_millis(100);
        while Instant::now() < end {
            let _ = (&inner).write(&[0; 4096]);
        }
        drop(inner);
        assert!(all_ended(&relays));
        drop(client);
    }

    /// A session ends soon after its client has left, even if the session waits to write and its input buffer is full.
    #[test]
    fn session_of_a_client_that_has_left_ends_although_it_waits() {
        let relays = Relays::default();
        let (client, inner) = pair(&relays);
        for socket in [&client, &inner] {
            socket.set_nonblocking(true).unwrap();
        }
        let end = Instant::now() + Duration::from_millis(100);
        while Instant::now() < end {
            let _ = (&inner).write(&[0; 4096]);
            let _ = (&client).write(&[0; 4096]);
        }
        drop(client);
        let mut files = [PollFd::new(inner.as_fd(), PollFlags::POLLOUT)];
        poll(&mut files, PollTimeout::try_from(LONG).unwrap()).unwrap();
        assert!(files[0].revents().is_some_and(|r| r.contains(PollFlags::POLLHUP)), "{files:?}");
        drop(inner);
        assert!(all_ended(&relays));
    }

    #[test]
    fn threads_waiting_for_readers_are_limited() {
        let relays = Relays::default();
        let clients: Vec<UnixStream> = (0..MOST_FINISHING + 20)
            .map(|_| {
                let (client, inner) = pair(&relays);
                inner.set_nonblocking(true).unwrap();
                // More than the buffers in between can hold.
                let end = Instant::now() + LONG;
                let mut full = 0;
                while full < 20 && Instant::now() < end {
                    full = if (&inner).write(&[0; 65_536]).is_ok() { 0 } else { full + 1 };
                    thread::sleep(Duration::from_micros(100));
                }
                client
            })
            .collect();
        // All sessions have ended, and no client has read anything.
        let end = Instant::now() + LONG;
        while relays.hanging(0) > 0 || relays.count() > MOST_FINISHING {
            assert!(Instant::now() < end, "{} of {}", relays.hanging(0), relays.count());
            thread::sleep(Duration::from_millis(1));
        }
        drop(clients);
        assert!(all_ended(&relays));
    }

    #[test]
    fn hanging_close_of_a_passed_file_stops_one_thread_only() {
        let relays = Relays::default();
        let (client, accepted) = UnixStream::pair().unwrap();
        // The last close of this TCP socket waits up to a minute for the other end to read everything.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (reader, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        while (&stream).write(&[0; 65_536]).is_ok() {}
        stream.set_nonblocking(false).unwrap();
        setsockopt(&stream, sockopt::Linger, &linger { l_onoff: 1, l_linger: 60 }).unwrap();
        let files = [stream.as_raw_fd()];
        let control = [ControlMessage::ScmRights(&files)];
        let parts = [io::IoSlice::new(b"show version\n")];
        sendmsg::<()>(client.as_raw_fd(), &parts, &control, MsgFlags::empty(), None).unwrap();
        // Now only the UNIX socket's queue holds the file.
        drop(stream);

        let inner = stand_in(&relays, &client, accepted);
        let begun = Instant::now();
        let (mut other, mut other_inner) = pair(&relays);
        other.write_all(b"x").unwrap();
        other_inner.read_exact(&mut [0]).unwrap();
        drop((other, other_inner));
        // Ending the session and the client does not hang either: only the thread waits.
        drop((client, inner));
        assert!(begun.elapsed() < LONG);
        let end = Instant::now() + Duration::from_millis(200);
        while Instant::now() < end {
            assert!(relays.count() >= 1, "the close does not hang");
            thread::sleep(Duration::from_millis(5));
        }
        drop(reader);
        assert!(all_ended(&relays));
    }
}

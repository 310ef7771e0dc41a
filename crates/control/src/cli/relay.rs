//! Keeps strangers' sockets away from the main thread.
//!
//! A client may pass files with what it says. The kernel closes those that nobody takes in the context of whoever reads, or
//! closes the socket, and that can take for ever: a socket that lingers, a file of a FUSE server that never answers. So each
//! client's socket belongs to a thread, which passes bytes on to a pair of sockets of the router's own, and which may hang.
//! Kernels from Linux 6.16 on refuse such files (`SO_PASSRIGHTS`), but the others are many.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Bytes that are on their way, each way.
const ROOM: usize = 16 << 10;
/// How long a client that takes nothing is given to read the end of what it was told.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Bytes of a thread's stack.
const STACK: usize = 128 << 10;

/// Threads that wait at once for clients to read the end of what they were told.
const MOST_FINISHING: usize = 64;

/// A client's socket that stays open when it is dropped: to close it might hang.
pub(super) type Unclosed = std::mem::ManuallyDrop<UnixStream>;

/// Counts the threads of a listener's clients.
#[derive(Clone, Default)]
pub(super) struct Relays {
    counts: Arc<Counts>,
    /// True if the kernel refuses files on these sockets, so that closing one never hangs.
    pub(super) refuses_files: bool,
}

#[derive(Default)]
struct Counts {
    all: AtomicUsize,
    /// Those whose session is over, and that wait for their client to read.
    finishing: AtomicUsize,
    /// Clients without a session whose sockets a thread has to close, with the last words for each.
    left: Mutex<Vec<(Unclosed, Arc<[u8]>)>>,
}

impl Counts {
    fn next_left(&self) -> Option<(Unclosed, Arc<[u8]>)> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

/// One more of a count, until it is dropped.
struct Entered {
    counts: Arc<Counts>,
    which: fn(&Counts) -> &AtomicUsize,
    /// How many there were before.
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
    /// Counts for the clients of a listener on which the kernel refuses files, or lets them through.
    pub(super) fn new(refuses_files: bool) -> Relays {
        Relays { refuses_files, ..Relays::default() }
    }

    /// Leaves a client's socket as if there had been no thread to close it.
    #[cfg(test)]
    pub(super) fn leave(&self, client: UnixStream, words: &[u8]) {
        self.counts.left.lock().unwrap().push((Unclosed::new(client), words.into()));
    }

    /// How many there are.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.counts.all.load(Ordering::Acquire)
    }

    /// How many hang, where there are so many sessions.
    pub(super) fn hanging(&self, sessions: usize) -> usize {
        let finishing = self.counts.finishing.load(Ordering::Acquire);
        self.counts.all.load(Ordering::Acquire).saturating_sub(sessions + finishing)
    }

    /// Gives a socket that stands for the client's, which has a thread of its own from now on. Neither of them waits. Without a thread
    /// or descriptors for that, it is the client's own socket if the kernel refuses files on it.
    ///
    /// # Errors
    /// If the process has no descriptor or thread left, and the client may pass files. Another thread closes the client's socket
    /// then, as soon as there can be one.
    pub(super) fn stand_in(&self, client: Unclosed) -> io::Result<UnixStream> {
        self.stand_in_by(client, UnixStream::pair)
    }

    fn stand_in_by(
        &self,
        client: Unclosed,
        pair: impl FnOnce() -> io::Result<(UnixStream, UnixStream)>,
    ) -> io::Result<UnixStream> {
        let (give, take) = mpsc::channel::<(Unclosed, UnixStream)>();
        let entered = Entered::new(&self.counts, |counts| &counts.all);
        let ready = pair().and_then(|(outer, inner)| {
            for socket in [&*client, &outer, &inner] {
                socket.set_nonblocking(true)?;
            }
            // The client comes by the channel: a closure that finds no thread would take it along.
            spawn(move || {
                let Ok((client, outer)) = take.recv() else { return };
                relay(&client, &outer, &entered.counts);
                // The session hears of the end now; what follows may hang.
                drop(outer);
                drop(std::mem::ManuallyDrop::into_inner(client));
                drop(entered);
            })?;
            Ok((outer, inner))
        });
        match ready {
            Ok((outer, inner)) => {
                // The thread waits for it.
                let _ = give.send((client, outer));
                Ok(inner)
            }
            // Nobody needs to stand between, so that an operator gets in when threads have run out.
            Err(_) if self.refuses_files => {
                let client = std::mem::ManuallyDrop::into_inner(client);
                client.set_nonblocking(true)?;
                Ok(client)
            }
            Err(error) => {
                self.close(vec![client], &Arc::from([]));
                Err(error)
            }
        }
    }

    /// Says something to clients and closes their sockets: on a thread of their own, which may hang, unless the kernel refuses files. If
    /// there can be no thread now, the next one closes them.
    pub(super) fn close(&self, clients: Vec<Unclosed>, words: &Arc<[u8]>) {
        if self.refuses_files {
            clients.into_iter().for_each(|client| send_off(client, words));
            return;
        }
        let all = clients.into_iter().map(|client| (client, words.clone()));
        self.counts.left.lock().unwrap_or_else(PoisonError::into_inner).extend(all);
        self.close_left();
    }

    /// True if there are sockets of clients to close for which there was no thread.
    pub(super) fn has_left(&self) -> bool {
        !self.counts.left.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Closes the sockets of clients for which there was no thread.
    pub(super) fn close_left(&self) {
        if !self.has_left() {
            return;
        }
        let entered = Entered::new(&self.counts, |counts| &counts.all);
        // Without a thread they are left for the next one.
        let _ = spawn(move || {
            // One at a time: should its closing hang, another thread closes the others.
            while let Some((client, words)) = entered.counts.next_left() {
                send_off(client, &words);
            }
            drop(entered);
        });
    }
}

/// Says something to a client and closes its socket, which may hang where clients can pass files.
fn send_off(client: Unclosed, words: &[u8]) {
    // Nothing was said to it before, so there is room, unless it is gone.
    let _ = client.set_nonblocking(true).and_then(|()| (&*client).write(words));
    drop(std::mem::ManuallyDrop::into_inner(client));
}

/// Runs a thread for clients.
fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("volley_cli".into()).stack_size(STACK).spawn(work).map(|_| ())
}

/// Passes bytes both ways until both have ended, or one is gone.
fn relay(client: &UnixStream, router: &UnixStream, counts: &Arc<Counts>) {
    let (mut inwards, mut outwards) = (Way::default(), Way::default());
    // Those that are gone for good are not polled any more: they would never be silent.
    let (mut client_is_there, mut router_is_there) = (true, true);
    let (mut moved, mut finishing) = (Instant::now(), None);
    loop {
        let n = inwards.pass(client, router) + outwards.pass(router, client);
        if n > 0 {
            moved = Instant::now();
        }
        if outwards.is_broken() {
            // The session learns that by its next word.
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
        let left = (!router_is_there).then(|| (moved + LAST_WORDS).saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return;
        }
        let mut files = Vec::with_capacity(2);
        let of = |reads: bool, writes: bool| {
            PollFlags::from_iter(
                [(reads, PollFlags::POLLIN), (writes, PollFlags::POLLOUT)]
                    .map(|(b, f)| if b { f } else { PollFlags::empty() }),
            )
        };
        if client_is_there {
            files.push(PollFd::new(client.as_fd(), of(inwards.wants(), outwards.waits())));
        }
        if router_is_there {
            files.push(PollFd::new(router.as_fd(), of(outwards.wants(), inwards.waits())));
        }
        let time = left.map_or(PollTimeout::NONE, |t| PollTimeout::try_from(t).unwrap_or(PollTimeout::MAX));
        // Should it fail, what can be passed on is passed on, and it is asked again.
        let _ = poll(&mut files, time);
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR;
        let mut is_there = files.iter().map(|f| !f.revents().is_some_and(|r| r.intersects(gone)));
        if client_is_there && is_there.next() == Some(false) {
            client_is_there = false;
            outwards.break_off();
        }
        if router_is_there && is_there.next() == Some(false) {
            router_is_there = false;
            inwards.break_off();
        }
    }
}

/// Bytes from one socket to another.
#[derive(Default)]
struct Way {
    bytes: Vec<u8>,
    /// So many of them have been written.
    written: usize,
    state: State,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum State {
    #[default]
    Open,
    /// There is nothing more to be read.
    Read,
    /// The reader has been told so.
    Ended,
    /// The reader is gone.
    Broken,
}

impl Way {
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

    /// Passes on what can be; gives how many bytes.
    fn pass(&mut self, mut from: &UnixStream, mut to: &UnixStream) -> usize {
        let mut passed = 0;
        loop {
            if self.bytes.is_empty() && self.state == State::Open {
                self.bytes.resize(ROOM, 0);
                let n = match from.read(&mut self.bytes) {
                    Ok(n) => Some(n),
                    Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
                    // One that is gone has no more to say.
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
    use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg, setsockopt, sockopt};

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    /// A client's socket, and the router's that stands for it.
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
    fn much_passes_both_ways_and_each_end_is_told() {
        let relays = Relays::default();
        let (mut client, mut inner) = pair(&relays);
        let bytes: Vec<u8> = (0..300_000u32).map(|i| (i * 7) as u8).collect();
        let echo = thread::spawn(move || {
            let mut all = Vec::new();
            // The client's end, which has not closed the other direction.
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
    fn a_client_without_a_place_is_closed() {
        let relays = Relays::default();
        let (mut client, accepted) = UnixStream::pair().unwrap();
        client.set_read_timeout(Some(LONG)).unwrap();
        let full = || Err(nix::errno::Errno::EMFILE.into());
        let refused = relays.stand_in_by(Unclosed::new(accepted), full).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(nix::libc::EMFILE));
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "nobody holds the other end");
        assert!(all_ended(&relays));
        // One for which there was no thread either, when there is one again.
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
    fn a_client_that_cannot_pass_files_needs_no_thread() {
        let relays = Relays::new(true);
        let (mut client, accepted) = UnixStream::pair().unwrap();
        let full = || Err(nix::errno::Errno::EAGAIN.into());
        let mut own = relays.stand_in_by(Unclosed::new(accepted), full).unwrap();
        client.write_all(b"show version").unwrap();
        let mut said = [0; 12];
        own.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"show version");
        assert_eq!(own.read(&mut said).unwrap_err().kind(), ErrorKind::WouldBlock, "it does not wait");
        assert!(all_ended(&relays));
    }

    #[test]
    fn a_client_that_is_gone_is_known_by_the_next_word() {
        let relays = Relays::default();
        let (mut client, mut inner) = pair(&relays);
        client.write_all(b"show version\n").unwrap();
        drop(client);
        let mut said = String::new();
        inner.read_to_string(&mut said).unwrap();
        assert_eq!(said, "show version\n", "what it said before is still carried out");
        let end = Instant::now() + LONG;
        while inner.write_all(b"answer").is_ok() {
            assert!(Instant::now() < end);
            thread::sleep(Duration::from_millis(1));
        }
        drop(inner);
        assert!(all_ended(&relays));
    }

    #[test]
    fn a_client_that_reads_nothing_keeps_its_thread_for_a_while_only() {
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

    #[test]
    fn threads_that_wait_for_a_reader_are_few_and_hang_nobody() {
        let relays = Relays::default();
        let clients: Vec<UnixStream> = (0..MOST_FINISHING + 20)
            .map(|_| {
                let (client, inner) = pair(&relays);
                inner.set_nonblocking(true).unwrap();
                // More than all buffers on the way have room for.
                let end = Instant::now() + LONG;
                let mut full = 0;
                while full < 20 && Instant::now() < end {
                    full = if (&inner).write(&[0; 65_536]).is_ok() { 0 } else { full + 1 };
                    thread::sleep(Duration::from_micros(100));
                }
                client
            })
            .collect();
        // All sessions are over, and nobody has read anything.
        let end = Instant::now() + LONG;
        while relays.hanging(0) > 0 || relays.count() > MOST_FINISHING {
            assert!(Instant::now() < end, "{} of {}", relays.hanging(0), relays.count());
            thread::sleep(Duration::from_millis(1));
        }
        drop(clients);
        assert!(all_ended(&relays));
    }

    #[test]
    fn a_file_whose_close_hangs_stops_one_thread() {
        let relays = Relays::default();
        let (client, accepted) = UnixStream::pair().unwrap();
        // The last close waits until the other end has read everything, for a minute.
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
        // Now nobody but the socket has it.
        drop(stream);

        let inner = stand_in(&relays, &client, accepted);
        let begun = Instant::now();
        let (mut other, mut other_inner) = pair(&relays);
        other.write_all(b"x").unwrap();
        other_inner.read_exact(&mut [0]).unwrap();
        drop((other, other_inner));
        // The session may end, too, and the client: nobody but the thread waits.
        drop((client, inner));
        assert!(begun.elapsed() < LONG);
        let end = Instant::now() + Duration::from_millis(200);
        while Instant::now() < end {
            assert!(relays.count() >= 1, "it is a file that hangs");
            thread::sleep(Duration::from_millis(5));
        }
        drop(reader);
        assert!(all_ended(&relays));
    }
}

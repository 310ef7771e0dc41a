//! The listening socket of the command line.

use super::lock::Lock;
use super::protocol::Request;
use model::cli::CliError;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, listen, socket};
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum length of a socket's path in bytes (`sun_path` of unix(7), less the terminating zero).
const LONGEST: usize = 107;
/// How long to wait for the lock of an instance that does not answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval between attempts to take the lock.
const STEP: Duration = Duration::from_millis(50);

/// The parameter of startup.conf that sets the command line's socket, for messages.
const CLI: &str = "unix { cli-listen ... }";

/// The properties in which the sockets of the CLI, the APIs and the statistics segment differ.
pub struct Use<'u> {
    /// A greeting to find out whether a router listens on the socket: such a router answers it or, on a `SOCK_SEQPACKET` socket,
    /// disconnects.
    pub hello: &'u [u8],
    /// The type of the socket: a stream, or packets (`SOCK_SEQPACKET`).
    pub kind: SockType,
    /// The parameter of startup.conf that sets the socket, for messages.
    pub setting: &'u str,
}

/// A listening socket for [`serve`](super::serve). A UNIX socket is removed on drop.
#[derive(Debug)]
pub struct Listener {
    pub(super) socket: Socket,
    /// The separate socket for root alone; `None` for TCP, or if its path would be too long.
    pub(super) for_root: Option<UnixListener>,
    /// True if clients cannot pass files, so that closing their sockets never hangs.
    pub(super) refuses_files: bool,
    /// The paths of the sockets, with their locks; root's socket comes first. When the listener is dropped, another instance can
    /// take the locks.
    _places: Vec<Place>,
}

/// A non-blocking UNIX or TCP socket.
#[derive(Debug)]
pub(super) enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Listens on a UNIX socket of the command line, as [`unix_for`](Self::unix_for).
    ///
    /// # Errors
    /// As [`unix_for`](Self::unix_for).
    pub fn unix(path: &Path, group: Option<u32>) -> Result<Listener, CliError> {
        let mut hello = serde_json::to_vec(&Request::Hello)
            .map_err(|e| CliError::new(format!("internal error: a greeting cannot be written: {e}")))?;
        hello.push(b'\n');
        Listener::unix_for(path, group, &Use { hello: &hello, kind: SockType::Stream, setting: CLI })
    }

    /// Listens on a UNIX socket that only the owner and the group can use (mode 0660); `group` sets the group. A second socket beside it is
    /// for root alone ([`roots`]), so that other users cannot lock root out. Replaces the sockets of an instance that has ended. `by` is
    /// the use of the socket.
    ///
    /// # Errors
    /// If the directory does not exist, the path is too long, another instance listens on the socket, the path exists and is not a socket,
    /// or the system refuses.
    pub fn unix_for(path: &Path, group: Option<u32>, by: &Use<'_>) -> Result<Listener, CliError> {
        let fault = |error: io::Error| CliError::new(format!("cannot listen on {}: {error}", path.display()));
        check(path)?;
        let mut places = vec![Place::claim(path, by)?];
        let own = Some(roots(path)).filter(|own| own.as_os_str().len() <= LONGEST);
        match &own {
            Some(own) => places.insert(0, Place::claim(own, by)?),
            None => tracing::warn!(
                "no separate socket for root beside {}: its path would be longer than {LONGEST} bytes",
                path.display()
            ),
        }
        let listener = bound(path, 0o660, group, by.kind).map_err(fault)?;
        let for_root = own.map(|own| {
            let fault = |e| CliError::new(format!("cannot listen on {}: {e}", own.display()));
            bound(&own, 0o600, None, by.kind).map_err(fault)
        });
        let for_root = for_root.transpose()?;
        // Commands need no files. `relay.rs` handles kernels that cannot refuse them.
        let taking = for_root.iter().chain([&listener]).filter(|s| drivers::refuse_files(s.as_fd()).is_err());
        let refuses_files = taking.count() == 0;
        Ok(Listener { socket: Socket::Unix(listener), for_root, refuses_files, _places: places })
    }

    /// Listens on a TCP port. Everybody who reaches the address can configure the router: on a loopback address, every
    /// user of this host.
    ///
    /// # Errors
    /// If the address is in use, or does not belong to this host.
    pub fn tcp(address: SocketAddr) -> Result<Listener, CliError> {
        let fault = |error: io::Error| match error.kind() {
            ErrorKind::AddrInUse => taken(address.to_string(), CLI),
            _ => CliError::new(format!("cannot listen on {address}: {error}")),
        };
        let listener = TcpListener::bind(address).map_err(fault)?;
        listener.set_nonblocking(true).map_err(fault)?;
        let listener = drivers::closed_first(OwnedFd::from(listener)).into();
        Ok(Listener {
            socket: Socket::Tcp(listener),
            for_root: None,
            refuses_files: true,
            _places: Vec::new(),
        })
    }

    /// Returns the TCP address, with the port that the system chose for port 0; `None` for a UNIX socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Tcp(listener) => listener.local_addr().ok(),
            Socket::Unix(_) => None,
        }
    }
}

/// A listening socket of packets (`SOCK_SEQPACKET`). It is removed on drop.
#[derive(Debug)]
pub struct Packets {
    socket: UnixListener,
    _place: Place,
}

impl Packets {
    /// Listens on a UNIX socket that only the owner and the group can use (mode 0660); `group` sets the group. Replaces the socket of an
    /// instance that has ended. `setting` is the parameter of startup.conf that sets the socket, for messages.
    ///
    /// # Errors
    /// As [`Listener::unix_for`].
    pub fn bind(path: &Path, group: Option<u32>, setting: &str) -> Result<Packets, CliError> {
        check(path)?;
        let kind = SockType::SeqPacket;
        let place = Place::claim(path, &Use { hello: &[], kind, setting })?;
        let fault = |error: io::Error| CliError::new(format!("cannot listen on {}: {error}", path.display()));
        let socket = bound(path, 0o660, group, kind).map_err(fault)?;
        // On a kernel that supports this, clients then cannot pass files. The error of an older kernel is ignored.
        let _ = drivers::refuse_files(socket.as_fd());
        Ok(Packets { socket, _place: place })
    }

    /// Returns another descriptor of the socket.
    ///
    /// # Errors
    /// If too many descriptors are open.
    pub fn socket(&self) -> io::Result<UnixListener> {
        self.socket.try_clone()
    }
}

/// Checks that a path can be the path of a socket.
fn check(path: &Path) -> Result<(), CliError> {
    if let Some(directory) = path.parent().filter(|d| !d.as_os_str().is_empty() && !d.exists()) {
        return Err(CliError::new(format!(
            "cannot listen on {}: directory {} does not exist; create it, or use a path in runtime-dir",
            path.display(),
            directory.display()
        )));
    }
    let length = path.as_os_str().len();
    if length > LONGEST {
        return Err(CliError::new(format!(
            "cannot listen on {}: the path has {length} bytes, more than {LONGEST}",
            path.display()
        )));
    }
    Ok(())
}

/// Returns the path of the socket for root alone, beside the socket at `path`.
pub(crate) fn roots(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".root");
    name.into()
}

/// Listens on a socket with this mode and group. The socket gets its name only after mode and group are set, so nobody can connect before.
fn bound(path: &Path, mode: u32, group: Option<u32>, kind: SockType) -> io::Result<UnixListener> {
    let hidden = drivers::Hidden::beside(path)?;
    let inside = hidden.inside();
    let listener = socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None)?;
    bind(listener.as_raw_fd(), &UnixAddr::new(&inside)?)?;
    listen(&listener, Backlog::MAXCONN)?;
    let listener = UnixListener::from(listener);
    let ready = || {
        fs::set_permissions(&inside, Permissions::from_mode(mode))?;
        chown(&inside, None, group)?;
        listener.set_nonblocking(true)?;
        fs::rename(&inside, path)
    };
    ready().inspect_err(|_| drop(fs::remove_file(&inside)))?;
    Ok(drivers::closed_first(listener.into()).into())
}

/// True if a process listens on the socket at `path`, even if its backlog is full. Does not wait.
fn somebody_listens(path: &Path, kind: SockType) -> bool {
    let Ok(address) = UnixAddr::new(path) else { return false };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, kind, flags, None);
    socket.is_ok_and(|s| matches!(connect(s.as_raw_fd(), &address), Ok(()) | Err(Errno::EAGAIN)))
}

/// The path of a socket, and the lock that gives this instance the exclusive right to it. The lock file stays when the socket is
/// removed: an instance that had just opened a removed file would hold a lock that no other instance sees.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    _lock: Lock,
}

impl Place {
    fn claim(path: &Path, by: &Use<'_>) -> Result<Place, CliError> {
        Place::claim_within(path, by, PATIENCE)
    }

    /// Takes the lock of a socket's path. A killed instance keeps its lock until its memory is freed, and its socket accepts connections
    /// until then. So the function waits up to `patience` for the lock, unless the other instance answers.
    fn claim_within(path: &Path, by: &Use<'_>, patience: Duration) -> Result<Place, CliError> {
        let mut lock_path = path.as_os_str().to_owned();
        lock_path.push(".lock");
        let fault = |error: io::Error| CliError::new(format!("cannot lock {}: {error}", path.display()));
        let mut lock = Lock::open(lock_path.into()).map_err(fault)?;
        let (end, mut answer) = (Instant::now() + patience, None);
        while !lock.try_lock().map_err(fault)? {
            if Instant::now() >= end {
                let holder = lock.holders().first().map_or("another process".into(), ToString::to_string);
                return Err(CliError::new(format!(
                    "{} is locked by {holder}, which does not answer: stop it (fuser -v {}), or set another socket \
                     ({})",
                    path.display(),
                    lock.path().display(),
                    by.setting
                )));
            }
            let begun = answer.is_some();
            match answer.get_or_insert_with(|| greet(path, by)).recv_timeout(STEP) {
                Ok(()) => return Err(taken(path.display(), by.setting)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => thread::sleep(STEP),
            }
            if !begun {
                tracing::warn!(
                    "{} is locked by another process, which does not answer: waiting up to {} s for it to end",
                    path.display(),
                    patience.as_secs()
                );
            }
        }
        // A process without the lock may listen there. Its socket must not be replaced.
        if somebody_listens(path, by.kind) {
            return Err(taken(path.display(), by.setting));
        }
        if path.symlink_metadata().is_ok_and(|found| !found.file_type().is_socket()) {
            let message =
                format!("{} exists and is not a socket: remove it, or set another path", path.display());
            return Err(CliError::new(message));
        }
        Ok(Place { path: path.to_owned(), _lock: lock.closed_first() })
    }
}

/// Sends a hello to the instance at `path`. The returned channel gets a message when the instance answers, and is closed if the instance
/// ends or does not exist. A separate thread sends the hello, because an unresponsive instance may not even accept a connection.
fn greet(path: &Path, by: &Use<'_>) -> Receiver<()> {
    let (send, answer) = channel();
    let (path, hello, kind) = (path.to_owned(), by.hello.to_owned(), by.kind);
    let hello = move || {
        let socket = socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None)?;
        connect(socket.as_raw_fd(), &UnixAddr::new(&path)?)?;
        let mut stream = UnixStream::from(socket);
        stream.write_all(&hello)?;
        // On a stream, the end is no answer. On a socket of packets, the end is the answer: an instance that is stopping resets the
        // connection instead.
        if stream.read(&mut [0])? == 0 && kind == SockType::Stream {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        // The receiver may have stopped waiting.
        let _ = send.send(());
        io::Result::Ok(())
    };
    // If no thread can be started, the channel is closed, as without an instance.
    drop(thread::Builder::new().name("volley_greeting".into()).spawn(hello));
    answer
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.path) {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Removes a file if it exists.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn taken(place: impl std::fmt::Display, setting: &str) -> CliError {
    CliError::new(format!("another volley answers on {place}: stop it, or set another socket ({setting})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{Backlog, bind as bind_to, listen};
    use std::fs::File;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// The mode of another file stays as it is, even if the directory's owner replaces the new socket by a link again and again while
    /// `bind` runs.
    #[test]
    fn bind_never_changes_the_mode_of_another_file() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("victim"), "").unwrap();
        fs::set_permissions(at("victim"), Permissions::from_mode(0o600)).unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let hidden =
                    [format!(".volley-{}", std::process::id()), format!(".volley-{}-0", std::process::id())];
                while !done.load(Ordering::Relaxed) {
                    for hidden in &hidden {
                        let moved = fs::rename(at(hidden), at(&format!("{hidden}.moved")));
                        let removed = fs::remove_file(at(hidden));
                        if moved.is_ok() || removed.is_ok() {
                            let _ = symlink(at("victim"), at(hidden));
                        }
                        let _ = fs::remove_dir_all(at(&format!("{hidden}.moved")));
                    }
                }
            });
            for _ in 0..500 {
                drop(bound(&at("cli.sock"), 0o660, None, SockType::Stream));
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(at("victim").metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn socket_with_a_full_backlog_is_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cli.sock");
        let address = UnixAddr::new(&path).unwrap();
        let new = || socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_NONBLOCK, None).unwrap();
        let theirs = new();
        bind_to(theirs.as_raw_fd(), &address).unwrap();
        listen(&theirs, Backlog::new(0).unwrap()).unwrap();
        let clients: Vec<_> = (0..4).map(|_| new()).collect();
        let full = clients.iter().filter(|c| connect(c.as_raw_fd(), &address) == Err(Errno::EAGAIN));
        assert!(full.count() > 0);
        let error = Listener::unix(&path, None).unwrap_err().to_string();
        assert!(
            error.contains("another volley answers") && error.contains("(unix { cli-listen ... })"),
            "{error}"
        );
        let by = Use { hello: b"?", kind: SockType::Stream, setting: "socksvr { socket-name ... }" };
        let error = Listener::unix_for(&path, None, &by).unwrap_err().to_string();
        assert!(error.contains("or set another socket (socksvr { socket-name ... })"), "{error}");
    }

    #[test]
    fn too_long_path_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let error = Listener::unix(&directory.path().join("x".repeat(100)), None).unwrap_err().to_string();
        assert!(error.contains("bytes, more than 107"), "{error}");
    }

    #[test]
    fn sockets_are_private_and_removed_on_drop() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cli.sock");
        let listener = Listener::unix(&path, None).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o660);
        assert_eq!(roots(&path).metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(UnixStream::connect(&path).is_ok() && UnixStream::connect(roots(&path)).is_ok());
        drop(listener);
        assert!(!path.exists() && !roots(&path).exists());
        assert!(Listener::unix(&path, None).is_ok());
    }

    #[test]
    fn file_at_the_path_of_roots_socket_is_kept_and_reported() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cli.sock");
        let own = roots(&path);
        fs::write(&own, "precious").unwrap();
        let error = Listener::unix(&path, None).unwrap_err().to_string();
        assert!(error.contains("cli.sock.root exists and is not a socket"), "{error}");
        assert_eq!(fs::read(&own).unwrap(), b"precious");
        assert!(!path.exists(), "nothing was bound");
        fs::remove_file(&own).unwrap();
        let theirs = UnixListener::bind(&own).unwrap();
        let error = Listener::unix(&path, None).unwrap_err().to_string();
        assert!(error.contains("another volley answers on") && error.contains("cli.sock.root"), "{error}");
        assert!(UnixStream::connect(&own).is_ok());
        drop(theirs);
        assert!(Listener::unix(&path, None).is_ok());
    }

    #[test]
    fn long_path_has_no_socket_for_root() {
        let directory = tempfile::tempdir().unwrap();
        let room = LONGEST - directory.path().as_os_str().len() - 1;
        let path = directory.path().join("x".repeat(room));
        let listener = Listener::unix(&path, None).unwrap();
        assert!(listener.for_root.is_none() && !roots(&path).exists());
        assert!(UnixStream::connect(&path).is_ok());
        drop(listener);
        let path = directory.path().join("x".repeat(room - 5));
        let _listener = Listener::unix(&path, None).unwrap();
        assert!(UnixStream::connect(roots(&path)).is_ok());
    }

    #[test]
    fn missing_directory_is_reported_and_not_created() {
        let directory = tempfile::tempdir().unwrap();
        let error = Listener::unix(&directory.path().join("no/dir/x.sock"), None).unwrap_err().to_string();
        assert!(error.contains("no/dir does not exist;"), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn second_instance_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cli.sock");
        let first = Listener::unix(&path, None).unwrap();
        let Socket::Unix(socket) = &first.socket else { panic!("not a UNIX socket") };
        let socket = socket.try_clone().unwrap();
        socket.set_nonblocking(false).unwrap();
        let server = thread::spawn(move || {
            let (mut client, _) = socket.accept().unwrap();
            let mut hello = [0; 8];
            client.read_exact(&mut hello).unwrap();
            client.write_all(b"\n").unwrap();
            hello
        });
        let begun = Instant::now();
        let error = Listener::unix(&path, None).unwrap_err().to_string();
        assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
        assert!(error.contains("another volley answers on") && error.contains("cli-listen"), "{error}");
        assert_eq!(server.join().unwrap(), *b"\"hello\"\n");
        assert!(UnixStream::connect(&path).is_ok());
    }

    #[test]
    fn claim_waits_for_a_dying_instance() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cli.sock");
        // A killed instance keeps its lock and a socket that does not answer, for a while.
        let lock = File::create(directory.path().join("cli.sock.lock")).unwrap();
        lock.lock().unwrap();
        let socket = UnixListener::bind(&path).unwrap();
        let error =
            Place::claim_within(&path, &Use { hello: b"?", kind: SockType::Stream, setting: CLI }, STEP)
                .unwrap_err()
                .to_string();
        assert!(error.contains("does not answer") && error.contains("cli.sock.lock"), "{error}");
        assert!(error.contains(&format!("process {} (", std::process::id())), "{error}");
        let going = thread::spawn(move || {
            // Two connections arrive: one from the claim above, one from the claim below.
            drop([socket.accept().unwrap(), socket.accept().unwrap()]);
            drop((socket, lock));
        });
        drop(Listener::unix(&path, None).unwrap());
        going.join().unwrap();
    }

    #[test]
    fn sockets_of_packets_are_taken_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stats.sock");
        let first = Packets::bind(&path, None, "statseg { socket-name ... }").unwrap();
        let socket = first.socket().unwrap();
        socket.set_nonblocking(false).unwrap();
        let answers = thread::spawn(move || drop(socket.accept().unwrap()));
        let error = Packets::bind(&path, None, "statseg { socket-name ... }").unwrap_err().to_string();
        assert!(error.contains("another volley answers") && error.contains("statseg"), "{error}");
        answers.join().unwrap();
        drop(first);
        assert!(!path.exists());
        Packets::bind(&path, None, "statseg { socket-name ... }").unwrap();
    }

    #[test]
    fn only_stale_sockets_are_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cli.sock");
        let foreign = UnixListener::bind(&path).unwrap();
        assert!(Listener::unix(&path, None).is_err(), "a process without the lock listens");
        drop(foreign);
        assert!(path.exists());
        drop(Listener::unix(&path, None).unwrap());
        fs::write(&path, "precious").unwrap();
        let error = Listener::unix(&path, None).unwrap_err().to_string();
        assert!(error.contains("not a socket"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn tcp_address_in_use_is_refused() {
        let first = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let error = Listener::tcp(first.address().unwrap()).unwrap_err().to_string();
        assert!(error.contains("another volley"), "{error}");
    }
}

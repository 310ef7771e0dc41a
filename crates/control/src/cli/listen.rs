//! The socket on which the command line is served.

use super::lock::Lock;
use super::protocol::Request;
use model::cli::CliError;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
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

/// Bytes of the name of a socket (`sun_path` of unix(7), less the zero at its end).
const LONGEST: usize = 107;
/// How long the lock of an instance that does not answer is waited for, and how often it is tried.
const PATIENCE: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(50);

/// A socket that listens, for [`serve`](super::serve). A UNIX socket is removed when this is dropped.
#[derive(Debug)]
pub struct Listener {
    pub(super) socket: Socket,
    /// Beside a UNIX socket, one that only root may use.
    pub(super) for_root: Option<UnixListener>,
    /// True if no client can pass a file, so that none can hang who closes its socket.
    pub(super) refuses_files: bool,
    /// Removed with the listener, root's first; after that, another instance may have the locks.
    _places: Vec<Place>,
}

/// A socket of either kind; it does not block.
#[derive(Debug)]
pub(super) enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Listens on a UNIX socket that only the owner and the group may use (mode 0660); `group` sets the group. Beside it, there is one for
    /// root alone ([`roots`]), whom nobody keeps out who can use the other. Replaces the sockets of an instance that is gone.
    ///
    /// # Errors
    /// The directory does not exist, another instance listens there, something that is no socket has the name, or the
    /// system refuses.
    pub fn unix(path: &Path, group: Option<u32>) -> Result<Listener, CliError> {
        let fault = |error: io::Error| CliError::new(format!("cannot listen on {}: {error}", path.display()));
        if let Some(directory) = path.parent().filter(|d| !d.as_os_str().is_empty() && !d.exists()) {
            return Err(CliError::new(format!(
                "cannot listen on {}: there is no directory {}; make it, or give a path in runtime-dir",
                path.display(),
                directory.display()
            )));
        }
        let length = path.as_os_str().len();
        if length > LONGEST {
            let why = format!("a socket's name has {LONGEST} bytes at most, and this one {length}");
            return Err(fault(io::Error::other(why)));
        }
        let mut places = vec![Place::claim(path)?];
        let own = Some(roots(path)).filter(|own| own.as_os_str().len() <= LONGEST);
        match &own {
            Some(own) => places.insert(0, Place::claim(own)?),
            None => tracing::warn!(
                "root has no socket of its own beside {}: its name would have more than {LONGEST} bytes",
                path.display()
            ),
        }
        let listener = bind(path, 0o660, group).map_err(fault)?;
        let for_root = own.map(|own| {
            let fault = |e| CliError::new(format!("cannot listen on {}: {e}", own.display()));
            bind(&own, 0o600, None).map_err(fault)
        });
        let for_root = for_root.transpose()?;
        // Commands need no files. Where the kernel lets them through, see `relay.rs`.
        let taking = for_root.iter().chain([&listener]).filter(|s| drivers::refuse_files(s.as_fd()).is_err());
        let refuses_files = taking.count() == 0;
        Ok(Listener { socket: Socket::Unix(listener), for_root, refuses_files, _places: places })
    }

    /// Listens on a TCP port. Everybody who reaches the address may then configure the router: if it is a loopback
    /// address, every user of this host.
    ///
    /// # Errors
    /// The address is in use, or is not this host's.
    pub fn tcp(address: SocketAddr) -> Result<Listener, CliError> {
        let fault = |error: io::Error| match error.kind() {
            ErrorKind::AddrInUse => taken(address.to_string()),
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

    /// The TCP address, if it is one: tells which port the system chose for port 0.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Tcp(listener) => listener.local_addr().ok(),
            Socket::Unix(_) => None,
        }
    }
}

/// The socket beside this one that only root may use.
pub(crate) fn roots(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".root");
    name.into()
}

/// Listens on a socket of this mode and group. It gets its name only when these are right, so nobody can slip in before.
fn bind(path: &Path, mode: u32, group: Option<u32>) -> io::Result<UnixListener> {
    let hidden = drivers::Hidden::beside(path)?;
    let inside = hidden.inside();
    let listener = UnixListener::bind(&inside)?;
    let ready = || {
        fs::set_permissions(&inside, Permissions::from_mode(mode))?;
        chown(&inside, None, group)?;
        listener.set_nonblocking(true)?;
        fs::rename(&inside, path)
    };
    ready().inspect_err(|_| drop(fs::remove_file(&inside)))?;
    Ok(drivers::closed_first(listener.into()).into())
}

/// Whether somebody listens there, who may have too many clients to take another one. Does not wait.
fn somebody_listens(path: &Path) -> bool {
    let Ok(address) = UnixAddr::new(path) else { return false };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None);
    socket.is_ok_and(|s| matches!(connect(s.as_raw_fd(), &address), Ok(()) | Err(Errno::EAGAIN)))
}

/// The right to a path. The lock file stays when the socket goes, since to remove it could take the lock from another
/// instance that has opened it in the meantime.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    _lock: Lock,
}

impl Place {
    fn claim(path: &Path) -> Result<Place, CliError> {
        Place::claim_within(path, PATIENCE)
    }

    /// Claims the path. An instance that was killed has its lock until its memory is freed, and its socket takes connections
    /// until then: so the lock is waited for, unless the other instance answers.
    fn claim_within(path: &Path, patience: Duration) -> Result<Place, CliError> {
        let mut lock_path = path.as_os_str().to_owned();
        lock_path.push(".lock");
        let fault = |error: io::Error| CliError::new(format!("cannot lock {}: {error}", path.display()));
        let mut lock = Lock::open(lock_path.into()).map_err(fault)?;
        let (end, mut answer) = (Instant::now() + patience, None);
        while !lock.try_lock().map_err(fault)? {
            if Instant::now() >= end {
                let holder = lock.holders().first().map_or("another process".into(), ToString::to_string);
                return Err(CliError::new(format!(
                    "{holder} has the lock on {}, and does not answer: end it (fuser -v {}), or give another socket \
                     (unix {{ cli-listen ... }})",
                    path.display(),
                    lock.path().display()
                )));
            }
            let begun = answer.is_some();
            match answer.get_or_insert_with(|| greet(path)).recv_timeout(STEP) {
                Ok(()) => return Err(taken(path.display())),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => thread::sleep(STEP),
            }
            if !begun {
                tracing::warn!(
                    "another process has the lock on {}, and does not answer: waiting up to {} s for its end",
                    path.display(),
                    patience.as_secs()
                );
            }
        }
        // Whatever answers there without our lock is not ours to replace.
        if somebody_listens(path) {
            return Err(taken(path.display()));
        }
        if path.symlink_metadata().is_ok_and(|found| !found.file_type().is_socket()) {
            let message =
                format!("{} exists and is not a socket: remove it, or name another", path.display());
            return Err(CliError::new(message));
        }
        Ok(Place { path: path.to_owned(), _lock: lock.closed_first() })
    }
}

/// Says hello to the instance at `path`. Sends something when it answers; nothing more comes when it goes away, or is not
/// there. Runs on a thread of its own, since who does not answer may not even take a connection.
fn greet(path: &Path) -> Receiver<()> {
    let (send, answer) = channel();
    let path = path.to_owned();
    let hello = move || {
        let mut stream = UnixStream::connect(path)?;
        let mut hello = serde_json::to_vec(&Request::Hello)?;
        hello.push(b'\n');
        stream.write_all(&hello)?;
        stream.read_exact(&mut [0])?;
        // Nobody may wait for it any more.
        let _ = send.send(());
        io::Result::Ok(())
    };
    // Without a thread there is no answer.
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

/// Removes a file that may not be there.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn taken(place: impl std::fmt::Display) -> CliError {
    CliError::new(format!(
        "another volley answers on {place}: stop it, or give another socket (unix {{ cli-listen ... }})"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{Backlog, bind as bind_to, listen};
    use std::fs::File;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Whoever owns the directory may put a link in the place of what is made there.
    #[test]
    fn nobody_has_the_mode_of_another_file_changed() {
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
                drop(bind(&at("cli.sock"), 0o660, None));
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(at("victim").metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn somebody_who_takes_no_more_clients_is_not_waited_for() {
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
        assert!(error.contains("another volley answers"), "{error}");
    }

    #[test]
    fn a_name_that_no_client_could_connect_to_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let error = Listener::unix(&directory.path().join("x".repeat(100)), None).unwrap_err().to_string();
        assert!(error.contains("a socket's name has 107 bytes at most"), "{error}");
    }

    #[test]
    fn the_socket_is_private_and_goes_with_the_listener() {
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
    fn what_stands_in_the_place_of_roots_socket_stays_and_is_named() {
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
    fn a_long_name_leaves_no_room_for_roots_socket() {
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
    fn a_directory_that_is_not_there_is_named_and_not_made() {
        let directory = tempfile::tempdir().unwrap();
        let error = Listener::unix(&directory.path().join("no/dir/x.sock"), None).unwrap_err().to_string();
        assert!(error.contains("there is no directory") && error.contains("no/dir;"), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_second_instance_is_refused_and_the_first_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cli.sock");
        let first = Listener::unix(&path, None).unwrap();
        let Socket::Unix(socket) = &first.socket else { panic!("it is one") };
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
    fn an_instance_that_is_going_away_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cli.sock");
        // As the kernel leaves a killed one for a while: it has its lock, and a socket where nobody answers.
        let lock = File::create(directory.path().join("cli.sock.lock")).unwrap();
        lock.lock().unwrap();
        let socket = UnixListener::bind(&path).unwrap();
        let error = Place::claim_within(&path, STEP).unwrap_err().to_string();
        assert!(error.contains("does not answer") && error.contains("cli.sock.lock"), "{error}");
        assert!(error.contains(&format!("process {} (", std::process::id())), "{error}");
        let going = thread::spawn(move || {
            // It is there when the other one looks for it, twice: once for this test, once for the one before.
            drop([socket.accept().unwrap(), socket.accept().unwrap()]);
            drop((socket, lock));
        });
        drop(Listener::unix(&path, None).unwrap());
        going.join().unwrap();
    }

    #[test]
    fn stale_sockets_are_replaced_but_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cli.sock");
        let foreign = UnixListener::bind(&path).unwrap();
        assert!(Listener::unix(&path, None).is_err(), "somebody without the lock answers");
        drop(foreign);
        assert!(path.exists());
        drop(Listener::unix(&path, None).unwrap());
        fs::write(&path, "precious").unwrap();
        let error = Listener::unix(&path, None).unwrap_err().to_string();
        assert!(error.contains("not a socket"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_tcp_address_that_is_taken_is_refused() {
        let first = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let error = Listener::tcp(first.address().unwrap()).unwrap_err().to_string();
        assert!(error.contains("another volley"), "{error}");
    }
}

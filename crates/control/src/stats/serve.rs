//! Gives the segment's file to readers.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessage, MsgFlags, getsockopt, sendmsg, sockopt};

use crate::app::Statistics;
use crate::cli::{Packets, RECOVERY};

/// Maximum time that a reader waits for the first contents of the segment.
const PATIENCE: Duration = Duration::from_millis(500);
/// Interval in milliseconds at which the thread checks which readers have received the file.
const LOOK: u8 = 100;
/// Maximum number of readers of one user that have not received the file yet. Root has no limit.
const OF_USER: usize = 8;
/// Maximum number of readers of all users that have not received the file yet. Root has no limit.
const OF_ALL: usize = 64;

/// Starts a thread that sends `file` to each client of the listener, in an empty message. The thread reads nothing from clients. A client
/// may have sent open files of its own. When the thread closes the client's socket, the kernel also closes these files, which may block the
/// thread. New readers then get no file, but the rest of the router is not affected.
///
/// # Errors
/// If the thread cannot be started.
pub(super) fn start(listener: &Packets, file: File, statistics: Statistics) -> io::Result<()> {
    let socket = listener.socket()?;
    let given = Given::default();
    thread::Builder::new()
        .name("volley_statseg".into())
        .spawn(move || given.serve(&socket, &file, &statistics))?;
    Ok(())
}

/// The clients to which the file was sent and that have not received it yet, each with its user. The kernel limits the number of files that
/// were sent and not received, over all sockets of the router. So clients that never receive must not use up this limit.
#[derive(Default)]
struct Given(Vec<(u32, UnixStream)>);

impl Given {
    fn serve(mut self, socket: &UnixListener, file: &File, statistics: &Statistics) {
        loop {
            let wait = if self.0.is_empty() { PollTimeout::NONE } else { LOOK.into() };
            let _ = poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)], wait);
            self.0.retain(|(_, client)| drivers::is_unread(client.as_fd()));
            match socket.accept() {
                Ok((client, _)) => {
                    statistics.opened(PATIENCE);
                    self.give(client, file);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => {
                    tracing::warn!("cannot accept a reader of the statistics: {e}");
                    thread::sleep(RECOVERY);
                }
            }
        }
    }

    /// True if the file may be sent to one more client of this user.
    fn has_room(&self, user: u32) -> bool {
        let of_user = self.0.iter().filter(|(other, _)| *other == user).count();
        user == 0 || (of_user < OF_USER && self.0.len() < OF_ALL)
    }

    /// Sends the file to a client, unless too many clients of its user, or of all users, have not received the file yet.
    fn give(&mut self, client: UnixStream, file: &File) {
        let user = getsockopt(&client, sockopt::PeerCredentials).map_or(u32::MAX, |peer| peer.uid());
        if !self.has_room(user) {
            return;
        }
        let (files, nothing) = ([file.as_raw_fd()], [IoSlice::new(&[])]);
        let control = [ControlMessage::ScmRights(&files)];
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        // The client may have left.
        if sendmsg::<()>(client.as_raw_fd(), &nothing, &control, flags, None).is_ok() {
            self.0.push((user, client));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

    use super::*;

    fn pair() -> (UnixStream, UnixStream) {
        let pair =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap();
        let stream = |socket: OwnedFd| UnixStream::from(socket);
        (stream(pair.0), stream(pair.1))
    }

    /// Only few copies of the file wait for clients that do not receive them, and none for clients that have left.
    #[test]
    fn clients_that_receive_nothing_are_few() {
        let (file, mut given) = (tempfile::tempfile().unwrap(), Given::default());
        let (ours, theirs) = pair();
        given.give(ours, &file);
        assert!(drivers::is_unread(given.0[0].1.as_fd()), "it was sent, and not received");
        drop(theirs);
        assert!(!drivers::is_unread(given.0[0].1.as_fd()), "the client has left");
        given.0.clear();
        for user in 1..=20 {
            for _ in 0..OF_USER {
                if given.has_room(user) {
                    given.0.push((user, pair().0));
                }
            }
            assert!(!given.has_room(user), "{user}");
        }
        assert_eq!(given.0.len(), OF_ALL);
        assert!(given.has_room(0), "root is served");
    }
}

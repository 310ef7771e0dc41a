//! Gives the segment's file to readers.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::Duration;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

use crate::app::Statistics;
use crate::cli::{Packets, RECOVERY};

/// How long a reader waits for the first numbers.
const PATIENCE: Duration = Duration::from_millis(500);

/// Starts a thread that gives `file` to each client of the listener, in an empty message, and disconnects. The thread reads nothing. What a
/// client has passed is closed with its socket: that may block the thread, and then there are no new readers, but nothing else waits.
///
/// # Errors
/// If the thread cannot be started.
pub(super) fn start(listener: &Packets, file: File, statistics: Statistics) -> io::Result<()> {
    let socket = listener.socket()?;
    socket.set_nonblocking(false)?;
    thread::Builder::new().name("volley_statseg".into()).spawn(move || serve(&socket, &file, &statistics))?;
    Ok(())
}

fn serve(socket: &UnixListener, file: &File, statistics: &Statistics) {
    loop {
        let client = match socket.accept() {
            Ok((client, _)) => client,
            Err(e) => {
                tracing::warn!("cannot accept a reader of the statistics: {e}");
                thread::sleep(RECOVERY);
                continue;
            }
        };
        statistics.opened(PATIENCE);
        let (files, nothing) = ([file.as_raw_fd()], [IoSlice::new(&[])]);
        let control = [ControlMessage::ScmRights(&files)];
        // The client may have left.
        let _ = sendmsg::<()>(
            client.as_raw_fd(),
            &nothing,
            &control,
            MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT,
            None,
        );
    }
}

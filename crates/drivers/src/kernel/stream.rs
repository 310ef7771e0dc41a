//! Reading files piece by piece while their file systems may be slow, or may not answer.

use std::io::{self, Cursor, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Instant;

use super::apart::spawn;
use super::slow::{Call, LOOK, Late, MOST_HANGING, Patience, Place, died, late, silent};

/// Maximum number of bytes of one piece, and of one system call. The thread that reads notices between two pieces that nobody
/// needs the file any more.
const PIECE: usize = 64 << 10;
/// Number of pieces that are read before they are needed.
const AHEAD: usize = 8;

/// A file that a thread without other files reads. The thread ends with its current piece when this value is dropped.
#[derive(Debug)]
pub struct Stream {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: Cursor<Vec<u8>>,
    /// True after the last piece.
    ended: bool,
    patience: Patience,
    late: Late,
    /// The time of the last progress. `None` if the file system has not answered for too long.
    since: Option<Instant>,
}

/// Opens a file by `open`, on a thread as in [`read_apart`](crate::read_apart), which then reads the file. Returns the first value of `open`,
/// and the file. Opening it, and reading from it, waits while there is `patience`.
///
/// # Errors
/// As `open`; or if the time is over, 4 earlier calls for files of the directory or 32 in all wait for an answer, 16 files of the directory
/// or 64 in all are being read, or the thread cannot be created.
pub fn stream<T: Send + 'static, R: Read>(
    path: &Path,
    patience: &Patience,
    open: impl FnOnce(&Path) -> io::Result<(T, R)> + Send + 'static,
) -> io::Result<(T, Stream)> {
    let call = Call::begin(path, MOST_HANGING / 2)?;
    let place = Place::take(path)?;
    let late = call.late(path);
    let (to_us, opened) = sync_channel(1);
    let (to_reader, pieces) = sync_channel(AHEAD);
    let name = path.to_owned();
    spawn("volley_files", move || {
        match open(&name) {
            Ok((first, file)) => {
                let _ = to_us.send(Ok(first));
                // The file is closed when its reader gets the last piece.
                let last = pass_on(file, &to_reader);
                drop((call, place));
                drop(last.map(|last| to_reader.send(last)));
            }
            Err(e) => drop(to_us.send(Err(e))),
        }
    })?;
    let (piece, since) = (Cursor::default(), Some(Instant::now()));
    let mut stream = Stream { pieces, piece, ended: false, patience: patience.clone(), late, since };
    let first = wait(&opened, patience, &mut stream.since)??;
    Ok((first, stream))
}

/// Sends the pieces of a file. Returns the last one, which is empty or an error; `None` if the reader is gone.
fn pass_on(mut file: impl Read, to: &SyncSender<io::Result<Vec<u8>>>) -> Option<io::Result<Vec<u8>>> {
    loop {
        let mut piece = vec![0; PIECE];
        let read = match file.read(&mut piece) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Ok(n) => {
                piece.truncate(n);
                Ok(piece)
            }
            Err(e) => Err(e),
        };
        if read.as_ref().map_or(true, Vec::is_empty) {
            return Some(read);
        }
        to.send(read).ok()?;
    }
}

/// Waits for a message of the thread. `since` is as in [`Stream`].
fn wait<M>(from: &Receiver<M>, patience: &Patience, since: &mut Option<Instant>) -> io::Result<M> {
    let begun = *since.insert(Instant::now());
    loop {
        // A file system may answer often, and the file may have no end.
        if patience.is_over() {
            return Err(late());
        }
        match from.recv_timeout(LOOK) {
            Ok(message) => return Ok(message),
            Err(RecvTimeoutError::Disconnected) => return Err(died()),
            Err(RecvTimeoutError::Timeout) if begun.elapsed() >= patience.quiet => {
                *since = None;
                return Err(silent());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

impl Read for Stream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let n = self.piece.read(to)?;
            if n > 0 || to.is_empty() || self.ended {
                return Ok(n);
            }
            let piece = wait(&self.pieces, &self.patience, &mut self.since)?;
            self.ended = piece.as_ref().map_or(true, Vec::is_empty);
            self.piece = Cursor::new(piece?);
        }
    }
}

impl Drop for Stream {
    /// If the thread still waits for the file system, and its wait does not end soon, the file counts as hanging.
    fn drop(&mut self) {
        self.late.left(self.since);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::mpsc::{Sender, channel};
    use std::thread;
    use std::time::Duration;

    use super::super::slow::Waiter;
    use super::*;

    /// A file whose reads wait until the test lets them. Each returns one byte.
    struct Slow(Receiver<()>);

    impl Read for Slow {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            if self.0.recv().is_err() {
                return Ok(0);
            }
            to[0] = b'x';
            Ok(1)
        }
    }

    fn slow(path: &str, patience: &Patience) -> (Sender<()>, Stream) {
        let (tell, told) = channel();
        let (first, stream) = stream(Path::new(path), patience, |_| Ok((7, Slow(told)))).unwrap();
        assert_eq!(first, 7);
        (tell, stream)
    }

    #[test]
    fn a_stream_has_the_bytes_of_the_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..3 * PIECE as u32 + 5).map(|n| (n % 251) as u8).collect();
        io::Write::write_all(&mut file, &bytes).unwrap();
        let open = |path: &Path| Ok(((), File::open(path)?));
        let forever = Patience::without_end();
        let ((), mut read) = stream(file.path(), &forever, open).unwrap();
        let mut all = Vec::new();
        read.read_to_end(&mut all).unwrap();
        assert!(all == bytes);
        assert_eq!(read.read(&mut [0]).unwrap(), 0, "the end stays the end");
        let missing = stream(Path::new("/nowhere"), &forever, open).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_stream_ends_with_the_patience_and_without_progress() {
        let waiter = Waiter(Patience::without_end());
        let (tell, mut left) = slow("/nowhere/left", &waiter.0.clone());
        tell.send(()).unwrap();
        assert_eq!(left.read(&mut [0; 9]).unwrap(), 1);
        drop(waiter);
        assert_eq!(left.read(&mut [0]).unwrap_err().to_string(), "the file was not read in time");
        let mut hasty = Patience::without_end();
        hasty.quiet = LOOK;
        let (_tell, mut mute) = slow("/nowhere/quiet", &hasty);
        assert_eq!(mute.read(&mut [0]).unwrap_err().to_string(), "the file system does not answer");
    }

    /// The file system answers at once each time, and the file has no end.
    #[test]
    fn an_endless_stream_ends_with_the_patience() {
        let waiter = Waiter(Patience::without_end());
        let endless = |_: &Path| Ok(((), io::repeat(7)));
        let ((), mut endless) = stream(Path::new("/nowhere/endless"), &waiter.0.clone(), endless).unwrap();
        let mut piece = vec![0; PIECE];
        endless.read_exact(&mut piece).unwrap();
        drop(waiter);
        let ended = io::copy(&mut endless, &mut io::sink());
        assert_eq!(ended.unwrap_err().to_string(), "the file was not read in time");
    }

    #[test]
    fn a_dropped_stream_is_read_no_further_and_may_hang() {
        let path = "/nowhere/dropped";
        let forever = Patience::without_end();
        let (tell, dropped) = slow(path, &forever);
        drop(dropped);
        let again = || stream(Path::new(path), &forever, |_| Ok(((), io::empty()))).err();
        let until = |done: &dyn Fn() -> bool| {
            let end = Instant::now() + Duration::from_secs(20);
            while !done() {
                assert!(Instant::now() < end);
                thread::sleep(Duration::from_millis(10));
            }
        };
        until(&|| again().is_some_and(|e| e.to_string() == "the file system does not answer"));
        // Its first piece ends the thread, which then drops the file.
        tell.send(()).unwrap();
        until(&|| tell.send(()).is_err());
        until(&|| again().is_none());
    }
}

//! The destination of a capture's packets: a file, or a client.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use drivers::{Behind, BehindState};
use nix::sys::statvfs::{Statvfs, fstatvfs, statvfs};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, PcapError, TsResolution};

use crate::rings::Captured;

/// Size in bytes of the header of a capture file.
pub(crate) const FILE_HEADER: u64 = 24;
/// Size in bytes of the header in front of each packet in a capture file.
pub(crate) const PACKET_HEADER: u64 = 16;

/// Default for the space to leave free in the file system: this percentage, but at most this number of bytes.
const LEAVE_FREE: (u32, u128) = (5, 256 << 20);

/// The destination of packets.
pub(crate) enum Destination {
    File(Sink),
    Client(Client),
}

impl Destination {
    /// Returns the words for what was done with the packets, to complete a sentence: `written to FILE` or `captured`.
    pub(crate) fn became(&self) -> String {
        match self {
            Destination::File(sink) => format!("written to {}", sink.path().display()),
            Destination::Client(_) => "captured".into(),
        }
    }

    /// Completes the file, if the destination is a file. Returns a remark if the file is incomplete or ended early.
    pub(crate) fn finish(self) -> String {
        match self {
            Destination::File(sink) => sink.finish(),
            Destination::Client(_) => String::new(),
        }
    }
}

/// The client that receives the packets.
pub(crate) struct Client {
    there: Weak<()>,
    /// True for a client that is not an admin. Its capture ends when an admin begins one.
    pub(crate) yields: bool,
}

impl Client {
    /// Returns a client that counts as connected while `there` exists. `yields` is true for a client that is not an admin.
    pub(crate) fn of(there: &Arc<()>, yields: bool) -> Client {
        Client { there: Arc::downgrade(there), yields }
    }

    /// True until the client disconnects.
    pub(crate) fn is_there(&self) -> bool {
        self.there.strong_count() > 0
    }

    /// True if this is the client for which [`Client::of`] was called with `there`.
    pub(crate) fn is(&self, there: &Arc<()>) -> bool {
        self.there.as_ptr() == Arc::as_ptr(there)
    }
}

/// The file of a capture.
pub(crate) struct Sink {
    path: PathBuf,
    file: PcapWriter<BufWriter<Behind>>,
    state: BehindState,
    /// The error text, if the file system became too full to continue the file.
    too_full: Arc<OnceLock<String>>,
    failed: Option<String>,
}

impl Sink {
    /// Begins a capture file, with at most `keep` bytes of each packet.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub(crate) fn begin(
        path: &Path,
        file: File,
        keep: u32,
        leave_free: Option<u32>,
    ) -> Result<Sink, PcapError> {
        let too_full = Arc::new(OnceLock::new());
        let noted = Arc::clone(&too_full);
        // If the file system does not report its free space, the space counts as sufficient until a write fails.
        let check = move |file: &File, waits: usize| {
            let why = fstatvfs(file).ok().and_then(|disk| is_too_full(&disk, waits as u128, leave_free))?;
            Some(noted.get_or_init(|| why).clone())
        };
        let file = Behind::start(file, check).map_err(PcapError::IoError)?;
        let state = file.state();
        let file = writer(BufWriter::new(file), keep)?;
        Ok(Sink { path: path.to_owned(), file, state, too_full, failed: None })
    }

    /// Returns the file's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a packet captured at this universal time, in nanoseconds.
    pub(crate) fn write(&mut self, captured: &Captured, time: u64) {
        if self.failed.is_none() {
            self.failed = write(&mut self.file, captured, time).err().map(|e| e.to_string());
        }
    }

    /// True if the thread that writes the file is behind: further packets must wait.
    pub(crate) fn is_full(&self) -> bool {
        self.state.is_full()
    }

    /// True if the file cannot be continued: a write failed, or the file system became too full.
    pub(crate) fn is_over(&self) -> bool {
        self.failed.is_some() || self.state.is_over()
    }

    /// Completes the file. Returns a remark if the file is incomplete or ended early.
    pub(crate) fn finish(self) -> String {
        let unwritten = match self.file.into_writer().into_inner() {
            Ok(file) => file.finish(),
            Err(e) => Some(e.to_string()),
        };
        let failed = self.failed.or(unwritten).map(|why| format!("; the file is incomplete: {why}"));
        let ended = self.too_full.get().map(|why| format!("; it ended because {why}"));
        failed.into_iter().chain(ended).collect()
    }
}

/// Checks that the file system has room for a file at `path`. `leave_free` is the percentage of the file system to leave free;
/// without it, [`LEAVE_FREE`] applies.
///
/// # Errors
/// Fails if there is no room. Succeeds if the free space cannot be queried; creating the file then reports the
/// reason.
pub(crate) fn has_room(path: &Path, leave_free: Option<u32>) -> io::Result<()> {
    let disk = statvfs(path.parent().unwrap_or(path)).ok();
    disk.and_then(|disk| is_too_full(&disk, 0, leave_free)).map_or(Ok(()), |why| Err(io::Error::other(why)))
}

/// Returns an error text if the file system is too full to write more, once the `waits` bytes that wait are written. `leave_free` is the
/// percentage to leave free; without it, [`LEAVE_FREE`] applies.
fn is_too_full(disk: &Statvfs, waits: u128, leave_free: Option<u32>) -> Option<String> {
    let bytes = |blocks| u128::from(blocks) * u128::from(disk.fragment_size());
    let (free, all) = (bytes(disk.blocks_available()), bytes(disk.blocks()));
    let (percent, most) = leave_free.map_or(LEAVE_FREE, |percent| (percent, u128::MAX));
    let least = (all * u128::from(percent) / 100).min(most);
    let more = if least == most { format!(" (and less than {} MiB)", most >> 20) } else { String::new() };
    // A file system without a size does not report any.
    (all > 0 && free < least + waits)
        .then(|| format!("less than {percent} % of its file system{more} is free (leave-free)"))
}

/// Begins a file or stream of packets, with times in nanoseconds.
pub(crate) fn writer<W: Write>(to: W, keep: u32) -> Result<PcapWriter<W>, PcapError> {
    let header = PcapHeader {
        snaplen: keep,
        datalink: DataLink::ETHERNET,
        ts_resolution: TsResolution::NanoSecond,
        ..PcapHeader::default()
    };
    PcapWriter::with_header(to, header)
}

/// Writes a packet captured at this universal time, in nanoseconds.
pub(crate) fn write<W: Write>(
    to: &mut PcapWriter<W>,
    captured: &Captured,
    time: u64,
) -> Result<(), PcapError> {
    let packet = PcapPacket {
        timestamp: Duration::from_nanos(time),
        orig_len: captured.len,
        data: Cow::Borrowed(captured.bytes()),
    };
    to.write_packet(&packet).map(|_| ())
}

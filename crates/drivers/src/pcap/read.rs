//! Reads captures with libpcap: pcap and pcapng, with microsecond and nanosecond timestamps.

use std::fs::{self, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use buf::{Cache, Flags, Frame};
use infra::mem::Room;
use pcap::{Capture, Error, Linktype, Precision};

use super::LARGEST_FILE;

/// Maximum length of a packet in bytes: the largest IP packet with link headers is shorter.
const LONGEST: u32 = 65_600;

/// Bytes of memory that must be free for each byte of a file. Packets may be short, so that the list of packets is long, and
/// vectors grow by doubling.
const IN_MEMORY: u64 = 4;

/// The packets of a file, in memory.
#[derive(Debug)]
pub struct Recording {
    pub(super) packets: Vec<Recorded>,
    bytes: Vec<u8>,
    /// Packets truncated in the file, or longer than [`LONGEST`].
    pub(super) skipped: u64,
}

/// A packet of a recording.
#[derive(Debug)]
pub(super) struct Recorded {
    /// Nanoseconds since the first packet.
    pub(super) at: u64,
    begin: usize,
    end: usize,
}

impl Recording {
    /// Returns the number of packets.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// True if there are no packets.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns the number of packets that cannot be replayed: they are truncated in the file, or too long.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Appends the packet at `index` to `frame`. Returns false if there is no such packet, or no room or buffer for it.
    pub(crate) fn append(&self, index: usize, frame: &mut Frame, cache: &mut Cache) -> bool {
        let Some(packet) = self.packets.get(index) else { return false };
        if frame.alloc(cache, 1) == 0 {
            return false;
        }
        let last = frame.len() - 1;
        let filled = frame.get(last).is_some_and(|mut p| p.fill_chained(self.bytes(packet), cache));
        // The frame must know that the packet may be chained, also to free a partial chain.
        if frame.get(last).is_some_and(|p| p.flags().any(Flags::CHAINED)) {
            frame.note(Flags::CHAINED);
        }
        if !filled {
            frame.truncate(last, cache);
        }
        filled
    }

    pub(super) fn bytes(&self, packet: &Recorded) -> &[u8] {
        self.bytes.get(packet.begin..packet.end).unwrap_or_default()
    }
}

/// A packet of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen<'a> {
    /// Nanoseconds since the first packet.
    pub at: u64,
    /// Original length in bytes, with the Ethernet header.
    pub len: u32,
    /// Captured bytes; may be truncated.
    pub bytes: &'a [u8],
}

/// Reads a file into memory.
///
/// # Errors
/// Returns an error text: why the file cannot be replayed.
pub(super) fn read(path: &Path) -> Result<Recording, String> {
    let there = fs::metadata(path).map_err(|e| e.to_string())?;
    if there.len() > LARGEST_FILE {
        return Err(format!(
            "it has {} bytes, more than {LARGEST_FILE}: split it with editcap -c, or capture less with tcpdump -c",
            there.len()
        ));
    }
    // The packets, the list of packets, and the growth of both.
    Room::now().must_have(IN_MEMORY * there.len()).map_err(|e| e.to_string())?;
    let mut all = Recording { packets: Vec::new(), bytes: Vec::new(), skipped: 0 };
    each(path, |Seen { at, len, bytes }| {
        if bytes.len() < len as usize || len > LONGEST {
            all.skipped += 1;
            return;
        }
        let begin = all.bytes.len();
        all.bytes.extend_from_slice(bytes);
        all.packets.push(Recorded { at, begin, end: all.bytes.len() });
    })?;
    Ok(all)
}

/// Calls `show` for each packet of a file, in order.
///
/// # Errors
/// Returns an error text: why the file, or a packet of it, cannot be read.
pub fn each(path: &Path, mut show: impl FnMut(Seen<'_>)) -> Result<(), String> {
    // `O_PATH` does not open the file: opening a pipe would wait for its other end.
    let found = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path);
    let found = found.map_err(|e| e.to_string())?;
    if !found.metadata().map_err(|e| e.to_string())?.is_file() {
        return Err("it is not an ordinary file".into());
    }
    // This path names the file found above, even if another file has its name by now. It is the path of this thread, not of the process,
    // because this thread may have its own file descriptor table.
    let path = format!("/proc/thread-self/fd/{}", found.as_raw_fd());
    let said = |e: Error| match e {
        Error::PcapError(text) => text,
        other => other.to_string(),
    };
    let mut file = Capture::from_file_with_precision(path, Precision::Nano).map_err(said)?;
    let link = file.get_datalink();
    if link != Linktype::ETHERNET {
        let name = link.get_name().unwrap_or_else(|_| link.0.to_string());
        return Err(format!("its link type is {name}, not Ethernet"));
    }
    let (mut first, mut number) = (None, 0u64);
    loop {
        number += 1;
        let packet = match file.next_packet() {
            Ok(packet) => packet,
            Err(Error::NoMorePackets) => return Ok(()),
            Err(e) => return Err(format!("packet {number}: {}", said(e))),
        };
        // With this precision `tv_usec` holds nanoseconds.
        let time = i128::from(packet.header.ts.tv_sec) * 1_000_000_000 + i128::from(packet.header.ts.tv_usec);
        let at = u64::try_from(time - *first.get_or_insert(time)).unwrap_or(0);
        show(Seen { at, len: packet.header.len, bytes: packet.data });
    }
}

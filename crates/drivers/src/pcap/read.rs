//! Reads captures with libpcap: pcap and pcapng, with microsecond and nanosecond timestamps.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use buf::{Cache, Flags, Frame};
use infra::mem::Room;
use pcap::{Capture, Error, Linktype, Precision};

use super::{ETHERNET_HEADER, LARGEST_FILE};
use crate::kernel::files::{find_ordinary, path_of};
use crate::kernel::slow::Progress;
use crate::kernel::sys;

/// Maximum length of a packet in bytes: the largest IP packet with link headers is shorter.
const LONGEST: u32 = 65_600;

/// Bytes of memory that must be free for each byte of a file: for the copy, for the packets, for the list of packets, which is long if the
/// packets are short, and for vectors that grow by doubling.
const IN_MEMORY: u64 = 5;

/// Bytes of one read.
const PIECE: usize = 256 << 10;

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

/// Reads a file of Ethernet packets into memory. Notes the progress after each piece of the file.
///
/// # Errors
/// Returns an error text: why the file cannot be replayed.
pub(super) fn read(path: &Path, progress: &Progress) -> Result<Recording, String> {
    read_by(&Copied::of(path, LARGEST_FILE, progress)?, is_ethernet, |_, _| Ok(&[]))
}

/// Reads a file of packets that begin with an IP header of this version into memory. Each packet gets this Ethernet header. Notes the
/// progress after each piece of the file.
///
/// # Errors
/// Returns an error text: why the file cannot be replayed.
pub(super) fn read_ip(
    path: &Path,
    version: u8,
    header: [u8; ETHERNET_HEADER],
    progress: &Progress,
) -> Result<Recording, String> {
    // Programs give such files one of several link types.
    let is_ip =
        |link| if link == Linktype::ETHERNET { Err("it has Ethernet headers".into()) } else { Ok(()) };
    read_by(&Copied::of(path, LARGEST_FILE, progress)?, is_ip, |number, bytes| {
        match bytes.first().map(|byte| byte >> 4) {
            Some(found) if found == version => Ok(&header[..]),
            _ => Err(format!("packet {number} is no IPv{version} packet")),
        }
    })
}

/// A copy of a file in memory. The file itself may grow while it is read, or have other contents than its file system has said.
struct Copied(File);

impl Copied {
    /// Copies a file of at most `largest` bytes. Notes the progress after each piece.
    ///
    /// # Errors
    /// Returns an error text: the file is not ordinary, is too large, or cannot be read, or there is not enough free memory.
    fn of(path: &Path, largest: u64, progress: &Progress) -> Result<Copied, String> {
        let too_large = |size: u64| {
            let more = "split it with editcap -c, or capture less with tcpdump -c";
            Err(format!("it has {size} bytes, more than {largest}: {more}"))
        };
        let said = |e: io::Error| e.to_string();
        let found = find_ordinary(path).map_err(said)?;
        let size = found.about.len();
        if size > largest {
            return too_large(size);
        }
        let room = |bytes: u64| Room::now().must_have(IN_MEMORY * bytes).map_err(|e| e.to_string());
        room(size)?;
        let mut from = File::open(found.path()).map_err(said)?;
        let mut file = File::from(sys::memory_file(c"volley-capture").map_err(said)?);
        let (mut len, mut piece) = (0, vec![0; PIECE]);
        loop {
            let n = match from.read(&mut piece) {
                Ok(0) => return Ok(Copied(file)),
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(said(e)),
            };
            len += n as u64;
            if len > largest {
                return too_large(len);
            }
            if len > size {
                room(len)?;
            }
            file.write_all(piece.get(..n).unwrap_or_default()).map_err(said)?;
            progress.advance().map_err(said)?;
        }
    }

    /// Returns a path for opening the copy on this thread.
    fn path(&self) -> PathBuf {
        path_of(&self.0)
    }
}

/// Reads packets into memory. `accepts` decides on the link type. `before` returns the bytes to put in front of a packet; it gets the
/// packet's number, counted from 1, and the packet's bytes.
fn read_by<'h>(
    from: &Copied,
    accepts: impl FnOnce(Linktype) -> Result<(), String>,
    before: impl Fn(usize, &[u8]) -> Result<&'h [u8], String>,
) -> Result<Recording, String> {
    let mut all = Recording { packets: Vec::new(), bytes: Vec::new(), skipped: 0 };
    let mut number = 0;
    each_of(&from.path(), accepts, |Seen { at, len, bytes }| {
        number += 1;
        if bytes.len() < len as usize || len > LONGEST {
            all.skipped += 1;
            return Ok(());
        }
        let begin = all.bytes.len();
        all.bytes.extend_from_slice(before(number, bytes)?);
        all.bytes.extend_from_slice(bytes);
        all.packets.push(Recorded { at, begin, end: all.bytes.len() });
        Ok(())
    })?;
    Ok(all)
}

/// Calls `show` for each packet of a file, in order. An error of `show` ends the reading.
///
/// # Errors
/// Returns an error text: why the file, or a packet of it, cannot be read, or the error of `show`.
pub fn each(path: &Path, show: impl FnMut(Seen<'_>) -> Result<(), String>) -> Result<(), String> {
    each_of(path, is_ethernet, show)
}

fn is_ethernet(link: Linktype) -> Result<(), String> {
    match link {
        Linktype::ETHERNET => Ok(()),
        _ => Err(format!(
            "its link type is {}, not Ethernet",
            link.get_name().unwrap_or_else(|_| link.0.to_string())
        )),
    }
}

/// Like [`each`], for a file whose link type `accepts` accepts.
///
/// # Errors
/// As [`each`], and those of `accepts`.
fn each_of(
    path: &Path,
    accepts: impl FnOnce(Linktype) -> Result<(), String>,
    mut show: impl FnMut(Seen<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let found = find_ordinary(path).map_err(|e| e.to_string())?;
    let said = |e: Error| match e {
        Error::PcapError(text) => text,
        other => other.to_string(),
    };
    let mut file = Capture::from_file_with_precision(found.path(), Precision::Nano).map_err(said)?;
    accepts(file.get_datalink())?;
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
        show(Seen { at, len: packet.header.len, bytes: packet.data })?;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn files_are_copied_up_to_their_limit() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..PIECE * 2 + 7).map(|n| n as u8).collect();
        file.write_all(&bytes).unwrap();
        let len = bytes.len() as u64;
        let copied = Copied::of(file.path(), len, &Progress::default()).unwrap();
        assert_eq!(std::fs::read(copied.path()).unwrap(), bytes);
        let refused = Copied::of(file.path(), len - 1, &Progress::default()).err().unwrap();
        assert!(
            refused.starts_with(&format!("it has {len} bytes, more than {}: split it", len - 1)),
            "{refused}"
        );
        // Files of the kernel may consume what is read, and block.
        for other in ["/proc/kmsg", "/proc/self/status", "/dev/zero", "/"] {
            let refused = Copied::of(Path::new(other), len, &Progress::default()).err().unwrap();
            assert_eq!(refused, "it is not an ordinary file", "{other}");
        }
    }
}

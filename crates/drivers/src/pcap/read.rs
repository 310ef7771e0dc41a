//! Reads captures with libpcap: pcap and pcapng, with microsecond and nanosecond timestamps.

use std::fs::{self, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use buf::{Cache, Flags, Frame};
use infra::mem::Room;
use pcap::{Capture, Error, Linktype, Precision};

use super::{ETHERNET_HEADER, LARGEST_FILE};

/// Maximum length of a packet in bytes: the largest IP packet with link headers is shorter.
const LONGEST: u32 = 65_600;

/// Bytes of memory that must be free for each byte of a file: for the packets, for the list of packets, which is long if the packets are
/// short, and for vectors that grow by doubling.
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

/// Reads a file of Ethernet packets into memory.
///
/// # Errors
/// Returns an error text: why the file cannot be replayed.
pub(super) fn read(path: &Path) -> Result<Recording, String> {
    read_by(path, |show| each(path, show), |_, _| Ok(&[]))
}

/// Reads a file of packets that begin with an IP header of this version into memory. Each packet gets this Ethernet header.
///
/// # Errors
/// Returns an error text: why the file cannot be replayed.
pub(super) fn read_ip(path: &Path, version: u8, header: [u8; ETHERNET_HEADER]) -> Result<Recording, String> {
    let open = |show: Show<'_>| {
        // Programs give such files one of several link types.
        let is_ip =
            |link| if link == Linktype::ETHERNET { Err("it has Ethernet headers".into()) } else { Ok(()) };
        each_of(path, is_ip, show)
    };
    read_by(path, open, |number, bytes| match bytes.first().map(|byte| byte >> 4) {
        Some(found) if found == version => Ok(&header[..]),
        _ => Err(format!("packet {number} is no IPv{version} packet")),
    })
}

/// A callback for the packets of a file.
type Show<'s> = &'s mut dyn FnMut(Seen<'_>);

/// Reads packets into memory. `each` calls its argument for each packet. `before` returns the bytes to put in front of a packet; it gets
/// the packet's number, counted from 1, and the packet's bytes.
fn read_by<'h>(
    path: &Path,
    each: impl FnOnce(Show<'_>) -> Result<(), String>,
    before: impl Fn(usize, &[u8]) -> Result<&'h [u8], String>,
) -> Result<Recording, String> {
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
    let (mut number, mut failure) = (0, None);
    each(&mut |Seen { at, len, bytes }| {
        number += 1;
        if bytes.len() < len as usize || len > LONGEST {
            all.skipped += 1;
            return;
        }
        let begin = all.bytes.len();
        match before(number, bytes) {
            Ok(header) => all.bytes.extend_from_slice(header),
            Err(why) => drop(failure.get_or_insert(why)),
        }
        all.bytes.extend_from_slice(bytes);
        all.packets.push(Recorded { at, begin, end: all.bytes.len() });
    })?;
    failure.map_or(Ok(all), Err)
}

/// Calls `show` for each packet of a file, in order.
///
/// # Errors
/// Returns an error text: why the file, or a packet of it, cannot be read.
pub fn each(path: &Path, show: impl FnMut(Seen<'_>)) -> Result<(), String> {
    let is_ethernet = |link: Linktype| match link {
        Linktype::ETHERNET => Ok(()),
        _ => Err(format!(
            "its link type is {}, not Ethernet",
            link.get_name().unwrap_or_else(|_| link.0.to_string())
        )),
    };
    each_of(path, is_ethernet, show)
}

/// Calls `show` for each packet of a file whose link type `accepts` accepts, in order.
///
/// # Errors
/// Returns an error text: why the file, or a packet of it, cannot be read.
fn each_of(
    path: &Path,
    accepts: impl FnOnce(Linktype) -> Result<(), String>,
    mut show: impl FnMut(Seen<'_>),
) -> Result<(), String> {
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
        show(Seen { at, len: packet.header.len, bytes: packet.data });
    }
}

//! Reading a capture, with libpcap: pcap and pcapng, times in micro- and nanoseconds.

use std::fs::{self, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use pcap::{Capture, Error, Linktype, Precision};

use super::LARGEST_FILE;

/// Bytes of a packet at most: no IP packet is longer, with its link header.
const LONGEST: u32 = 65_600;

/// The packets of a file, in memory.
pub struct Recording {
    pub(super) packets: Vec<Recorded>,
    bytes: Vec<u8>,
    /// Packets of which the file has not all bytes, or that are longer than any can be.
    pub(super) skipped: u64,
}

/// A packet of a recording.
pub(super) struct Recorded {
    /// Nanoseconds since the first one.
    pub(super) at: u64,
    begin: usize,
    end: usize,
}

impl Recording {
    pub(super) fn bytes(&self, packet: &Recorded) -> &[u8] {
        self.bytes.get(packet.begin..packet.end).unwrap_or_default()
    }
}

/// A packet of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen<'a> {
    /// Nanoseconds since the first one.
    pub at: u64,
    /// How long it was, in bytes with its Ethernet header.
    pub len: u32,
    /// What the file has of it: not all bytes, maybe.
    pub bytes: &'a [u8],
}

/// Reads a file.
///
/// # Errors
/// Why it cannot be replayed.
pub(super) fn read(path: &Path) -> Result<Recording, String> {
    let there = fs::metadata(path).map_err(|e| e.to_string())?;
    if there.len() > LARGEST_FILE {
        return Err(format!(
            "it has {} bytes, and {LARGEST_FILE} is the most (editcap -c, or tcpdump -c, make smaller ones)",
            there.len()
        ));
    }
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

/// Shows each packet of a file, in order.
///
/// # Errors
/// Why the file, or a packet of it, cannot be read.
pub fn each(path: &Path, mut show: impl FnMut(Seen<'_>)) -> Result<(), String> {
    // Only found, not opened: who opens a pipe waits for its other end.
    let found = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path);
    let found = found.map_err(|e| e.to_string())?;
    if !found.metadata().map_err(|e| e.to_string())?.is_file() {
        return Err("it is no ordinary file".into());
    }
    // What was found, whatever has the name by now.
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    let said = |e: Error| match e {
        Error::PcapError(text) => text,
        other => other.to_string(),
    };
    let mut file = Capture::from_file_with_precision(path, Precision::Nano).map_err(said)?;
    let link = file.get_datalink();
    if link != Linktype::ETHERNET {
        let name = link.get_name().unwrap_or_else(|_| link.0.to_string());
        return Err(format!("its packets are of the link type {name}, not Ethernet"));
    }
    let (mut first, mut number) = (None, 0u64);
    loop {
        number += 1;
        let packet = match file.next_packet() {
            Ok(packet) => packet,
            Err(Error::NoMorePackets) => return Ok(()),
            Err(e) => return Err(format!("packet {number}: {}", said(e))),
        };
        // With this precision the microseconds are nanoseconds.
        let time = i128::from(packet.header.ts.tv_sec) * 1_000_000_000 + i128::from(packet.header.ts.tv_usec);
        let at = u64::try_from(time - *first.get_or_insert(time)).unwrap_or(0);
        show(Seen { at, len: packet.header.len, bytes: packet.data });
    }
}

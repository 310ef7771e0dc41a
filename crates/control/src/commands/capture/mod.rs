//! Captures: packets for tcpdump and Wireshark, into a file (`pcap trace`) or to a client (`volley capture`). There is one
//! at a time.

mod file;
mod stream;

use std::borrow::Cow;
use std::io::Write;
use std::time::{Duration, SystemTime};

use buf::bpf::Program;
use net::pcap::{Captured, Captures, MOST_BYTES, Point};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, PcapError, TsResolution};

use super::{Context, Output};
use crate::cli::{Args, CliError, Registry};

/// Copies that are taken from the workers in one turn of the main thread.
const A_TURN: usize = 256;
/// Bytes of a capture's file before the first packet, and before the bytes of each packet.
const FILE_HEADER: u64 = 24;
const PACKET_HEADER: u64 = 16;

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    file::register(r);
    stream::register(r);
}

/// What a capture copies.
struct Wanted {
    points: Vec<Point>,
    scope: Scope,
    /// Bytes of each packet.
    keep: u32,
    filter: Option<Program>,
}

/// The interfaces of a capture, also those that are made while it runs.
enum Scope {
    Any,
    /// This device with its sub-interfaces.
    Device(String),
}

impl Wanted {
    /// What a command asks for whose syntax has `[rx] [tx] [drop]`, and arguments `packets`, `interface` and `bytes`. If none
    /// of the first three is said, packets are captured at `usual`; if the last one is not, `bytes` of each.
    fn of(
        c: &Context,
        a: &Args,
        usual: &[Point],
        bytes: u32,
        filter: Option<Program>,
    ) -> Result<Wanted, CliError> {
        let words = [("rx", Point::Rx), ("tx", Point::Tx), ("drop", Point::Drop)];
        let mut points: Vec<Point> =
            words.into_iter().filter(|(word, _)| a.has(word)).map(|(_, point)| point).collect();
        if points.is_empty() {
            points = usual.to_vec();
        }
        let keep = a.get::<u32>("bytes").unwrap_or(bytes);
        if !(32..=MOST_BYTES as u32).contains(&keep) {
            return Err(a.fault("bytes", format!("32 to {MOST_BYTES} bytes of each packet can be kept")));
        }
        if a.get::<u32>("packets") == Some(0) {
            return Err(a.fault("packets", "a capture has at least one packet"));
        }
        Ok(Wanted { points, scope: scope(c, a)?, keep, filter })
    }
}

fn scope(c: &Context, a: &Args) -> Result<Scope, CliError> {
    let Some(name) = a.get::<String>("interface").filter(|name| name != "any") else { return Ok(Scope::Any) };
    match c.system.router.interface_named(&name) {
        Some(i) if i.parent != i.index => {
            Err(a
                .fault("interface", format!("{name} is a sub-interface: packets are captured on its device")))
        }
        Some(_) => Ok(Scope::Device(name)),
        None => Err(a.fault("interface", format!("there is no interface {name}; \"any\" is all"))),
    }
}

/// A capture under way.
pub struct Capture {
    points: Vec<Point>,
    scope: Scope,
    progress: Progress,
    to: Destination,
}

/// How far a capture is.
struct Progress {
    /// Packets taken so far.
    packets: u64,
    /// It ends by itself after so many.
    most: u64,
    /// Bytes that they take as a file, with its header.
    bytes: u64,
    /// It ends by itself before they are more than this.
    most_bytes: u64,
    /// Whether it has come to its end.
    complete: bool,
    /// Copies that were lost before it began.
    lost_before: u64,
    /// What to add to the monotonic clock for universal time.
    epoch: u64,
}

enum Destination {
    File(file::Sink),
    Client(stream::Client),
}

impl Progress {
    /// Before the first packet.
    fn new(most: u64, most_bytes: u64) -> Progress {
        Progress {
            packets: 0,
            most,
            bytes: FILE_HEADER,
            most_bytes,
            complete: false,
            lost_before: 0,
            epoch: 0,
        }
    }

    /// Gives up to [`A_TURN`] packets to `each`, with universal time in nanoseconds; no more than there are to be. Returns
    /// whether there may be more at once.
    fn take(&mut self, captures: &Captures, mut each: impl FnMut(&Captured, u64)) -> bool {
        let taken = captures.take(A_TURN, |captured| {
            let bytes = self.bytes + PACKET_HEADER + captured.bytes().len() as u64;
            self.complete |= bytes > self.most_bytes;
            if !self.complete {
                (self.packets, self.bytes) = (self.packets + 1, bytes);
                self.complete = self.packets == self.most;
                each(captured, captured.time.saturating_add(self.epoch));
            }
        });
        taken > 0 && !self.complete
    }

    fn lost(&self, captures: &Captures) -> u64 {
        captures.lost() - self.lost_before
    }

    /// What has become of the packets.
    fn summary(&self, captures: &Captures, became: &str) -> String {
        let lost = match self.lost(captures) {
            0 => String::new(),
            lost => format!(", {lost} lost because they came faster than they were taken"),
        };
        format!("{} packets {became}{lost}", self.packets)
    }
}

impl Capture {
    fn summary(&self, captures: &Captures) -> String {
        match &self.to {
            Destination::File(sink) => {
                self.progress.summary(captures, &format!("written to {}", sink.path().display()))
            }
            Destination::Client(_) => self.progress.summary(captures, stream::BECAME),
        }
    }

    /// Does what is to be done now and then. Returns whether the capture is over.
    fn turn(&mut self, captures: &Captures) -> bool {
        match &mut self.to {
            Destination::File(sink) => {
                let before = self.progress.packets;
                self.progress.take(captures, |captured, time| sink.write(captured, time));
                if self.progress.packets > before {
                    sink.look_at_disk();
                }
                self.progress.complete || sink.is_over()
            }
            Destination::Client(client) => !client.is_there(),
        }
    }
}

/// Begins a file or stream of packets, with times in nanoseconds.
fn writer<W: Write>(to: W, keep: u32) -> Result<PcapWriter<W>, PcapError> {
    let header = PcapHeader {
        snaplen: keep,
        datalink: DataLink::ETHERNET,
        ts_resolution: TsResolution::NanoSecond,
        ..PcapHeader::default()
    };
    PcapWriter::with_header(to, header)
}

/// Writes a packet captured at this universal time, nanoseconds.
fn write<W: Write>(to: &mut PcapWriter<W>, captured: &Captured, time: u64) -> Result<(), PcapError> {
    let packet = PcapPacket {
        timestamp: Duration::from_nanos(time),
        orig_len: captured.len,
        data: Cow::Borrowed(captured.bytes()),
    };
    to.write_packet(&packet).map(|_| ())
}

impl Context {
    /// # Errors
    /// When a capture runs.
    fn may_capture(&mut self) -> Result<(), CliError> {
        // Its client may have gone a moment ago.
        self.turn_capture();
        match self.capture {
            None => Ok(()),
            Some(_) => Err(CliError::new(
                "a capture runs already: \"pcap trace status\" tells of it, \"pcap trace off\" ends it",
            )),
        }
    }

    fn begin_capture(&mut self, wanted: Wanted, mut progress: Progress, to: Destination) {
        let captures = self.system.router.tables().captures.clone();
        let Wanted { points, scope, keep, filter } = wanted;
        captures.begin(&points, keep as usize, filter);
        let utc = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        progress.epoch = (utc.as_nanos() as u64).saturating_sub(self.now());
        progress.lost_before = captures.lost();
        self.capture = Some(Capture { points, scope, progress, to });
        self.switch_capture(true);
    }

    /// Switches the features of the capture on or off, for all of its interfaces that there are now.
    fn switch_capture(&mut self, on: bool) {
        let Some(capture) = &self.capture else { return };
        let router = &mut self.system.router;
        let of_it: Vec<u32> = match &capture.scope {
            Scope::Any => router.interfaces().map(|i| i.index).collect(),
            Scope::Device(name) => {
                let device = router.interface_named(name).map(|i| i.index);
                router.interfaces().filter(|i| Some(i.parent) == device).map(|i| i.index).collect()
            }
        };
        for point in &capture.points {
            let (arc, feature) = point.feature();
            let done = router.arcs().enable_all(arc, feature, of_it.iter().copied(), on);
            debug_assert!(done.is_ok(), "{done:?}");
        }
    }

    /// Has the capture that runs follow a change of interfaces, also one that failed: what was made, or was taken away and
    /// came back, has no features on.
    pub(super) fn capture_follows(&mut self) {
        self.switch_capture(true);
    }

    /// Writes what was copied. Returns whether a capture runs that needs such turns often.
    pub fn turn_capture(&mut self) -> bool {
        let Some(capture) = &mut self.capture else { return false };
        if capture.turn(&self.system.router.tables().captures) {
            let text = self.end_capture().unwrap_or_default();
            tracing::info!("{}", text.trim_end());
        }
        matches!(&self.capture, Some(Capture { to: Destination::File(_), .. }))
    }

    /// Ends the capture, if one runs, and says what came of it.
    pub fn end_capture(&mut self) -> Option<String> {
        self.switch_capture(false);
        let mut capture = self.capture.take()?;
        let captures = &self.system.router.tables().captures;
        if let Destination::File(sink) = &mut capture.to {
            while !sink.is_over()
                && capture.progress.take(captures, |captured, time| sink.write(captured, time))
            {
                sink.look_at_disk();
            }
        }
        let mut text = capture.summary(captures);
        if let Destination::File(sink) = capture.to {
            text += &sink.finish();
        }
        self.last_capture = Some(text.clone());
        Some(text + "\n")
    }
}

//! `pcap trace`: packets into a file for tcpdump and Wireshark.

use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io::BufWriter;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use buf::bpf::Program;
use net::pcap::{Captured, MOST_BYTES, Point};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, TsResolution};
use serde::Serialize;

use super::filter::with_filter;
use super::{Context, Output};
use crate::cli::{Args, CliError, Registry};

/// Packets of a capture for which no number is said, as VPP has it.
const PACKETS: u32 = 100;
/// Bytes of each packet for which no number is said, as VPP has it.
const BYTES: u32 = 512;
/// Copies that are written in one turn of the main thread.
const A_TURN: usize = 256;

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add(
        "pcap trace [rx] [tx] [drop] [max <packets:u32>] [intfc <interface:word>] [file <file:path>] \
         [max-bytes-per-pkt <bytes:u32>] [filter <filter:word>]",
        "Copy packets into a file as they come in, go out or are dropped, until there are as many as \"max\" says; of one \
         device with its sub-interfaces, or of \"any\"; those that match an expression as tcpdump has them.",
        |c, a| with_filter(c, a, start),
    );
    r.add("pcap trace off", "End the capture, and complete its file.", |c, _| match c.end_capture() {
        Some(text) => Ok(Output::text(text)),
        None => Err(CliError::new("no capture runs")),
    });
    r.add("pcap trace status", "Show the capture that runs.", |c, _| Ok(status(c)));
}

/// A capture under way.
pub struct Capture {
    path: PathBuf,
    file: PcapWriter<BufWriter<File>>,
    /// What is switched on: points, and interfaces by index.
    on: Vec<(Point, u32)>,
    written: u32,
    most: u32,
    /// Copies that were lost before it began.
    lost_before: u64,
    /// What to add to the monotonic clock for universal time.
    epoch: u64,
    failed: Option<String>,
}

fn start(c: &mut Context, a: &Args, filter: Option<Program>) -> Result<Output, CliError> {
    if c.capture.is_some() {
        return Err(CliError::new("a capture runs already: pcap trace off, or status"));
    }
    let words = [("rx", Point::Rx), ("tx", Point::Tx), ("drop", Point::Drop)];
    let points: Vec<Point> =
        words.into_iter().filter(|(word, _)| a.has(word)).map(|(_, point)| point).collect();
    if points.is_empty() {
        return Err(CliError::new("nothing is captured: rx, tx, drop, or several of them"));
    }
    let interfaces = interfaces(c, a)?;
    let keep = a.get::<u32>("bytes").unwrap_or(BYTES);
    if !(32..=MOST_BYTES as u32).contains(&keep) {
        return Err(a.fault("bytes", format!("32 to {MOST_BYTES} bytes of each packet can be kept")));
    }
    let most = a.get::<u32>("packets").unwrap_or(PACKETS);
    if most == 0 {
        return Err(a.fault("packets", "a capture has at least one packet"));
    }
    let path: PathBuf = a.get("file").unwrap_or_else(|| std::env::temp_dir().join("volley.pcap"));
    let refused =
        |e: &dyn std::fmt::Display| a.fault("file", format!("{} cannot be written: {e}", path.display()));
    let file = create(&path).map_err(|e| refused(&e))?;
    let header = PcapHeader {
        snaplen: keep,
        datalink: DataLink::ETHERNET,
        ts_resolution: TsResolution::NanoSecond,
        ..PcapHeader::default()
    };
    let file = PcapWriter::with_header(BufWriter::new(file), header).map_err(|e| refused(&e))?;
    let captures = c.system.router.tables().captures.clone();
    captures.begin(&points, keep as usize, filter);
    let utc = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let on = interfaces.iter().flat_map(|i| points.iter().map(|p| (*p, *i))).collect();
    let capture = Capture {
        file,
        on,
        written: 0,
        most,
        lost_before: captures.lost(),
        epoch: (utc.as_nanos() as u64).saturating_sub(c.now()),
        failed: None,
        path,
    };
    let text = format!("capturing {most} packets into {}", capture.path.display());
    c.capture = Some(capture);
    c.switch_capture(true);
    Ok(Output::text(text))
}

/// Makes the file anew, for its owner and group: it may have secrets in it. What is there already is replaced if it is an
/// ordinary file; a link is not followed, since folders that everybody writes to may have one waiting.
fn create(path: &Path) -> std::io::Result<File> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_file() => fs::remove_file(path)?,
        Ok(_) => return Err(std::io::Error::other("it is no ordinary file")),
        Err(_) => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o640).open(path)
}

/// The device that is named, with its sub-interfaces; or every interface.
fn interfaces(c: &Context, a: &Args) -> Result<Vec<u32>, CliError> {
    let all = || c.system.router.interfaces();
    let Some(name) = a.get::<String>("interface").filter(|name| name != "any") else {
        return Ok(all().map(|i| i.index).collect());
    };
    match all().find(|i| i.name == name) {
        Some(i) if i.parent != i.index => {
            Err(a
                .fault("interface", format!("{name} is a sub-interface: packets are captured on its device")))
        }
        Some(device) => Ok(all().filter(|i| i.parent == device.index).map(|i| i.index).collect()),
        None => Err(a.fault("interface", format!("there is no interface {name}; \"any\" is all"))),
    }
}

impl Context {
    fn switch_capture(&mut self, on: bool) {
        let Some(capture) = &self.capture else { return };
        for (point, interface) in &capture.on {
            let (arc, feature) = point.feature();
            // One that went meanwhile took its features along.
            if on || self.system.router.interface(*interface).is_ok() {
                let done = self.system.router.arcs().enable(arc, feature, *interface, on);
                debug_assert!(done.is_ok(), "{done:?}");
            }
        }
    }

    /// Writes what was copied. Returns whether a capture runs.
    pub fn turn_capture(&mut self) -> bool {
        let Some(capture) = &mut self.capture else { return false };
        self.system.router.tables().captures.take(A_TURN, |captured| capture.write(captured));
        if capture.written == capture.most || capture.failed.is_some() {
            let text = self.end_capture().unwrap_or_default();
            tracing::info!("{}", text.trim_end());
        }
        self.capture.is_some()
    }

    /// Ends the capture, if one runs, and says what came of it.
    pub fn end_capture(&mut self) -> Option<String> {
        self.switch_capture(false);
        let captures = self.system.router.tables().captures.clone();
        let mut capture = self.capture.take()?;
        while captures.take(A_TURN, |captured| capture.write(captured)) > 0 {}
        let lost = captures.lost() - capture.lost_before;
        let Capture { file, path, written, mut failed, .. } = capture;
        // Dropping the writer would hide that the last bytes found no room.
        let flushed = file.into_writer().into_inner().map(drop);
        failed = failed.or(flushed.err().map(|e| e.to_string()));
        let mut text = format!("{written} packets written to {}", path.display());
        if lost > 0 {
            text += &format!(", {lost} lost because they came faster than they were written");
        }
        if let Some(why) = failed {
            text += &format!("; the file is not complete: {why}");
        }
        self.last_capture = Some(text.clone());
        Some(text + "\n")
    }
}

impl Capture {
    fn write(&mut self, captured: &Captured) {
        if self.written == self.most || self.failed.is_some() {
            return;
        }
        let packet = PcapPacket {
            timestamp: Duration::from_nanos(captured.time.saturating_add(self.epoch)),
            orig_len: captured.len,
            data: Cow::Borrowed(captured.bytes()),
        };
        match self.file.write_packet(&packet) {
            Ok(_) => self.written += 1,
            Err(e) => self.failed = Some(e.to_string()),
        }
    }
}

#[derive(Serialize)]
struct Status {
    running: bool,
    file: Option<String>,
    packets: u32,
    max_packets: u32,
    lost: u64,
}

fn status(c: &Context) -> Output {
    let Some(capture) = &c.capture else {
        let last = c.last_capture.as_ref().map_or(String::new(), |last| format!("; the last one: {last}"));
        let none = Status { running: false, file: None, packets: 0, max_packets: 0, lost: 0 };
        return Output::show(&none, format!("no capture runs{last}"));
    };
    let lost = c.system.router.tables().captures.lost() - capture.lost_before;
    let shown = Status {
        running: true,
        file: Some(capture.path.display().to_string()),
        packets: capture.written,
        max_packets: capture.most,
        lost,
    };
    let text = format!(
        "{} of {} packets written to {}, {lost} lost",
        shown.packets,
        shown.max_packets,
        capture.path.display()
    );
    Output::show(&shown, text)
}

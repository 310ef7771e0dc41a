//! `pcap trace`: packets into a file.

use std::fmt::Display;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use buf::bpf::Program;
use net::pcap::Captured;
use pcap_file::pcap::PcapWriter;
use serde::Serialize;

use super::{Context, Destination, Output, Wanted, write, writer};
use crate::cli::{Args, CliError, Registry};
use crate::commands::filter::with_filter;

/// Packets of a capture for which no number is said, as VPP has it.
const PACKETS: u32 = 100;
/// Bytes of each packet for which no number is said, as VPP has it.
const BYTES: u32 = 512;

pub(super) fn register(r: &mut Registry<Context>) {
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

fn start(c: &mut Context, a: &Args, filter: Option<Program>) -> Result<Output, CliError> {
    c.may_capture()?;
    let wanted = Wanted::of(c, a, &[], BYTES, filter)?;
    if wanted.points.is_empty() {
        return Err(CliError::new("nothing is captured: rx, tx, drop, or several of them"));
    }
    let most = a.get::<u32>("packets").unwrap_or(PACKETS);
    let path: PathBuf = a.get("file").unwrap_or_else(|| std::env::temp_dir().join("volley.pcap"));
    let refused = |e: &dyn Display| a.fault("file", format!("{} cannot be written: {e}", path.display()));
    let file = drivers::pcap::create(&path).map_err(|e| refused(&e))?;
    let file = writer(BufWriter::new(file), wanted.keep).map_err(|e| refused(&e))?;
    let text = format!("capturing {most} packets into {}", path.display());
    c.begin_capture(wanted, most.into(), Destination::File(Sink { path, file, failed: None }));
    Ok(Output::text(text))
}

/// The file of a capture.
pub(super) struct Sink {
    path: PathBuf,
    file: PcapWriter<BufWriter<File>>,
    failed: Option<String>,
}

impl Sink {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn write(&mut self, captured: &Captured, time: u64) {
        if self.failed.is_none() {
            self.failed = write(&mut self.file, captured, time).err().map(|e| e.to_string());
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Completes the file; or says why it is not complete.
    pub(super) fn finish(self) -> Result<(), String> {
        // Dropping the writer would hide that the last bytes found no room.
        let flushed = self.file.into_writer().into_inner();
        match self.failed {
            Some(why) => Err(why),
            None => flushed.map(drop).map_err(|e| e.to_string()),
        }
    }
}

#[derive(Serialize)]
struct Status {
    running: bool,
    file: Option<String>,
    packets: u64,
    max_packets: Option<u64>,
    lost: u64,
}

fn status(c: &Context) -> Output {
    let Some(capture) = &c.capture else {
        let last = c.last_capture.as_ref().map_or(String::new(), |last| format!("; the last one: {last}"));
        let none = Status { running: false, file: None, packets: 0, max_packets: None, lost: 0 };
        return Output::show(&none, format!("no capture runs{last}"));
    };
    let (captures, progress) = (&c.system.router.tables().captures, &capture.progress);
    let shown = Status {
        running: true,
        file: match &capture.to {
            Destination::File(sink) => Some(sink.path.display().to_string()),
            Destination::Client(_) => None,
        },
        packets: progress.packets,
        max_packets: (progress.most < u64::MAX).then_some(progress.most),
        lost: progress.lost(captures),
    };
    let most = shown.max_packets.map_or(String::new(), |most| format!(" (of {most})"));
    let text = format!("running: {}{most}", capture.summary(captures));
    Output::show(&shown, text)
}

//! `pcap trace`: packets into a file.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use buf::bpf::Program;
use net::pcap::Captured;
use nix::sys::statvfs::{Statvfs, fstatvfs, statvfs};
use pcap_file::pcap::PcapWriter;
use serde::Serialize;

use super::{
    Context, Destination, FILE_HEADER, Output, PACKET_HEADER, Progress, Wanted, scope, write, writer,
};
use crate::cli::{Args, CliError, Job, Registry, Step};
use crate::commands::config::LOOK;
use crate::commands::filter::with_filter;
use crate::commands::whole::{Thread, joined, on_a_thread};
use crate::files;

/// Packets of a capture for which no number is said, as VPP has it.
const PACKETS: u32 = 100;
/// Bytes of each packet for which no number is said, as VPP has it.
const BYTES: u32 = 512;
/// How much of the file system is left free where nothing is said: so many percent, but no more than so many bytes.
const LEAVE_FREE: (u32, u128) = (5, 256 << 20);

pub(super) fn register(r: &mut Registry<Context>) {
    r.add(
        "pcap trace [rx] [tx] [drop] [max <packets:u32>] [max-file-bytes <most:u64>] [leave-free <percent:u32>] \
         [intfc <interface:word>] [file <file:path>] [max-bytes-per-pkt <bytes:u32>] [filter <filter:word>]",
        "Copy packets into a file as they come in, go out or are dropped, until there are as many as \"max\" says, the \
         file is as large as \"max-file-bytes\" says, or less of its file system is free than \"leave-free\" says \
         (5 %, but no more than 256 MiB); of one device with its sub-interfaces, or of \"any\"; those that match an expression as tcpdump has them.",
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
    let most_bytes = a.get::<u64>("most").unwrap_or(u64::MAX);
    let least = FILE_HEADER + PACKET_HEADER + u64::from(wanted.keep);
    if most_bytes < least {
        return Err(
            a.fault("most", format!("a file with a packet of {} bytes has {least} bytes", wanted.keep))
        );
    }
    // Whoever says how large the file may become has said how many packets there may be.
    let most = match a.get::<u32>("packets") {
        Some(packets) => packets.into(),
        None if a.has("most") => u64::MAX,
        None => PACKETS.into(),
    };
    let leave_free = a.get::<u32>("percent");
    if leave_free.is_some_and(|percent| percent > 99) {
        return Err(a.fault("percent", "0 to 99 percent of the file system can be left free"));
    }
    let path: PathBuf = a.get("file").unwrap_or_else(|| std::env::temp_dir().join("volley.pcap"));
    let to = path.clone();
    let opened = on_a_thread(move || {
        let open = move |path: &Path| {
            // Before a file is made, or one that is there is emptied. If this says nothing, making the file says why.
            let disk = statvfs(path.parent().unwrap_or(path)).ok();
            match disk.and_then(|disk| too_full(&disk, leave_free)) {
                Some(why) => Err(io::Error::other(why)),
                None => drivers::pcap::create(path),
            }
        };
        files::open_by(&to, open).map_err(|e| unwritten(&to, &e))
    })?;
    let bounds = Bounds { most, most_bytes, leave_free };
    Ok(Output::job(Begin { args: a.clone(), wanted: Some(wanted), bounds, path, opened: Some(opened) }))
}

fn unwritten(path: &Path, e: &dyn Display) -> CliError {
    CliError::new(format!("{} cannot be written: {e}", path.display()))
}

/// How large a file may become.
#[derive(Clone, Copy)]
struct Bounds {
    /// Packets.
    most: u64,
    /// Bytes.
    most_bytes: u64,
    /// How much of the file system is to stay free, in percent, if that was said.
    leave_free: Option<u32>,
}

/// A capture that begins when its file was opened: the file system may not answer.
struct Begin {
    args: Args,
    wanted: Option<Wanted>,
    bounds: Bounds,
    path: PathBuf,
    opened: Option<Thread<File>>,
}

impl Begin {
    fn begin(&mut self, c: &mut Context, file: File) -> Result<String, CliError> {
        // Another one may have begun meanwhile, or an interface may be gone.
        c.may_capture()?;
        scope(c, &self.args)?;
        let Some(wanted) = self.wanted.take() else { return Ok(String::new()) };
        let refused = |e: &dyn Display| self.args.about("file", unwritten(&self.path, e));
        let disk = file.try_clone().map_err(|e| refused(&e))?;
        let file = writer(BufWriter::new(file), wanted.keep).map_err(|e| refused(&e))?;
        let Bounds { most, most_bytes, leave_free } = self.bounds;
        let bounds = [(most, "packets"), (most_bytes, "bytes")];
        let bounds =
            bounds.iter().filter(|(most, _)| *most < u64::MAX).map(|(most, what)| format!("{most} {what}"));
        let bounds = bounds.collect::<Vec<_>>().join(" or ");
        let path = self.path.clone();
        let text = format!("capturing {bounds} into {}", path.display());
        let sink = Sink { path, file, disk, leave_free, too_full: None, failed: None };
        c.begin_capture(wanted, Progress::new(most, most_bytes), Destination::File(sink));
        Ok(text)
    }
}

impl Job<Context> for Begin {
    fn step(&mut self, c: &mut Context, out: &mut String) -> Step {
        let Some(opened) = self.opened.take_if(|opened| opened.is_finished()) else {
            return Step::After(LOOK);
        };
        let opened = joined(opened).map_err(|e| self.args.about("file", e));
        match opened.and_then(|file| self.begin(c, file)) {
            Ok(text) => {
                *out += &Output::text(text).render(self.args.json()).text;
                Step::Done
            }
            Err(e) => Step::Failed(e),
        }
    }
}

/// Why nothing more is written to a file system, of which so many percent are to stay free; `None`: as [`LEAVE_FREE`] says.
fn too_full(disk: &Statvfs, leave_free: Option<u32>) -> Option<String> {
    let bytes = |blocks| u128::from(blocks) * u128::from(disk.fragment_size());
    let (free, all) = (bytes(disk.blocks_available()), bytes(disk.blocks()));
    let (percent, most) = leave_free.map_or(LEAVE_FREE, |percent| (percent, u128::MAX));
    let least = (all * u128::from(percent) / 100).min(most);
    let more = if least == most { format!(", and than {} MiB,", most >> 20) } else { String::new() };
    (free < least).then(|| format!("less than {percent} % of its file system{more} is free (leave-free)"))
}

/// The file of a capture.
pub(super) struct Sink {
    path: PathBuf,
    file: PcapWriter<BufWriter<File>>,
    /// The same file, to ask about its file system.
    disk: File,
    /// How much of the file system is to stay free, in percent, if that was said.
    leave_free: Option<u32>,
    /// Why it ends before it is as large as was said.
    too_full: Option<String>,
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

    /// Sees whether there is enough room for more. A file system that does not say so has room until a write fails.
    pub(super) fn look_at_disk(&mut self) {
        self.too_full = fstatvfs(&self.disk).ok().and_then(|disk| too_full(&disk, self.leave_free));
    }

    /// Whether nothing more is to be written.
    pub(super) fn is_over(&self) -> bool {
        self.failed.is_some() || self.too_full.is_some()
    }

    /// Completes the file. Says what there is to say of how it ended.
    pub(super) fn finish(self) -> String {
        // Dropping the writer would hide that the last bytes found no room.
        let flushed = self.file.into_writer().into_inner();
        let failed = self.failed.or(flushed.err().map(|e| e.to_string()));
        let failed = failed.map(|why| format!("; the file is not complete: {why}"));
        let ended = self.too_full.map(|why| format!("; it ended because {why}"));
        failed.or(ended).unwrap_or_default()
    }
}

#[derive(Serialize)]
struct Status {
    running: bool,
    file: Option<String>,
    packets: u64,
    max_packets: Option<u64>,
    /// Of the file, or as a file.
    bytes: u64,
    max_bytes: Option<u64>,
    lost: u64,
}

fn status(c: &Context) -> Output {
    let Some(capture) = &c.capture else {
        let last = c.last_capture.as_ref().map_or(String::new(), |last| format!("; the last one: {last}"));
        let none = Status {
            running: false,
            file: None,
            packets: 0,
            max_packets: None,
            bytes: 0,
            max_bytes: None,
            lost: 0,
        };
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
        bytes: progress.bytes,
        max_bytes: (progress.most_bytes < u64::MAX).then_some(progress.most_bytes),
        lost: progress.lost(captures),
    };
    let most = shown.max_packets.map_or(String::new(), |most| format!(" (of {most})"));
    let most_bytes =
        shown.max_bytes.map_or(String::new(), |most| format!(", {} bytes (of {most})", shown.bytes));
    let text = format!("running: {}{most}{most_bytes}", capture.summary(captures));
    Output::show(&shown, text)
}

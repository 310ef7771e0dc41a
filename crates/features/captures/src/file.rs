//! `pcap trace`: captures packets into a file.

use std::fs::File;
use std::path::{Path, PathBuf};

use buf::bpf::Program;
use model::cli::{Args, CliError, Output};
use net::feature::{App, Registrar};
use serde::Serialize;

use crate::capture::{self, Captures, Progress};
use crate::destination::{Destination, FILE_HEADER, PACKET_HEADER, Sink, has_room};
use crate::request::{Request, scope};

/// Default number of packets, as in VPP.
const PACKETS: u32 = 100;
/// Default number of bytes of each packet, as in VPP.
const BYTES: u32 = 512;
pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    r.command(
        "pcap trace [rx] [tx] [drop] [max <packets:u32>] [max-file-bytes <most:u64>] [leave-free <percent:0..99>] \
         [intfc <interface:word>] [file <file:path>] [max-bytes-per-pkt <bytes:u32>] [filter <filter:word>]",
        "Copy received, sent or dropped packets into a file. The capture ends after \"max\" packets, at \"max-file-bytes\", or \
         when less than \"leave-free\" percent of the file system is free (by default 5 %, at most 256 MiB). \"intfc\" is a \
         device with its sub-interfaces, or \"any\"; \"filter\" is a tcpdump expression.",
        |c, a| c.with_filter(a, start),
    );
    r.command("pcap trace off", "End the capture, and complete its file.", |c, _| {
        match capture::end(c.router_mut()) {
            Some(text) => Ok(Output::text(text)),
            None => Err(CliError::new("no capture runs")),
        }
    });
    r.command("pcap trace status", "Show the running capture.", |c, _| status(c));
}

fn start<C: App>(c: &mut C, a: &Args, filter: Option<Program>) -> Result<Output<C>, CliError> {
    capture::must_be_free(c, a)?;
    let request = Request::of(c, a, &[], BYTES, filter)?;
    if request.points.is_empty() {
        return Err(CliError::new("no packets are selected: give rx, tx, drop, or several of them"));
    }
    let most_bytes = a.get::<u64>("most").unwrap_or(u64::MAX);
    let least = FILE_HEADER + PACKET_HEADER + u64::from(request.keep);
    if most_bytes < least {
        return Err(a.fault(
            "most",
            format!("too small: a file with a single packet of {} bytes needs {least} bytes", request.keep),
        ));
    }
    // With a limit on the size, the default limit on packets does not apply.
    let most = match a.get::<u32>("packets") {
        Some(packets) => packets.into(),
        None if a.has("most") => u64::MAX,
        None => PACKETS.into(),
    };
    let leave_free = a.get::<u32>("percent");
    let path: PathBuf = a.get("file").unwrap_or_else(|| std::env::temp_dir().join("volley.pcap"));
    let allows = move |path: &Path| has_room(path, leave_free);
    let bounds = Bounds { most, most_bytes, leave_free };
    let to = path.clone();
    c.create_file(a, "file", &path, allows, move |c, a, file| begin(c, a, request, bounds, to, file))
}

/// The limits for the size of a capture file.
#[derive(Clone, Copy)]
struct Bounds {
    /// Maximum number of packets in the file.
    most: u64,
    /// Maximum size of the file in bytes.
    most_bytes: u64,
    /// Percentage of the file system to leave free, if given.
    leave_free: Option<u32>,
}

/// Begins a capture into a new file.
fn begin<C: App>(
    c: &mut C,
    a: &Args,
    request: Request,
    bounds: Bounds,
    path: PathBuf,
    file: File,
) -> Result<Output<C>, CliError> {
    // Another capture may have begun meanwhile, or an interface may be gone.
    capture::must_be_free(c, a)?;
    scope(c, a)?;
    let Bounds { most, most_bytes, leave_free } = bounds;
    let refused = |e| a.fault("file", format!("{} cannot be written: {e}", path.display()));
    let sink = Sink::begin(&path, file, request.keep, leave_free).map_err(refused)?;
    let bounds = [(most, "packets"), (most_bytes, "bytes")];
    let bounds =
        bounds.iter().filter(|(most, _)| *most < u64::MAX).map(|(most, what)| format!("{most} {what}"));
    let text = format!("capturing {} into {}", bounds.collect::<Vec<_>>().join(" or "), path.display());
    capture::begin(c, request, Progress::new(most, most_bytes), Destination::File(sink))?;
    Ok(Output::text(text))
}

#[derive(Serialize)]
struct Status {
    running: bool,
    file: Option<String>,
    packets: u64,
    max_packets: Option<u64>,
    /// Size of the file in bytes. If a client receives the packets, the size that a file with these packets would have.
    bytes: u64,
    max_bytes: Option<u64>,
    lost: u64,
}

fn status<C: App>(c: &mut C) -> Result<Output<C>, CliError> {
    let captures = Captures::of(c.router_mut())?;
    let Some(capture) = &captures.running else {
        let last = captures.last.as_ref().map_or(String::new(), |last| format!("; the last one: {last}"));
        let none = Status {
            running: false,
            file: None,
            packets: 0,
            max_packets: None,
            bytes: 0,
            max_bytes: None,
            lost: 0,
        };
        return Ok(Output::show(&none, format!("no capture runs{last}")));
    };
    let progress = &capture.progress;
    let shown = Status {
        running: true,
        file: match &capture.to {
            Destination::File(sink) => Some(sink.path().display().to_string()),
            Destination::Client(_) => None,
        },
        packets: progress.packets,
        max_packets: (progress.most < u64::MAX).then_some(progress.most),
        bytes: progress.bytes,
        max_bytes: (progress.most_bytes < u64::MAX).then_some(progress.most_bytes),
        lost: progress.lost(&captures.rings),
    };
    let most = shown.max_packets.map_or(String::new(), |most| format!(" (of {most})"));
    let most_bytes =
        shown.max_bytes.map_or(String::new(), |most| format!(", {} bytes (of {most})", shown.bytes));
    let text = format!("running: {}{most}{most_bytes}", capture.summary(&captures.rings));
    Ok(Output::show(&shown, text))
}

//! Streams whose packets are in a capture file, and recordings of what a generator's interface sends.
//!
//! ```text
//! packet-generator new pcap /tmp/in.pcap source pg0 name x limit 100
//! packet-generator capture pg1 pcap /tmp/out.pcap
//! packet-generator enable-stream
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use drivers::Progress;
use drivers::pcap::{self, Recording};
use drivers::pktgen::Stream;
use drivers::target::Target;
use net::feature::Registrar;
use wire::Mac;

use super::{Generator, Generators};
use crate::app::{Context, FileThread, Output};
use crate::cli::{Args, CliError, Job, Step};
use crate::files;
use crate::intent::Interface;

/// The interval at which a command checks whether its thread has ended.
const LOOK: Duration = Duration::from_millis(1);
/// Maximum number of recorded packets, unless another is given.
const MOST: u64 = u32::MAX as u64;

pub(super) fn register(r: &mut Registrar<'_, Context>) {
    r.command(
        "packet-generator new pcap <file:path> source <interface:interface> name <name:word> [limit <limit:1..18446744073709551615>] \
         [worker <worker:u32>]",
        "Add a stream with the packets of a capture file (pcap or pcapng, at most 64 MiB), received on \"source\". For a generator of mode ip4 or \
         ip6, the packets begin with an IP header. It ends after \"limit\" \
         packets; by default, after one round. With \"worker\", that worker receives them.",
        new,
    );
    r.command(
        "packet-generator capture <interface:interface> pcap <file:path> [count <count:1..18446744073709551615>] [disable]",
        "Record the packets that a packet generator's interface sends. The file must not exist; it is created when the first \
         packet is sent. \"disable\" ends the recording.",
        |c, a| match a.has("disable") {
            true => stop(c, a),
            false => {
                let file: PathBuf = a.need("file")?;
                record(c, &a.need::<String>("interface")?, &file, a.get("count")).map_err(|e| a.about("interface", e))?;
                Ok(Output::none())
            }
        },
    );
}

/// Reads the file on another thread, then adds the stream.
fn new(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let interface: String = a.need("interface")?;
    c.system.router.state::<Generators>()?.of(&interface)?;
    let file: PathBuf = a.need("file")?;
    let header = header(c, &interface);
    let reading = FileThread::begin(move |patience| {
        let load = move |file: &Path, progress: &Progress| match header {
            None => pcap::load(file, progress),
            Some((version, header)) => pcap::load_ip(file, version, header, progress),
        };
        let read = files::read_by(&file, patience, move |file, progress| {
            load(file, progress).map_err(|e| e.to_string())
        });
        let read = read.unwrap_or_else(|e| Err(format!("cannot replay {}: {e}", file.display())));
        read.map_err(CliError::new)
    })?;
    Ok(Output::job(Reading { args: a.clone(), thread: Some(reading) }))
}

/// Returns the IP version and an Ethernet header, for packets of a file without Ethernet headers. The header has the interface's own
/// address as its destination. Returns `None` if the packets on the generator's link have Ethernet headers.
fn header(c: &Context, interface: &str) -> Option<(u8, [u8; 14])> {
    let (_, of) = Interface::find(c.store.tree(), interface)?;
    let (version, ethertype) = of.spec.get::<Generator>()?.mode.ip()?;
    let Mac(to) = c.system.router.interface_named(interface)?.mac;
    let mut header = [0; 14];
    header[..6].copy_from_slice(&to);
    header[12..].copy_from_slice(&ethertype.to_be_bytes());
    Some((version, header))
}

/// A command that waits until another thread has read a capture file, and then adds the stream.
struct Reading {
    args: Args,
    thread: Option<FileThread<Recording, CliError>>,
}

impl Job<Context> for Reading {
    fn step(&mut self, c: &mut Context, _: &mut String) -> Step {
        let Some(thread) = self.thread.take_if(|thread| thread.is_finished()) else {
            return Step::After(LOOK);
        };
        let read = thread.joined().map_err(|e| self.args.about("file", e));
        match read.and_then(|recording| add(c, &self.args, recording)) {
            Ok(()) => Step::Done,
            Err(e) => Step::Failed(e),
        }
    }
}

fn add(c: &mut Context, a: &Args, recording: Recording) -> Result<(), CliError> {
    let interface: String = a.need("interface")?;
    if recording.skipped() > 0 {
        let what = format!(
            "{} of its packets are truncated: capture whole packets (tcpdump -s 0)",
            recording.skipped()
        );
        return Err(a.fault("file", what));
    }
    let queue = match a.get::<u32>("worker") {
        None => 0,
        Some(worker) => queue_of(c, &interface, worker as usize).ok_or_else(|| {
            a.fault(
                "worker",
                format!("worker {worker} does not poll {interface} (see \"show interface rx-placement\")"),
            )
        })?,
    };
    let limit = a.get("limit").unwrap_or(recording.len() as u64);
    let stream = Stream {
        name: a.need("name")?,
        recorded: Some(Arc::new(recording)),
        queue,
        limit: Some(limit),
        ..Stream::default()
    };
    let (generator, _) = c.system.router.state::<Generators>()?.of(&interface)?;
    generator.add(stream).map_err(|e| CliError::new(e.to_string()))
}

/// Returns the number of the interface's receive queue that `worker` polls; `None` if there is none.
fn queue_of(c: &Context, interface: &str, worker: usize) -> Option<usize> {
    let index = c.system.router.interface_named(interface)?.index;
    let slots = c.system.router.tables().placement.slots();
    let slot = slots.iter().find(|slot| slot.interface == index && slot.attention().worker == worker)?;
    Some(slot.number)
}

/// Begins a recording.
///
/// # Errors
/// If the interface is no packet generator, or is recorded already, or no thread can be started.
pub(super) fn record(c: &Context, interface: &str, file: &Path, count: Option<u64>) -> Result<(), CliError> {
    let (_, sink) = c.system.router.state::<Generators>()?.of(interface)?;
    if sink.records() {
        return Err(CliError::new(format!(
            "{interface} is recorded already: end that recording first (packet-generator capture {interface} pcap FILE disable)"
        )));
    }
    let file = file.to_owned();
    let create = move || {
        files::open_by(&file, |path| match Target::find_entry(path)?.about()? {
            Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
            None => pcap::create(path),
        })
    };
    sink.record(count.unwrap_or(MOST), create)
        .map_err(|e| CliError::new(format!("no thread can be started: {e}")))
}

/// Ends a recording, and waits until its packets are in the file. Fails if they could not be recorded. Does nothing without a recording.
fn stop(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let (_, sink) = c.system.router.state::<Generators>()?.of(&a.need::<String>("interface")?)?;
    let failure = sink.failure();
    let writing = sink.stop_recording();
    if let Some(why) = failure {
        return Err(a.fault("file", format!("the packets could not be recorded: {why}")));
    }
    Ok(match writing {
        Some(writing) => Output::job(Writing(writing)),
        None => Output::none(),
    })
}

/// Waits for the thread that writes the last packets of a recording.
struct Writing(JoinHandle<()>);

impl Job<Context> for Writing {
    fn step(&mut self, _: &mut Context, _: &mut String) -> Step {
        if self.0.is_finished() { Step::Done } else { Step::After(LOOK) }
    }
}

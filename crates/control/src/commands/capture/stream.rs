//! `volley capture`: packets to a client, which writes them to its standard output.
//!
//! Whoever reads too slowly has his client's connection filled, so that no slice of the job is due; the copies stay in the
//! rings of the workers until those are full, and then they are lost, and counted. Nobody waits.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::{Rc, Weak};
use std::time::Duration;

use buf::bpf::Program;
use net::pcap::{MOST_BYTES, Point};
use pcap_file::pcap::PcapWriter;

use super::{Capture, Context, Destination, Output, Progress, Wanted, write, writer};
use crate::cli::{Args, CliError, Job, Registry, Step};
use crate::commands::filter::with_filter;

/// What the packets became.
pub(super) const BECAME: &str = "captured";
/// How often there is a look for packets when there were none.
const LOOK: Duration = Duration::from_millis(1);

pub(super) fn register(r: &mut Registry<Context>) {
    r.add(
        "capture [rx] [tx] [drop] [interface <interface:word>] [max <packets:u32>] [max-bytes-per-pkt <bytes:u32>] \
         [filter <filter:word>]",
        "Send packets to a client as they come in and go out, or as is said: what \"volley capture\" writes for tcpdump.",
        |c, a| with_filter(c, a, start),
    );
}

fn start(c: &mut Context, a: &Args, filter: Option<Program>) -> Result<Output, CliError> {
    if !a.call().binary {
        return Err(CliError::new(
            "packets are no text: on a shell's command line, volley capture ... | tcpdump -r -",
        ));
    }
    c.may_capture()?;
    let wanted = Wanted::of(c, a, &[Point::Rx, Point::Tx], MOST_BYTES as u32, filter)?;
    let most = a.get::<u32>("packets").map_or(u64::MAX, u64::from);
    let there = Rc::new(());
    let client = Client(Rc::downgrade(&there));
    let bytes = Bytes::default();
    let stream = writer(bytes.clone(), wanted.keep).map_err(|e| CliError::new(e.to_string()))?;
    c.begin_capture(wanted, Progress::new(most, u64::MAX), Destination::Client(client));
    Ok(Output::job(Stream { there, stream, bytes, told: String::new(), over: false }))
}

/// Who gets the packets.
pub(super) struct Client(Weak<()>);

impl Client {
    pub(super) fn is_there(&self) -> bool {
        self.0.strong_count() > 0
    }

    fn is(&self, there: &Rc<()>) -> bool {
        self.0.as_ptr() == Rc::as_ptr(there)
    }
}

/// Bytes that are still to be sent.
#[derive(Clone, Default)]
struct Bytes(Rc<RefCell<Vec<u8>>>);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Stream {
    /// Says that the client is there.
    there: Rc<()>,
    /// Writes into `bytes`.
    stream: PcapWriter<Bytes>,
    bytes: Bytes,
    /// What the client was told last.
    told: String,
    over: bool,
}

impl Job<Context> for Stream {
    fn step(&mut self, c: &mut Context, _: &mut String) -> Step {
        if self.over {
            return Step::Done;
        }
        let captures = c.system.router.tables().captures.clone();
        let mut failed = None;
        let told = match &mut c.capture {
            Some(Capture { to: Destination::Client(client), progress, .. }) if client.is(&self.there) => {
                progress.take(&captures, |captured, time| {
                    failed = failed.take().or(write(&mut self.stream, captured, time).err());
                });
                self.over = progress.complete;
                let told = progress.summary(&captures, BECAME);
                if self.over {
                    c.end_capture();
                }
                told
            }
            _ => {
                self.over = true;
                format!("{}; ended by another command", self.told)
            }
        };
        if let Some(error) = failed {
            return Step::Failed(CliError::new(error.to_string()));
        }
        let bytes = std::mem::take(&mut *self.bytes.0.borrow_mut());
        if bytes.is_empty() && told == self.told {
            return Step::After(LOOK);
        }
        self.told.clone_from(&told);
        Step::Data { bytes, told }
    }
}

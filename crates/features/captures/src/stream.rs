//! `volley capture`: sends packets to a client, which writes them to its standard output.
//!
//! While a slow client's connection is full, the job does not run. The copies stay in the rings of the
//! workers until the rings are full. Then copies are lost, and counted. No thread waits.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use buf::bpf::Program;
use model::cli::{Args, CliError, Job, Output, Step};
use net::feature::{App, Registrar};
use pcap_file::pcap::PcapWriter;

use crate::capture::{self, Captures, Progress};
use crate::destination::{Client, Destination, write, writer};
use crate::request::Request;
use crate::rings::{MOST_BYTES, Point};

/// Time until the next check for packets, if the last check found none.
const LOOK: Duration = Duration::from_millis(1);

pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    r.command(
        "capture [rx] [tx] [drop] [interface <interface:word>] [max <packets:u32>] [max-bytes-per-pkt <bytes:u32>] \
         [filter <filter:word>]",
        "Send copies of packets to the client; by default, of received and sent packets. \"volley capture\" writes them for \
         tcpdump.",
        |c, a| c.with_filter(a, start),
    )
    .for_viewers();
}

fn start<C: App>(c: &mut C, a: &Args, filter: Option<Program>) -> Result<Output<C>, CliError> {
    if !a.call().binary {
        return Err(CliError::new(
            "packets are binary data: in a shell, use volley capture ... | tcpdump -r -",
        ));
    }
    capture::must_be_free(c, a)?;
    let request = Request::of(c, a, &[Point::Rx, Point::Tx], MOST_BYTES as u32, filter)?;
    let most = a.get::<u32>("packets").map_or(u64::MAX, u64::from);
    let there = Arc::new(());
    let client = Client::of(&there, !a.call().role.is_admin());
    let bytes = Bytes::default();
    let stream = writer(bytes.clone(), request.keep).map_err(|e| CliError::new(e.to_string()))?;
    capture::begin(c, request, Progress::new(most, u64::MAX), Destination::Client(client))?;
    Ok(Output::job(Stream { there, stream, bytes, told: String::new(), over: false }))
}

/// Bytes still to send.
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
    /// Token that is dropped when the client disconnects. The capture has a weak reference to it.
    there: Arc<()>,
    /// Writes the packets into `bytes`.
    stream: PcapWriter<Bytes>,
    /// Bytes that the client has not got yet.
    bytes: Bytes,
    /// The last status text of the capture.
    told: String,
    over: bool,
}

impl<C: App> Job<C> for Stream {
    fn step(&mut self, c: &mut C, _: &mut String) -> Step {
        if self.over {
            return Step::Done;
        }
        let captures = match Captures::of(c.router_mut()) {
            Ok(captures) => captures,
            Err(e) => return Step::Failed(e),
        };
        let mut failed = None;
        let told = match &mut captures.running {
            Some(capture) if matches!(&capture.to, Destination::Client(client) if client.is(&self.there)) => {
                capture.progress.take(&captures.rings, |captured, time| {
                    failed = failed.take().or(write(&mut self.stream, captured, time).err());
                });
                self.over = capture.progress.complete;
                let told = capture.summary(&captures.rings);
                if self.over {
                    capture::end(c.router_mut());
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

//! `ping` from the router.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::time::Duration;

use net::router::PingTarget;
use serde_json::json;

use super::table;
use crate::app::{Context, Output};
use crate::cli::{Args, CliError, Job, Registry, Step};

/// Nanoseconds to wait for the last reply.
const PATIENCE: u64 = 1_000_000_000;
/// Maximum number of simultaneous pings by read-only clients. The router can run more, so that the other
/// clients can ping, too.
const READERS: usize = 16;
/// The polling interval for replies.
const LOOK: Duration = Duration::from_millis(2);

/// The running pings.
type Pings = Rc<RefCell<Vec<Pinging>>>;

/// A running ping.
struct Pinging {
    id: u16,
    /// Refers to the token in the ping's job, which exists until the job is dropped.
    token: Weak<()>,
    /// True if the client is read-only.
    reader: bool,
}

/// Declares the command.
pub fn register(r: &mut Registry<Context>) {
    let pings = Pings::default();
    r.add(
        "ping <destination:ip> [<interface:interface>] [source {<source:ip> | <interface:interface>}] [table-id <table:table>] [size <size:u32>] [repeat <n:u32>] \
         [interval <seconds:word>]",
        "Send echo requests, and show the replies. A link-local address needs the interface of its link, alone or \
         after \"source\". The interval is in seconds, such as 0.2.",
        move |c, a| start(c, a, &mut pings.borrow_mut()),
    )
    .for_readers();
}

fn start(c: &mut Context, a: &Args, pings: &mut Vec<Pinging>) -> Result<Output, CliError> {
    let destination: IpAddr = a.need("destination")?;
    let size = a.get::<u32>("size").unwrap_or(56) as usize;
    let source = a.get::<IpAddr>("source");
    let interval = a.interval("seconds", 0.0)?;
    let count = a.get::<u32>("n").unwrap_or(5);
    if !(1..=u32::from(u16::MAX)).contains(&count) {
        return Err(a.fault("n", format!("the number of requests must be 1 to {}", u16::MAX)));
    }
    // Stop the pings of disconnected clients: their jobs were dropped, and their tokens with them.
    let gone = pings.extract_if(.., |ping| ping.token.strong_count() == 0);
    gone.for_each(|ping| c.system.router.ping_stop(ping.id));
    if a.call().read_only && pings.iter().filter(|ping| ping.reader).count() >= READERS {
        return Err(CliError::new(format!(
            "read-only clients have {READERS} active pings, the maximum: stop one, or wait"
        )));
    }
    let table = table(a, "table");
    c.system.router.fib(table).map_err(|e| a.about("table", e))?;
    let interface = a.get::<String>("interface").map(|name| c.system.index(&name)).transpose();
    let interface = interface.map_err(|e| a.fault("interface", e.to_string()))?;
    let to = PingTarget { address: destination, interface };
    let id = c.system.router.ping_start(table, to, source, size)?;
    let token = Rc::new(());
    pings.push(Pinging { id, token: Rc::downgrade(&token), reader: a.call().read_only });
    Ok(Output::job(Ping {
        id,
        destination,
        _token: token,
        count,
        interval: interval.as_nanos() as u64,
        sent: 0,
        received: 0,
        next: 0,
        rtt: a.json().then(Vec::new),
    }))
}

struct Ping {
    id: u16,
    destination: IpAddr,
    /// While this token exists, the router knows that the job still runs.
    _token: Rc<()>,
    count: u32,
    interval: u64,
    sent: u32,
    received: u32,
    /// When the next request is due, in nanoseconds of the monotonic clock.
    next: u64,
    /// Sequence number and round-trip time in milliseconds of each reply, for the JSON object at the end.
    rtt: Option<Vec<(u16, f64)>>,
}

impl Job<Context> for Ping {
    fn step(&mut self, c: &mut Context, out: &mut String) -> Step {
        let now = c.now();
        for reply in c.system.router.ping_take_replies(self.id) {
            self.received += 1;
            let ms = reply.rtt.as_secs_f64() * 1e3;
            match &mut self.rtt {
                Some(rtt) => rtt.push((reply.seq, ms)),
                None => {
                    *out += &format!(
                        "{} bytes from {}: icmp_seq={} ttl={} time={ms:.4} ms\n",
                        reply.bytes, reply.from, reply.seq, reply.ttl
                    );
                }
            }
        }
        if self.sent < self.count && now >= self.next {
            self.sent += 1;
            if let Err(e) = c.system.router.ping_send(self.id, self.sent as u16, now) {
                c.system.router.ping_stop(self.id);
                return Step::Failed(e.into());
            }
            self.next = now + self.interval;
            return Step::After(LOOK);
        }
        let over = self.sent == self.count
            && (self.received >= self.sent || now >= self.next.max(PATIENCE) + PATIENCE);
        if !over {
            return Step::After(LOOK);
        }
        c.system.router.ping_stop(self.id);
        let lost = 100.0 * f64::from(self.sent - self.received.min(self.sent)) / f64::from(self.sent);
        *out += &match &self.rtt {
            Some(rtt) => {
                let replies: Vec<_> =
                    rtt.iter().map(|(seq, ms)| json!({ "seq": seq, "rtt_ms": ms })).collect();
                let (destination, sent, received) = (self.destination, self.sent, self.received);
                let all = json!({
                    "destination": destination, "sent": sent, "received": received, "loss_percent": lost,
                    "replies": replies,
                });
                format!("{all:#}\n")
            }
            None => {
                format!(
                    "\nStatistics: {} sent, {} received, {lost:.0}% packet loss\n",
                    self.sent, self.received
                )
            }
        };
        if self.received == 0 {
            // As ping(8) does, so that scripts can test reachability.
            return Step::Failed(CliError::new(format!("no answer from {}", self.destination)));
        }
        Step::Done
    }
}

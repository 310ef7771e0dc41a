//! The command `ping`.

use std::net::IpAddr;
use std::time::Duration;

use model::cli::{Args, CliError, Job, Output, Step};
use model::reason::Reason;
use net::feature::{App, Registrar};
use serde_json::json;

use crate::route::Target;
use crate::session::{self, Held, Pings};

/// Nanoseconds to wait for the last reply, after the interval that follows the last request.
pub(crate) const PATIENCE: u64 = 1_000_000_000;
/// Maximum number of requests in a burst.
const MOST_AT_ONCE: u32 = 64;
/// The polling interval for replies.
const LOOK: Duration = Duration::from_millis(2);

/// Declares the command.
pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    r.command(
        "ping <destination:ip> [<interface:interface>] [source {<source:ip> | <interface:interface>}] [table-id <table:table>] [size <size:u32>] [repeat <n:u32>] \
         [interval <seconds:word>] [burst <burst:u32>]",
        "Send echo requests, and show the replies. A link-local address needs the interface of its link, alone or \
         after \"source\". The interval is in seconds, such as 0.2. A burst is the number of requests that are sent at once.",
        start,
    )
    .for_viewers();
}

fn start<C: App>(c: &mut C, a: &Args) -> Result<Output<C>, CliError> {
    let destination: IpAddr = a.need("destination")?;
    let size = a.get::<u32>("size").unwrap_or(56) as usize;
    let source = a.get::<IpAddr>("source");
    let interval = a.interval("seconds", 0.0)?;
    let count = a.get::<u32>("n").unwrap_or(5);
    if !(1..=u32::from(u16::MAX)).contains(&count) {
        return Err(a.fault("n", format!("the number of requests must be 1 to {}", u16::MAX)));
    }
    let burst = a.get::<u32>("burst").unwrap_or(1);
    if !(1..=MOST_AT_ONCE).contains(&burst) {
        return Err(a.fault("burst", format!("the number of requests at once must be 1 to {MOST_AT_ONCE}")));
    }
    let reader = !a.call().role.is_admin();
    if reader && burst.saturating_mul(session::packets(size)) > session::READERS_AT_ONCE {
        let why = format!(
            "viewers and operators may send {} packets at once, with all fragments",
            session::READERS_AT_ONCE
        );
        return Err(a.fault("burst", why));
    }
    Pings::of(c.router_mut())?.admit(reader)?;
    let table = a.get("table").unwrap_or(0);
    c.router().fib(table).map_err(|e| a.about("table", e))?;
    let missing = |name| a.fault("interface", format!("there is no interface {name}"));
    let index =
        |name: String| c.router().interface_named(&name).map(|i| i.index).ok_or_else(|| missing(name));
    let interface = a.get::<String>("interface").map(index).transpose()?;
    let to = Target { address: destination, interface, source, size };
    let ping = session::start(c.router_mut(), table, to, reader)?;
    Ok(Output::job(Ping {
        ping,
        reader,
        destination,
        count: count * burst,
        burst,
        interval: interval.as_nanos() as u64,
        sent: 0,
        received: 0,
        next: 0,
        rtt: a.json().then(Vec::new),
    }))
}

struct Ping {
    ping: Held,
    /// True if the client is not an admin.
    reader: bool,
    destination: IpAddr,
    /// Number of all requests.
    count: u32,
    /// Number of requests that are sent at once, with the same sequence number.
    burst: u32,
    interval: u64,
    sent: u32,
    received: u32,
    /// When the next request is due, in nanoseconds of the monotonic clock.
    next: u64,
    /// Sequence number and round-trip time in milliseconds of each reply, for the JSON object at the end;
    /// `None` if the client wants text.
    rtt: Option<Vec<(u16, f64)>>,
}

impl Ping {
    /// Takes the replies, and shows them.
    fn take_replies(&mut self, pings: &mut Pings, out: &mut String) {
        for reply in pings.take_replies(self.ping.id) {
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
    }

    /// Returns the result of the whole ping.
    fn summary(&self) -> String {
        let lost = 100.0 * f64::from(self.sent - self.received.min(self.sent)) / f64::from(self.sent);
        let Some(rtt) = &self.rtt else {
            return format!(
                "\nStatistics: {} sent, {} received, {lost:.0}% packet loss\n",
                self.sent, self.received
            );
        };
        let replies: Vec<_> = rtt.iter().map(|(seq, ms)| json!({ "seq": seq, "rtt_ms": ms })).collect();
        let (destination, sent, received) = (self.destination, self.sent, self.received);
        let all = json!({
            "destination": destination, "sent": sent, "received": received, "loss_percent": lost,
            "replies": replies,
        });
        format!("{all:#}\n")
    }

    fn advance<C: App>(&mut self, c: &mut C, out: &mut String) -> Result<Step, CliError> {
        let now = c.now();
        let router = c.router_mut();
        self.take_replies(Pings::of(router)?, out);
        if self.sent < self.count && now >= self.next {
            if self.reader && !Pings::of(router)?.may_send(self.ping.id, self.burst, now) {
                return Ok(Step::After(LOOK));
            }
            let seq = (self.sent / self.burst + 1) as u16;
            for _ in 0..self.burst {
                self.sent += 1;
                session::send(router, self.ping.id, seq, now)?;
            }
            self.next = now + self.interval;
            return Ok(Step::After(LOOK));
        }
        let over = self.sent == self.count
            && (self.received >= self.sent || now >= self.next.max(PATIENCE) + PATIENCE);
        if !over {
            return Ok(Step::After(LOOK));
        }
        Pings::of(router)?.stop(self.ping.id);
        *out += &self.summary();
        if self.received == 0 {
            // Fails without a reply, as ping(8) does, so that scripts can test reachability.
            let why = format!("no answer from {}", self.destination);
            return Err(CliError::new(why).because(Reason::Negative));
        }
        Ok(Step::Done)
    }
}

impl<C: App> Job<C> for Ping {
    fn step(&mut self, c: &mut C, out: &mut String) -> Step {
        self.advance(c, out).unwrap_or_else(|error| {
            if let Ok(pings) = Pings::of(c.router_mut()) {
                pings.stop(self.ping.id);
            }
            Step::Failed(error)
        })
    }
}

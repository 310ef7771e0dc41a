//! The module `ping` of VPP's binary API: a client asks for a ping, and gets an event at its end.
#![allow(non_camel_case_types)]

use net::feature::{App, message};
use net::router::{Router, RouterError};
use vapi::types::address;
use vapi::{Caller, Code, DONE, Done, Table, define};

use crate::command::PATIENCE;
use crate::route::Target;
use crate::session::{self, Held, Pings};

/// Number of data bytes in a request.
const SIZE: usize = 56;
/// If the interval is at least this long in nanoseconds, the ping does not wait longer than the interval for the last reply.
const ENOUGH: u64 = 100_000_000;
/// The longest interval between two requests in seconds.
const LONGEST: f64 = 3600.0;

define! {
    /// Pings an address. An event reports the result.
    request want_ping_finished_events { address: address, repeat: u32 = 1, interval: f64 = 1.0 } events ping_finished_event;
    /// A ping has ended.
    event ping_finished_event { request_count: u32, reply_count: u32 }
}

/// The pings that clients asked for.
#[derive(Default)]
pub(crate) struct Asked(Vec<Ping>);

struct Ping {
    held: Held,
    client: u64,
    count: u32,
    interval: u64,
    sent: u32,
    received: u32,
    /// When the next request is due, in nanoseconds of the monotonic clock.
    next: u64,
}

/// Adds the module.
pub(crate) fn register<C: App>(table: &mut Table<C>) {
    table
        .module("ping", [0, 1, 0])
        .request::<want_ping_finished_events>(start)
        .event_from::<ping_finished_event>(|c| {
            let now = c.now();
            advance(c.router_mut(), now)
        });
}

fn start<C: App>(c: &mut C, caller: &Caller, q: want_ping_finished_events) -> Result<Done, Code> {
    let fits = (1..=u32::from(u16::MAX)).contains(&q.repeat) && (0.0..=LONGEST).contains(&q.interval);
    if !fits {
        return Err(Code::INVALID_VALUE);
    }
    let interval = (q.interval * 1e9) as u64;
    let (client, count, now) = (caller.client, q.repeat, c.now());
    let to = Target { address: q.address.ip(), interface: None, source: None, size: SIZE };
    let mut begin = || -> Result<(), RouterError> {
        let router = c.router_mut();
        Pings::of(router)?.admit(false)?;
        let held = session::start(router, 0, to, false)?;
        let ping = Ping { held, client, count, interval, sent: 0, received: 0, next: now };
        router.state_mut::<Asked>()?.0.push(ping);
        Ok(())
    };
    begin().map_err(message::refused)?;
    DONE
}

/// Sends the requests that are due. Returns an event for each ping that has ended.
fn advance(router: &mut Router, now: u64) -> Vec<(u64, ping_finished_event)> {
    let Ok(Asked(asked)) = router.state_mut::<Asked>() else { return Vec::new() };
    if asked.is_empty() {
        return Vec::new();
    }
    let mut ended = Vec::new();
    for mut ping in std::mem::take(asked) {
        if ping.is_over(router, now) {
            let event = ping_finished_event { request_count: ping.sent, reply_count: ping.received };
            ended.push((ping.client, event));
        } else if let Ok(Asked(asked)) = router.state_mut::<Asked>() {
            asked.push(ping);
        }
    }
    ended
}

impl Ping {
    /// Takes replies, and sends a request if it is due. Returns true if the ping has ended: all requests are answered or have timed out, or
    /// a request could not be sent.
    fn is_over(&mut self, router: &mut Router, now: u64) -> bool {
        let id = self.held.id;
        let Ok(pings) = Pings::of(router) else { return true };
        self.received += pings.take_replies(id).len() as u32;
        let due = self.sent < self.count && now >= self.next;
        if due && session::send(router, id, (self.sent + 1) as u16, now).is_ok() {
            self.sent += 1;
            self.next = now.saturating_add(self.interval);
            return false;
        }
        let answered = self.sent == self.count && self.received >= self.sent;
        // Like VPP, waits as long for the last reply as for the others, if that is long enough.
        let patience = if self.interval >= ENOUGH { 0 } else { PATIENCE };
        let silent = self.sent == self.count && now >= self.next.saturating_add(patience);
        let over = due || answered || silent;
        if over && let Ok(pings) = Pings::of(router) {
            pings.stop(id);
        }
        over
    }
}

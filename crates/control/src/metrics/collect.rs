//! The main thread's part of the metrics. It collects samples on request, and does other work in between.

use std::cell::RefCell;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use graph::PuntReason;
use model::metrics::{Lines, Row};
use net::interface::Kind;
use net::router::{InterfaceInfo, Router};
use tokio::sync::mpsc;
use tokio::time;

use super::declared::Id;
use super::process;
use super::server::Ask;
use super::text::{Samples, samples};
use crate::app::{Confirmation, Context};
use crate::intent::{Find, OfFamily};

/// Time after which the main thread interrupts a collection, and does other work.
const SLICE: Duration = Duration::from_micros(500);
/// Interval between checks for samples that no client reads any more. These are freed.
const LET_GO: Duration = Duration::from_millis(200);
/// Maximum number of interfaces or VRFs whose metrics are collected between two checks of the time limit.
const PAGE: usize = 32;

/// Answers requests until all senders are gone. All clients that wait when a collection begins share its result. After a
/// collection, the next one begins only after as much time as the collection took. So at least half of the main thread's time is
/// left for the router, whatever the number and rate of requests.
///
/// The collection borrows `context` again and again. So no task may keep a borrow of `context` while it waits.
pub async fn answer(context: Rc<RefCell<Context>>, mut asked: mpsc::Receiver<Ask>) {
    // Computed once: the two clocks drift apart, and the start time must not move.
    let elapsed = context.borrow().started.elapsed();
    let started = SystemTime::now().checked_sub(elapsed).and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    let mut given = Given::default();
    loop {
        given.let_go();
        let first = tokio::select! {
            first = asked.recv() => first,
            () = time::sleep(LET_GO), if !given.0.is_empty() => continue,
        };
        let Some(first) = first else { return };
        let mut waiting = Vec::new();
        let others = std::iter::from_fn(|| asked.try_recv().ok());
        for ask in std::iter::once(first).chain(others) {
            match ask {
                // The client may have disconnected.
                Ask::Alive(reply) => drop(reply.send(context.borrow().degraded())),
                Ask::Samples(reply) if !reply.is_closed() => waiting.push(reply),
                Ask::Samples(_) => {}
            }
        }
        if waiting.is_empty() {
            continue;
        }
        let start = Instant::now();
        let samples = collect(&context, started.unwrap_or_default()).await;
        waiting.into_iter().for_each(|reply| drop(reply.send(samples.clone())));
        given.0.push(samples);
        time::sleep(start.elapsed()).await;
    }
}

/// Samples that clients may still read. The main thread frees them, because it allocated them. If another thread freed them, the allocator
/// would not reuse their memory for the next samples.
#[derive(Default)]
struct Given(Vec<Samples>);

impl Given {
    /// Frees samples that no client reads any more.
    fn let_go(&mut self) {
        self.0.retain(|samples| Arc::strong_count(samples) > 1);
    }
}

/// Collects all samples.
async fn collect(context: &RefCell<Context>, started: Duration) -> Samples {
    let mut collection = Collection::new(started);
    while collection.slice(&context.borrow()) {
        tokio::task::yield_now().await;
    }
    collection.samples()
}

/// The next step of a collection.
enum Next {
    /// Metrics of the whole router.
    Router,
    /// The interfaces from this index on.
    Interfaces(u32),
    /// The workers, from this number on.
    Workers(usize),
    /// The remaining VRFs, in reverse order: the number of each, and its index in the data plane.
    Tables(Vec<(u32, u16)>),
    /// The metrics of features, except those of interfaces. Has the index of the next feature, and the feature's cursor.
    Features(usize, u32),
}

/// A collection in progress. It refers to the router only by indices, because the router can change while the collection pauses.
pub(crate) struct Collection {
    lines: Lines,
    next: Next,
    /// Start time of the router since 1970 (UTC).
    started: Duration,
}

impl Collection {
    pub(crate) fn new(started: Duration) -> Collection {
        Collection { lines: Lines::default(), next: Next::Router, started }
    }

    /// Returns a collection of rows instead of lines of text.
    pub(crate) fn of_rows(started: Duration) -> Collection {
        Collection { lines: Lines::as_rows(), ..Collection::new(started) }
    }

    /// Returns the rows collected since the last call.
    pub(crate) fn rows(&mut self) -> impl Iterator<Item = Row> + use<> {
        self.lines.take_rows().into_iter()
    }

    /// Returns the collected samples.
    pub(crate) fn samples(self) -> Samples {
        samples(self.lines)
    }

    /// Collects until it is complete or [`SLICE`] has passed. Returns true if there is more to collect.
    pub(crate) fn slice(&mut self, c: &Context) -> bool {
        let start = Instant::now();
        while self.step(c) {
            if start.elapsed() >= SLICE {
                return true;
            }
        }
        false
    }

    /// Collects a piece. Returns true if there is more.
    fn step(&mut self, c: &Context) -> bool {
        let router = &c.system.router;
        match &mut self.next {
            Next::Router => {
                self.next = Next::Interfaces(0);
                self.router(c);
            }
            Next::Interfaces(first) => {
                let page: Vec<&InterfaceInfo> = router.interfaces_from(*first).take(PAGE).collect();
                self.next = match page.last() {
                    Some(last) => Next::Interfaces(last.index + 1),
                    None => Next::Workers(0),
                };
                page.into_iter().for_each(|i| self.interface(c, i));
            }
            Next::Workers(number) => {
                let number = *number;
                if number == router.workers() {
                    let mut tables: Vec<(u32, u16)> = router.vrfs().from(0).collect();
                    tables.reverse();
                    self.next = Next::Tables(tables);
                } else {
                    self.next = Next::Workers(number + 1);
                    self.worker(c, number);
                }
            }
            Next::Tables(left) => {
                let page = left.split_off(left.len().saturating_sub(PAGE));
                if left.is_empty() {
                    self.next = Next::Features(0, 0);
                }
                for (vrf, fib) in page.into_iter().rev() {
                    let name = vrf.to_string();
                    self.table::<Ipv4Addr>(router, fib, &name);
                    self.table::<Ipv6Addr>(router, fib, &name);
                }
            }
            Next::Features(feature, cursor) => {
                let Some(page) = c.system.abilities.catalog.pages().get(*feature) else { return false };
                self.next = match page(router, *cursor, &mut self.lines) {
                    Some(cursor) => Next::Features(*feature, cursor),
                    None => Next::Features(*feature + 1, 0),
                };
            }
        }
        true
    }

    fn router(&mut self, c: &Context) {
        let (out, router) = (&mut self.lines, &c.system.router);
        let level = format!("x86-64-{:?}", infra::cpu::level()).to_lowercase();
        out.add(Id::BuildInfo, &[env!("CARGO_PKG_VERSION"), &level], 1);
        out.add(Id::StartTime, &[], self.started.as_secs());
        process::collect(out, self.started);
        out.add(Id::ConfigGeneration, &[], c.journal.generation());

        out.add(Id::ConfigUnconfirmed, &[], u8::from(c.confirmation().is_some()));
        out.add(
            Id::ConfigOverdue,
            &[],
            c.confirmation().and_then(Confirmation::failed).map_or(0, |(times, _)| times),
        );

        let pool = router.pool().stats();
        for (state, n) in
            [("free", pool.free), ("cached", pool.cached), ("lent", pool.lent), ("used", pool.used)]
        {
            out.add(Id::Buffers, &[state], n);
        }
        out.add(Id::BuffersRefused, &[], pool.refused);
        out.add(Id::PacketsLost, &[], buf::pool::lost());
        neighbors::<Ipv4Addr>(out, router);
        neighbors::<Ipv6Addr>(out, router);

        let stats = router.graph().stats();
        out.add(Id::OwnDrops, &[], stats.drops_total(buf::NO_INTERFACE));
        for d in stats.dropped_totals() {
            let id = if d.reason.drops { Id::DropPackets } else { Id::NodeEvents };
            out.add(id, &[d.node, d.reason.name], d.packets);
        }
        for (number, reason) in (0..).zip(router.graph().punt_reasons()) {
            let [passed, policed] = stats.punted_totals(PuntReason(number));
            out.add(Id::PuntPackets, &[reason.name], passed);
            out.add(Id::PuntPoliced, &[reason.name], policed);
        }
    }

    /// Adds the metrics of a VRF's routing table for one address family.
    fn table<A: OfFamily>(&mut self, router: &Router, fib: u16, name: &str) {
        let (labels, routes) = ([A::FAMILY.word(), name], router.routes::<A>());
        self.lines.add(Id::FibRoutes, &labels, routes.count(fib));
        self.lines.add(Id::FibMemory, &labels, routes.memory_bytes(fib));
    }

    fn interface(&mut self, c: &Context, i: &InterfaceInfo) {
        let (out, name) = (&mut self.lines, [i.name.as_str()]);
        let description =
            c.store.interface(&i.name).and_then(|i| i.description.as_deref()).unwrap_or_default();
        let kind = match i.kind {
            Kind::SubInterface => "sub-interface",
            kind => i.device.as_ref().map_or(kind.name().unwrap_or("absent"), |d| d.driver),
        };
        let (vrf, mac) = (c.system.router.vrfs().table(i.fib).to_string(), i.mac.to_string());
        out.add(Id::InterfaceInfo, &[&i.name, kind, &vrf, &mac, description], 1);
        out.add(Id::InterfaceUp, &name, u8::from(c.system.router.usable(i.index)));
        out.add(Id::InterfaceAdminUp, &name, u8::from(i.admin_up));
        out.add(Id::InterfaceAbsent, &name, u8::from(i.is_absent()));
        out.add(Id::InterfaceMtu, &name, i.mtu);
        if let Some(speed) = i.device.as_ref().and_then(|d| d.link.speed_mbps) {
            out.add(Id::InterfaceSpeed, &name, u64::from(speed) * (1_000_000 / 8));
        }
        let t = c.system.router.interface_totals(i);
        for (id, count) in [
            (Id::RxPackets, t.rx_packets),
            (Id::RxBytes, t.rx_bytes),
            (Id::RxMissed, t.rx_missed),
            (Id::RxErrors, t.rx_errors),
            (Id::TxPackets, t.tx_packets),
            (Id::TxBytes, t.tx_bytes),
            (Id::TxErrors, t.tx_errors),
            (Id::InterfaceDrops, t.drops),
        ] {
            out.add(id, &name, count);
        }
        c.system.abilities.catalog.collect(&c.system.router, i, out);
    }

    fn worker(&mut self, c: &Context, number: usize) {
        let (out, name) = (&mut self.lines, number.to_string());
        let stats = c.system.router.graph().stats();
        let spent = stats.worker_totals(number);
        out.add(Id::WorkerTurns, &[&name], spent.turns);
        out.add_seconds(Id::WorkerBusy, &[&name], spent.busy_ns);
        out.add_seconds(Id::WorkerIdle, &[&name], spent.idle_ns);
        out.add(Id::WorkerNaps, &[&name], spent.naps);
        out.add(Id::WorkerSleeps, &[&name], spent.sleeps);
        let sizes = stats.vector_sizes(number);
        let buckets: Vec<_> = (0..).zip(&sizes).map(|(class, [vectors, _])| (1 << class, *vectors)).collect();
        out.add_histogram(Id::VectorSize, &[&name], &buckets, sizes.iter().map(|[_, packets]| packets).sum());
        for n in stats.node_totals(number) {
            let labels = [n.name, name.as_str()];
            out.add(Id::NodeCalls, &labels, n.calls);
            out.add(Id::NodePackets, &labels, n.packets);
            out.add(Id::NodeTimedPackets, &labels, n.timed_packets);
            out.add(Id::NodeCycles, &labels, n.clocks);
        }
    }
}

/// Adds the metrics of the neighbor table of an address family.
fn neighbors<A: OfFamily>(out: &mut Lines, router: &Router) {
    for (state, n) in router.neighbors_by_state::<A>() {
        out.add(Id::Neighbors, &[A::FAMILY.word(), state], n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_samples_are_freed() {
        let (read, unread) = (Samples::default(), Samples::default());
        let mut given = Given(vec![read.clone(), unread]);
        given.let_go();
        assert!(given.0.len() == 1 && Arc::ptr_eq(&given.0[0], &read));
        drop(read);
        given.let_go();
        assert!(given.0.is_empty());
    }
}

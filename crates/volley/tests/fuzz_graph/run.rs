//! Runs a script: packets, changes, and time that passes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use buf::bpf::Program;
use net::feature::Attached;
use net::handoff::SHARDS;
use net::interface::Handoff;
use net::ip::{Address, Path, PathList, Prefix4, Weighted};
use net::router::{Receive, ReceiveQueue, Router};
use wire::Mac;

use crate::packet::{Arriving, arriving, correct_checksum, destination_of};
use crate::script::Script;
use crate::world::{LINKS, MS, OTHERS, WORKERS, World, device_name};

/// Every `LOOK`th attempted change is checked: if the router refuses the change, the router's state must be the same as before.
const LOOK: usize = 8;
/// Number of packets that some scripts trace from their start. A step of a script can trace fewer packets.
const TRACED: u32 = 20;
/// Maximum size of a burst in bytes, except for one burst in eight.
const BURST: u32 = 50_000;
/// Maximum number of short prefixes in one script: each fills a large part of a lookup table.
const SHORT_PREFIXES: usize = 2;

/// The packets at each node, and the features that were enabled, with their arcs.
#[derive(Default)]
pub struct Seen {
    pub nodes: BTreeMap<&'static str, u64>,
    pub features: BTreeSet<(&'static str, &'static str)>,
    /// Numbers of packets passed to the main thread, and of packets dropped because they exceeded their rate, by punt reason.
    pub punted: BTreeMap<&'static str, [u64; 2]>,
    /// IPv6 packets sent to stations that the router had resolved.
    pub reached6: u64,
}

impl Seen {
    /// Adds the results of another script.
    pub fn add(&mut self, other: Seen) {
        other.nodes.into_iter().for_each(|(node, n)| *self.nodes.entry(node).or_default() += n);
        self.features.extend(other.features);
        self.reached6 += other.reached6;
        for (reason, [passed, policed]) in other.punted {
            let sum = self.punted.entry(reason).or_default();
            *sum = [sum[0] + passed, sum[1] + policed];
        }
    }
}

/// Default number of scripts that a world runs before it is replaced.
pub const LIFE: usize = 1000;

/// The worlds in which scripts run, one for each size of the buffer pool. A world runs several scripts.
pub struct Worlds {
    life: usize,
    worlds: BTreeMap<usize, (World, Vec<Vec<u8>>)>,
    /// The scripts of the failed world, from its first to the failed one.
    pub failed: Vec<Vec<u8>>,
}

impl Worlds {
    /// Returns worlds that run this many scripts each.
    pub fn new(life: usize) -> Worlds {
        Worlds { life, worlds: BTreeMap::new(), failed: Vec::new() }
    }

    /// Runs the script `data`. Panics if the router breaks a rule; otherwise returns what happened in the router.
    /// With `trace`, packets are traced from the start, otherwise only if the script says so.
    pub fn run(&mut self, data: &[u8], trace: bool) -> Seen {
        let mut s = Script::new(data);
        let buffers = s.pick(&[2048, 2048, 1100, 1100]);
        let (w, scripts) = self.worlds.entry(buffers).or_insert_with(|| (World::new(buffers), Vec::new()));
        let is_used = !scripts.is_empty();
        scripts.push(data.to_vec());
        let ran = run(w, is_used, &mut s, trace);
        let is_over = ran.is_err() || scripts.len() >= self.life;
        let ended = if is_over { self.worlds.remove(&buffers) } else { None };
        ran.unwrap_or_else(|panic| {
            let (w, scripts) = ended.expect("the world that failed");
            self.failed = scripts;
            eprintln!("the trace of the run:\n{}", w.trace());
            // The router must not be dropped: it would count its packets as lost, and hide the failure.
            std::mem::forget(w);
            std::panic::resume_unwind(panic)
        })
    }
}

fn run(w: &mut World, is_used: bool, s: &mut Script<'_>, trace: bool) -> std::thread::Result<Seen> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        if is_used {
            w.reset();
        }
        let level = s.pick(&[infra::cpu::Level::V2, infra::cpu::Level::V3, infra::cpu::Level::V4]);
        w.workers.iter_mut().for_each(|worker| worker.set_kernels(kernels::at_most(level)));
        let mut run = Run { w, short: 0, changes: 0, features: BTreeSet::new() };
        if s.one_in(8) || trace {
            run.trace(if trace { 200 } else { TRACED });
        }
        while !s.is_over() {
            run.step(s);
        }
        let Run { w, features, .. } = run;
        w.end();
        Seen { nodes: w.nodes(), features, punted: w.punted(), reached6: w.reached6 }
    }))
}

struct Run<'w> {
    w: &'w mut World,
    short: usize,
    /// Number of attempted changes.
    changes: usize,
    /// Features that were enabled, with their arcs.
    features: BTreeSet<(&'static str, &'static str)>,
}

impl Run<'_> {
    /// Runs one step. After about half of the steps, the router processes all packets immediately. After the other steps the packets wait,
    /// so that a vector also collects packets of several steps.
    fn step(&mut self, s: &mut Script<'_>) {
        let op = s.u8();
        match op & 0x3f {
            0..28 => self.packet(s),
            28..32 => self.burst(s),
            32..35 => self.answer(s),
            35..38 => self.add_route(s),
            38 | 39 => self.remove_route(s),
            40 | 41 => self.interface(s),
            42 | 43 => self.address(s),
            44 | 45 => self.neighbor(s),
            46 | 47 => self.feature(s),
            48 => self.remove(s),
            49..52 => self.bring_back(s),
            52 => self.vanish(s),
            53 => {
                let mut line = self.w.links[s.below(LINKS)].line();
                (line.room, line.refuses) = (s.pick(&[0, 1, 7, usize::MAX]), s.one_in(2));
            }
            54 | 55 => self.w.act(s),
            56 => self.trace(u32::from(s.u8()) % TRACED),
            57 => {
                // A single worker: the other falls behind.
                let worker = s.below(WORKERS);
                for _ in 0..=s.below(8) {
                    self.w.turn_of(worker);
                }
            }
            58 => self.work(s),
            59 => self.limit(s),
            _ => self.w.now += s.pick(&[1, 1, 10, 100, 1000, 1000, 5000, 60_000, 1_300_000]) * MS,
        }
        if op & 0x80 == 0 {
            self.w.settle();
        }
    }

    /// Traces `n` more packets, or clears the trace if `n` is 0. Also starts the features that are not enabled by a setting, such as
    /// captures. For some values of `n`, a filter selects the packets that are traced and those that these features process.
    fn trace(&mut self, n: u32) {
        let filter = (n % 4 == 1).then(udp_with_a_first_byte);
        self.w.exercise(filter.as_ref());
        let graph = self.w.router.graph();
        if n == 0 {
            graph.tracer().clear();
        } else if let Some(node) = graph.node("pg-input") {
            graph.tracer().add(node, n, filter);
        }
    }

    fn arrive(&mut self, link: usize, queue: usize, packet: Arriving) {
        self.w.lied |= packet.lies;
        self.w.links[link].line().arriving[queue].push_back(packet);
    }

    fn station(&self, link: usize) -> Mac {
        self.w.router.interface_named(&device_name(link)).map_or(Mac::BROADCAST, |i| i.mac)
    }

    fn packet(&mut self, s: &mut Script<'_>) {
        let (link, queue) = (s.below(LINKS), s.below(WORKERS));
        let packet = arriving(s, self.station(link));
        self.arrive(link, queue, packet);
    }

    /// Sends many packets that differ only in their destination: in four bytes of it, and in an IPv4 packet also in the checksum.
    fn burst(&mut self, s: &mut Script<'_>) {
        let (link, queue) = (s.below(LINKS), s.below(WORKERS));
        let packet = arriving(s, self.station(link));
        let (n, step) = (u32::from(s.u8()), s.u32());
        // Now and then more packets than buffers.
        let most = if s.one_in(8) { u32::MAX } else { BURST / packet.bytes.len().max(1) as u32 + 1 };
        for i in 0..n.min(most) {
            let mut packet = packet.clone();
            if let Some((l3, at)) = destination_of(&mut packet.bytes)
                && let Some(&[a, b, c, d]) = l3.get(at..at + 4)
            {
                let dst = u32::from_be_bytes([a, b, c, d]).wrapping_add(i.wrapping_mul(step & 0x0003_0307));
                l3[at..at + 4].copy_from_slice(&dst.to_be_bytes());
                correct_checksum(l3);
            }
            self.arrive(link, queue, packet);
        }
    }

    /// Answers one of the router's last questions.
    fn answer(&mut self, s: &mut Script<'_>) {
        let back = s.below(8);
        let Some(asked) = self.w.asked.iter().rev().nth(back) else { return };
        let bytes = asked.answer(Mac([2, 0, 0, 0, 1, s.u8() & 7]));
        let (link, queue) = (asked.link, s.below(WORKERS));
        self.w.changed = true;
        self.arrive(link, queue, Arriving { bytes, ..Arriving::default() });
    }

    /// Attempts a change of the router. The router may refuse the change, but a refused change must leave the configuration as it was. This
    /// is checked only for every [`LOOK`]th attempt, because the check takes longer than most changes.
    fn attempt<T, E: std::fmt::Display>(&mut self, change: impl FnOnce(&mut Router) -> Result<T, E>) {
        self.w.changed = true;
        self.changes += 1;
        let before = self.changes.is_multiple_of(LOOK).then(|| self.w.configuration());
        let changed = change(&mut self.w.router);
        if let (Err(e), Some(before)) = (changed, before) {
            assert_eq!(self.w.configuration(), before, "refused: {e}");
        }
    }

    fn prefix(&mut self, s: &mut Script<'_>) -> Prefix4 {
        let len = s.pick(&[32, 32, 31, 30, 25, 24, 24, 23, 17, 16, 8, 1, 0]);
        let short = len < 16 && self.short >= SHORT_PREFIXES;
        self.short += usize::from(len < 16);
        Prefix4::new(s.address(), if short { 24 } else { len })
    }

    fn some_interface(&self, s: &mut Script<'_>) -> u32 {
        let all: Vec<u32> = self.w.router.interfaces().map(|i| i.index).collect();
        // Now and then one that does not exist.
        if s.one_in(16) || all.is_empty() { u32::from(s.u8()) } else { s.pick(&all) }
    }

    fn path(&self, s: &mut Script<'_>) -> Path {
        match s.below(10) {
            0 => Path::Drop,
            1 => Path::Unreachable,
            2 => Path::Prohibit,
            3 => Path::Local,
            4 => Path::Attached(self.some_interface(s)),
            5 => Path::Table(u16::from(s.u8() % 3)),
            6 | 7 => Path::Via { next_hop: s.address().into(), interface: Some(self.some_interface(s)) },
            _ => Path::Via { next_hop: s.address().into(), interface: None },
        }
    }

    fn add_route(&mut self, s: &mut Script<'_>) {
        let prefix = self.prefix(s);
        let paths = if s.one_in(3) { 2 + s.below(3) } else { 1 };
        let branch = |_| Weighted { path: self.path(s), weight: 1 + s.u8() % 4 };
        let paths: Vec<Weighted> = (0..paths).map(branch).collect();
        // Paths that cannot be combined are used alone.
        let list = PathList::new(paths.clone()).unwrap_or_else(|_| paths[0].path.into());
        self.attempt(|r| r.add_route(s.pick(&[0, 0, 1, 2]), prefix, list));
    }

    fn remove_route(&mut self, s: &mut Script<'_>) {
        let fib = s.pick(&[0, 0, 1, 2]);
        let all: Vec<Prefix4> = self.w.router.routes().iter(fib).map(|r| r.0).collect();
        let prefix = if all.is_empty() { self.prefix(s) } else { s.pick(&all) };
        self.attempt(|r| r.remove_route(fib, prefix));
    }

    fn interface(&mut self, s: &mut Script<'_>) {
        let index = self.some_interface(s);
        let examples = self.w.examples.clone();
        if !examples.is_empty() && s.one_in(4) {
            let all = &examples[s.below(examples.len())];
            let (new, none) = (&all[s.below(all.len())], Attached::default());
            // A change to the default settings begins with other settings.
            let old = all.last().filter(|_| *new == none).unwrap_or(&none);
            return self.attempt(|router| new.apply(old, router, index));
        }
        self.attempt(|router| match s.below(7) {
            0..3 => router.set_admin(index, s.one_in(2)),
            3 | 4 => router.set_mtu(index, s.pick(&[0, 68, 70, 576, 1500, 9000, 9216, 65_535])),
            5 => router.set_mac(index, Some(s.mac())),
            6 if s.one_in(2) => router.set_table(index, s.pick(&[0, 1, 2])),
            _ => {
                router.clear_interface(index);
                Ok(())
            }
        });
    }

    fn address(&mut self, s: &mut Script<'_>) {
        let index = self.some_interface(s);
        let had = self.w.router.interface(index).map(|i| i.addresses.clone()).unwrap_or_default();
        if !had.is_empty() && s.one_in(2) {
            self.attempt(|r| r.remove_address(index, s.pick(&had)));
        } else {
            let address = match s.one_in(4) {
                true => Address::new(s.address6(), s.pick(&[64, 64, 64, 128, 127, 48, 10, 0, 129])),
                false => Address::new(s.address(), s.pick(&[24, 24, 24, 32, 31, 30, 16, 8, 0, 33])),
            };
            self.attempt(|r| r.add_address(index, address));
        }
    }

    fn neighbor(&mut self, s: &mut Script<'_>) {
        let (index, address) = (self.some_interface(s), s.address());
        self.attempt(|router| match s.below(6) {
            0 => router.remove_neighbor(index, address),
            1 => router.flush_neighbors::<Ipv4Addr>(index),
            2 => {
                router.set_neighbor_config::<Ipv4Addr>(net::neighbor::Config {
                    max_entries: s.pick(&[1, 4, 50_000]),
                    max_unresolved: s.pick(&[1, 4, 4_096]),
                    ..router.neighbor_config::<Ipv4Addr>()
                });
                Ok(())
            }
            _ => router.add_neighbor(index, address, s.mac(), s.one_in(2)),
        });
    }

    fn feature(&mut self, s: &mut Script<'_>) {
        let index = self.some_interface(s);
        let known = self.w.router.interface(index).is_ok();
        if known {
            let on = !s.one_in(3);
            // Any feature, so that new features are enabled, too.
            let arcs = self.w.router.features(index).into_iter();
            let features = arcs.flat_map(|(arc, features)| features.into_iter().map(move |(f, _)| (arc, f)));
            let features: Vec<_> = features.collect();
            if features.is_empty() {
                return; // The router was built without features.
            }
            let (arc, feature) = s.pick(&features);
            self.w.router.arcs().enable(arc, feature, index, on).expect("the feature is there");
            if on {
                self.features.insert((arc, feature));
            }
        }
    }

    /// Moves shards of flows to a worker, or changes the handoff and a receive queue of an interface.
    fn work(&mut self, s: &mut Script<'_>) {
        // All packets must have arrived before. If they had not, the router would wait for them.
        self.w.settle();
        let worker = s.below(WORKERS + 1);
        if s.one_in(2) {
            let first = usize::from(s.u16()) % SHARDS;
            let shards: Vec<usize> = (first..SHARDS.min(first + usize::from(s.u16() % 600))).collect();
            self.attempt(|r| r.give_shards(&shards, worker));
        } else {
            let index = self.some_interface(s);
            let queue = ReceiveQueue { mode: None, worker: s.one_in(2).then_some(worker) };
            let handoff = s.pick(&[Handoff::On, Handoff::On, Handoff::Off, Handoff::Auto]);
            let queues = [(s.below(WORKERS), queue)].into();
            self.attempt(|r| r.set_receive(index, Receive { handoff, queues, ..Receive::default() }));
        }
    }

    /// Changes the limits of a feature, or the rate of a punt reason.
    fn limit(&mut self, s: &mut Script<'_>) {
        if s.one_in(2) {
            let variations: Vec<_> = self.w.catalog.variations().iter().map(|v| v.vary).collect();
            if !variations.is_empty() {
                let (vary, n) = (s.pick(&variations), 1 + s.below(1 << 16) as u64);
                self.attempt(|r| vary(r, infra::hash::mix64(n) | 1));
            }
        } else {
            let reasons = self.w.router.graph().punt_reasons();
            reasons[s.below(reasons.len())].set_rate(s.pick(&[0, 1, 20, 1_000_000]));
        }
    }

    fn remove(&mut self, s: &mut Script<'_>) {
        let index = self.some_interface(s);
        self.attempt(|r| r.remove_interface(index));
    }

    fn bring_back(&mut self, s: &mut Script<'_>) {
        self.w.changed = true;
        match s.below(LINKS + OTHERS.len()) {
            n if n < LINKS => self.attach(n),
            n => self.w.add_other(n - LINKS),
        }
    }

    /// Restores the device of link `n`. If the interface exists without a device, attaches a device to it. If the interface does not exist,
    /// adds it with a device.
    fn attach(&mut self, n: usize) {
        let Some(i) = self.w.router.interface_named(&device_name(n)) else { return self.w.add_device(n) };
        let (index, without) = (i.index, i.device.is_none());
        if without {
            let device = self.w.links[n].device(crate::world::device_mac(n), 1500, crate::world::CAPS[n]);
            self.attempt(|r| r.attach_device(index, device));
        }
    }

    /// Removes a device, or takes its link down or up. The main thread notices this at once (and may detach the device) or in a later step.
    fn vanish(&mut self, s: &mut Script<'_>) {
        let n = s.below(LINKS);
        self.w.changed = true;
        // Or only the link goes down, or up again.
        match s.one_in(2) {
            true => self.w.links[n].line().gone = true,
            false => self.w.links[n].line().unplugged ^= true,
        }
        match s.below(3) {
            0 => drop(self.w.router.poll_links()),
            1 => {
                self.w.router.poll_links();
                if let Some(index) = self.w.router.interface_named(&device_name(n)).map(|i| i.index) {
                    self.w.router.detach_device(index).expect("a device can be let go of");
                }
            }
            _ => {}
        }
    }
}

/// Returns the program that `tcpdump -ddd 'udp and udp[8] != 0'` prints. It reads beyond the part of a packet that is always in the first
/// buffer.
fn udp_with_a_first_byte() -> Program {
    let lines = "40 0 0 12\n21 0 8 2048\n48 0 0 23\n21 0 6 17\n40 0 0 20\n69 4 0 8191\n177 0 0 14\n80 0 0 22\n21 1 0 0\n\
                 6 0 0 262144\n6 0 0 0";
    Program::new(&lines.lines().map(|l| l.parse().expect("an instruction")).collect::<Vec<_>>())
        .expect("a filter")
}

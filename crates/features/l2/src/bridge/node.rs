//! `l2-bridge` learns the stations' places from the frames received on a bridge domain's ports, and sends each frame to the port of its
//! destination, or to `l2-flood`.

use buf::Frame;
use class_b::{Inserted, View};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use infra::class_a::SlotReader;
use infra::class_b;
use infra::counters::Lane;
use infra::quiesce::Guard;
use net::ethernet::HEADER;
use net::interface::{Interface, Runs};
use wire::ethernet::EthernetHeader;

use super::alike::alike;
use super::answer;
use super::domain::{BridgePort, Bvi, Domain, Shared};
use super::mac::{self, Kind, Place};
use crate::node::fits;
use crate::rewrite::{Fault, Plan, Plans};

edges! { pub enum Next { Output = "interface-output", Flood = "l2-flood", Bvi = "ethernet-input" } }
reasons! {
    pub enum Reason {
        NoDomain = "no-bridge-domain", Info, "the interface left its bridge domain while the frame was on its way";
        FewTags = "too-few-tags", Warn, "the frame has fewer VLAN tags than the rewriting removes";
        NoHeadroom = "no-headroom", Error, "there is no room for the new VLAN tags in front of the frame";
        AboveMtu = "above-mtu", Warn, "the frame is larger than the MTU of the output interface";
        BadSource = "bad-source", Warn, "the frame's source address is 0 or that of a group";
        StaticMoved = "static-moved", Warn, "the frame's source address is configured on another port";
        Filtered = "filtered", Info, "an entry of the MAC table filters the frame's source or destination address";
        Reflected = "reflected", Info, "the frame's destination is on the port that received it";
        Reserved = "reserved-group", Info, "the frame's destination is a group address that bridges do not forward (IEEE 802.1Q section 8.6.3)";
        Split = "split-horizon", Info, "the frame's destination is on a port of the same split-horizon group";
        NoFlood = "flood-off", Info, "flooding of groups is switched off, and the frame's destination is a group";
        Unknown = "unknown-unicast", Info, "flooding of unknown unicast is switched off, and the frame's destination is unknown";
        Moves = "mac-moves", Info, counted, "stations that were heard on another port than before";
        OverLimit = "learn-limit", Warn, counted, "frames whose source address was not learned, because the domain has as many addresses as its limit permits";
        Answered = "arp-answered", Info, counted, "ARP requests and neighbor solicitations that were answered for configured hosts";
        NoRoom = "no-room", Warn, counted, "frames whose source address was not learned, because the MAC table had no room at that time";
    }
}

impl From<Fault> for Reason {
    fn from(fault: Fault) -> Reason {
        match fault {
            Fault::FewTags => Reason::FewTags,
            Fault::NoHeadroom => Reason::NoHeadroom,
        }
    }
}

/// A vector's addresses: keys of the MAC table, and their hashes.
struct Keys {
    src: [(u64, u64); buf::FRAME_SIZE],
    dst: [(u64, u64); buf::FRAME_SIZE],
}

/// What the nodes read: the domains with their MAC table, and the interfaces with their ports and tag rewriting.
#[derive(Clone)]
pub(crate) struct Domains {
    pub shared: Shared,
    pub interfaces: SlotReader<Interface>,
    pub ports: SlotReader<BridgePort>,
    pub plans: SlotReader<Plans>,
}

/// The node.
pub(crate) struct Bridge {
    domains: Domains,
    keys: Box<Keys>,
    /// Counts the packets that BVIs receive.
    rx: Lane<2>,
}

impl Bridge {
    pub(crate) fn new(domains: Domains, rx: Lane<2>) -> Bridge {
        let keys = Box::new(Keys { src: [(0, 0); buf::FRAME_SIZE], dst: [(0, 0); buf::FRAME_SIZE] });
        Bridge { domains, keys, rx }
    }
}

/// The port that has received a frame.
#[derive(Clone, Copy)]
pub(super) struct In<'g> {
    pub(super) port: BridgePort,
    domain: &'g Domain,
    pub(super) learns: bool,
    /// See [`Domain::age`].
    age: u16,
    /// The router's own interface in the domain.
    pub(super) bvi: Option<Bvi>,
    /// The value of an entry for a station that is heard on this port now.
    pub(super) word: u64,
    pub(super) plan: Plan,
}

/// A port that sends frames which another port has received.
#[derive(Clone, Copy)]
pub(super) struct To {
    pub(super) interface: u32,
    domain: u32,
    group: u8,
    epoch: u16,
    pub(super) mtu: usize,
    /// How the tags change between the two ports.
    pub(super) plan: Plan,
}

impl Domains {
    #[inline(never)]
    fn find<'g>(&self, guard: &'g Guard, rx: u32, now: u16) -> Option<In<'g>> {
        let port = *self.ports.get(guard, rx)?;
        let domain = self.shared.domains.get(guard, port.domain)?;
        let epoch = mac::epoch(domain.epoch, port.epoch);
        let word = Place { kind: Kind::Learned, port: rx, epoch, seen: now }.word();
        let plan = self.plans.get(guard, rx).copied().unwrap_or_default().rx;
        let bvi = self.bvi(guard, domain, port.domain);
        let learns = port.learn && domain.learn;
        Some(In { port, domain, learns, age: domain.age(now), bvi, word, plan })
    }

    /// Returns the BVI of the domain with this index, if it was not removed meanwhile.
    pub(crate) fn bvi(&self, guard: &Guard, domain: &Domain, index: u32) -> Option<Bvi> {
        domain.bvi.filter(|bvi| self.ports.get(guard, bvi.interface).is_some_and(|port| port.domain == index))
    }

    #[inline(never)]
    pub(super) fn output(&self, guard: &Guard, from: &In<'_>, interface: u32) -> Option<To> {
        let port = self.ports.get(guard, interface)?;
        let plan = from.plan.then(&self.plans.get(guard, interface).copied().unwrap_or_default().tx);
        let mtu = self.interfaces.get(guard, interface)?.mtu.into();
        let epoch = mac::epoch(from.domain.epoch, port.epoch);
        Some(To { interface, domain: port.domain, group: port.group, epoch, mtu, plan })
    }
}

/// What was found out about a frame's source address.
enum Learned {
    Known,
    Moved,
    OverLimit,
    NoRoom,
    Refused(Reason),
}

/// Learns that a station is on the port `from`, or that it is still there. `key` is that of its address.
#[inline(never)]
fn learn(
    guard: &Guard,
    shared: &Shared,
    from: &In<'_>,
    found: Option<class_b::Entry<'_>>,
    key: u64,
) -> Learned {
    if let Some(entry) = found {
        let (place, new) = (Place::of(entry.value), Place::of(from.word));
        match place.kind {
            Kind::Filter => return Learned::Refused(Reason::Filtered),
            Kind::Static if place.port != new.port => return Learned::Refused(Reason::StaticMoved),
            Kind::Static => return Learned::Known,
            Kind::Learned => {}
        }
        // Another worker may change the entry at the same time. Then the next frame tries again.
        let is_new = place.port != new.port && !place.is_void(place.epoch, from.age, from.word as u16);
        return if entry.replace(from.word) && is_new { Learned::Moved } else { Learned::Known };
    }
    if !shared.may_learn(from.domain) {
        return Learned::OverLimit;
    }
    match shared.macs.insert(guard, key, from.word) {
        Inserted::Yes => Learned::Known,
        other => {
            shared.forget(from.domain);
            if other == Inserted::Full { Learned::NoRoom } else { Learned::Known }
        }
    }
}

impl Domains {
    /// Checks the source address of a frame, and learns it if necessary. `src` is its key, with its hash. Counts what operators should know.
    #[inline(always)]
    fn hear(
        &self,
        guard: &Guard,
        view: View<'_>,
        from: &In<'_>,
        (rx, src, hash): (u32, u64, u64),
        counts: &mut [u64; COUNTED.len()],
    ) -> Result<(), Reason> {
        let number = src & mac::ADDRESS;
        if mac::is_group(number) || number == 0 {
            return Err(Reason::BadSource);
        }
        if from.bvi.is_some_and(|bvi| src == bvi.key && rx != bvi.interface) {
            return Err(Reason::StaticMoved);
        }
        if !from.learns {
            return Ok(());
        }
        let found = view.find(src, hash);
        if found.is_none_or(|entry| entry.value != from.word) {
            match learn(guard, &self.shared, from, found, src) {
                Learned::Known => {}
                Learned::Moved => counts[0] += 1,
                Learned::OverLimit => counts[1] += 1,
                Learned::NoRoom => counts[2] += 1,
                Learned::Refused(reason) => return Err(reason),
            }
        }
        Ok(())
    }
}

/// The counted reasons, in the order of the counts.
const COUNTED: [Reason; 4] = [Reason::Moves, Reason::OverLimit, Reason::NoRoom, Reason::Answered];

impl FrameNode for Bridge {
    const NAME: &'static str = "l2-bridge";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = net::trace::ethernet;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let Some(first) = frame.get(0).map(|p| p.rx_if()) else { return };
        let now = mac::second(cx.now);
        let guard = cx.guard;
        let Bridge { domains, keys, rx: counters } = self;
        let shared = &domains.shared;
        let view = shared.macs.view(guard);
        let (mut rx, mut from) = (first, domains.find(guard, first, now));
        if let Some(from) = &from
            && let Some(next) = alike(domains, guard, view, from, counters, frame)
        {
            return out.all(Verdict::Next(next));
        }
        domains.prefetch(guard, view, frame, keys, (rx, from.as_ref().map_or(0, |from| from.port.domain)));
        let (mut received, mut by_bvi) = (Runs::new(counters), false);
        let mut to: Option<To> = None;
        // The last source address that was learned on `rx`, and the last destination with its port.
        let (mut fresh, mut known) = (0, (0, 0));
        let mut counts = [0; COUNTED.len()];
        let mut each = keys.src.iter().zip(&keys.dst);
        out.mostly(Verdict::Next(Next::Output), frame, |_, p| {
            let (&(src, src_hash), &(dst, dst_hash)) = each.next()?;
            if p.rx_if() != rx {
                rx = p.rx_if();
                // The port may have joined another domain since its keys were noted.
                from = domains.find(guard, rx, now).filter(|from| src >> 48 == u64::from(from.port.domain));
                (to, fresh, known) = (None, 0, (0, 0));
            }
            let Some(from) = &from else { return Some(Verdict::Drop(Reason::NoDomain)) };
            if src != fresh {
                if let Err(reason) = domains.hear(guard, view, from, (rx, src, src_hash), &mut counts) {
                    return Some(Verdict::Drop(reason));
                }
                fresh = src;
            }
            let station = if dst == known.0 { known.1 } else { lookup(view, from, dst, dst_hash) };
            known = (dst, station);
            if station == TO_BVI
                && let Some(bvi) = &from.bvi
            {
                return Some(match from.receive(p, bvi) {
                    Ok(()) => {
                        by_bvi = true;
                        received.packet(bvi.interface, p.total_len());
                        Verdict::Next(Next::Bvi)
                    }
                    Err(reason) => Verdict::Drop(reason),
                });
            }
            if station <= LAST_REASON {
                if station == GROUP && from.answers(p) {
                    counts[3] += 1;
                    if from.is_bvi(rx) {
                        received.packet(rx, p.total_len());
                        return Some(Verdict::Next(Next::Bvi));
                    }
                    p.set_tx_if(rx);
                    return None;
                }
                return domains.without_station(guard, from, p, station);
            }
            let place = Place::of(station);
            if to.is_none_or(|to| to.interface != place.port) {
                to = domains.output(guard, from, place.port);
            }
            let Some(to) = to.as_ref().filter(|to| to.leads(from, place)) else {
                return domains.without_station(guard, from, p, UNKNOWN);
            };
            to.take(p, from).err().map(Verdict::Drop)
        });
        for (reason, n) in COUNTED.into_iter().zip(counts) {
            if n > 0 {
                out.count(reason, n);
            }
        }
        if by_bvi {
            frame.forget_uniform_rx();
        }
    }
}

/// Stands for the entry of an address without one.
const UNKNOWN: u64 = 0;
/// Stands for the entry of a group.
const GROUP: u64 = 1;
/// Stands for the entry of a group that bridges do not forward.
const RESERVED: u64 = 2;
/// Stands for the entry of an address that is filtered.
const FILTERED: u64 = 3;
/// Stands for the entry of an address on the port that has received the frame.
const REFLECTED: u64 = 4;
/// Stands for the entry of the domain's BVI.
pub(super) const TO_BVI: u64 = 5;
/// The last of these. The values of entries are larger.
pub(super) const LAST_REASON: u64 = TO_BVI;

/// Returns the value of the entry for a destination address, or one of the constants above.
#[inline(always)]
pub(super) fn lookup(view: View<'_>, from: &In<'_>, dst: u64, hash: u64) -> u64 {
    let number = dst & mac::ADDRESS;
    if mac::is_group(number) {
        return if mac::is_reserved(number) { RESERVED } else { GROUP };
    }
    if let Some(bvi) = from.bvi.filter(|bvi| bvi.key == dst) {
        // The BVI's own frames have its address as the source.
        return if from.word >> 40 == u64::from(bvi.interface) { REFLECTED } else { TO_BVI };
    }
    if !(from.port.forward && from.domain.forward) {
        return UNKNOWN;
    }
    let Some(entry) = view.find(dst, hash) else { return UNKNOWN };
    let place = Place::of(entry.value);
    match place.kind {
        Kind::Filter => FILTERED,
        // A void entry leads nowhere.
        _ if entry.value >> 40 == from.word >> 40
            && !place.is_void((from.word >> 16) as u16, from.age, from.word as u16) =>
        {
            REFLECTED
        }
        _ => entry.value,
    }
}

impl Domains {
    /// Notes the keys of a vector's addresses, and prefetches their entries. `rx` and `domain` are those of the first packet.
    #[inline(always)]
    fn prefetch(
        &self,
        guard: &Guard,
        view: View<'_>,
        frame: &mut Frame,
        keys: &mut Keys,
        (mut rx, mut domain): (u32, u32),
    ) {
        let (mut last_src, mut last_dst) = ((0, 0), (0, 0));
        let Keys { src: sources, dst: destinations } = keys;
        for ((mut p, src), dst) in frame.packets_ahead().zip(sources).zip(destinations) {
            if p.rx_if() != rx {
                rx = p.rx_if();
                domain = self.ports.get(guard, rx).map_or(0, |port| port.domain);
            }
            let header: &mut EthernetHeader = p.peek();
            let words = [header.src_word(), header.dst_word()];
            let [s, d] = words.map(|word| mac::key(domain, mac::of_word(word)));
            if s != last_src.0 {
                last_src = (s, view.hash(s));
                view.prefetch(last_src.1);
            }
            if d != last_dst.0 {
                last_dst = (d, view.hash(d));
                view.prefetch(last_dst.1);
            }
            (*src, *dst) = (last_src, last_dst);
        }
    }
}

impl To {
    /// True if the port is in the domain, and the entry that leads to it is not void.
    #[inline(always)]
    fn leads(&self, from: &In<'_>, place: Place) -> bool {
        self.domain == from.port.domain && !place.is_void(self.epoch, from.age, from.word as u16)
    }

    /// As [`leads`](Self::leads), and the port takes frames from the split-horizon group of `from`.
    #[inline(always)]
    pub(super) fn is_open(&self, from: &In<'_>, station: u64) -> bool {
        self.leads(from, Place::of(station)) && (self.group == 0 || self.group != from.port.group)
    }

    /// Prepares a frame for this port.
    #[inline(always)]
    fn take(&self, p: &mut buf::Packet<'_>, from: &In<'_>) -> Result<(), Reason> {
        if self.group != 0 && self.group == from.port.group {
            return Err(Reason::Split);
        }
        if !self.plan.is_empty() {
            self.plan.apply(&mut p.again())?;
        }
        p.set_tx_if(self.interface);
        if p.total_len() > HEADER + self.mtu && !fits(&mut p.again(), self.mtu) {
            return Err(Reason::AboveMtu);
        }
        Ok(())
    }
}

impl In<'_> {
    /// True if the frame came from the domain's BVI.
    fn is_bvi(&self, rx: u32) -> bool {
        self.bvi.is_some_and(|bvi| bvi.interface == rx)
    }

    /// Makes a frame to a group the answer to it, which returns the way that it came, with the same tags: rewriting them in and out again
    /// would change nothing. Returns false if the domain has no answer. Questions of split-horizon groups are not answered: the bridge that
    /// they come from has its own answers.
    #[cold]
    #[inline(never)]
    fn answers(&self, p: &mut buf::Packet<'_>) -> bool {
        self.port.group == 0 && self.domain.answers.as_ref().is_some_and(|hosts| answer::answer(p, hosts))
    }

    /// Prepares a frame to the domain's BVI, which receives it.
    #[inline(always)]
    fn receive(&self, p: &mut buf::Packet<'_>, bvi: &Bvi) -> Result<(), Reason> {
        if bvi.group != 0 && bvi.group == self.port.group {
            return Err(Reason::Split);
        }
        if !self.plan.is_empty() {
            self.plan.apply(&mut p.again())?;
        }
        p.set_rx_if(bvi.interface);
        Ok(())
    }
}

impl Domains {
    /// Returns the verdict on a frame whose destination is not a known station on another port. `None` sends it out of a port.
    #[cold]
    #[inline(never)]
    fn without_station(
        &self,
        guard: &Guard,
        from: &In<'_>,
        p: &mut buf::Packet<'_>,
        station: u64,
    ) -> Option<Verdict<Next, Reason>> {
        let is_group = station == GROUP;
        let (flood, reason) = match station {
            RESERVED => return Some(Verdict::Drop(Reason::Reserved)),
            FILTERED => return Some(Verdict::Drop(Reason::Filtered)),
            REFLECTED => return Some(Verdict::Drop(Reason::Reflected)),
            GROUP => (from.domain.flood, Reason::NoFlood),
            _ => (from.domain.unknown, Reason::Unknown),
        };
        let is_forwarded = match is_group {
            // With a BVI, which needs the questions to it, they are flooded to all, and to that port.
            true => from.domain.arp_ufwd && from.bvi.is_none() && answer::is_arp(p),
            false => true,
        };
        if is_forwarded
            && let Some(port) = from.domain.uu_fwd.filter(|port| *port != p.rx_if())
            && let Some(to) = self.output(guard, from, port).filter(|to| to.domain == from.port.domain)
        {
            return to.take(p, from).err().map(Verdict::Drop);
        }
        if !(from.port.flood && flood) {
            return Some(Verdict::Drop(reason));
        }
        if !from.plan.is_empty()
            && let Err(fault) = from.plan.apply(&mut p.again())
        {
            return Some(Verdict::Drop(fault.into()));
        }
        Some(Verdict::Next(Next::Flood))
    }
}

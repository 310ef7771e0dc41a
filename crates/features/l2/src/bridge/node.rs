//! `l2-bridge` learns the stations' places from the frames received on a bridge domain's ports, and sends each frame to the port of its
//! destination, or to `l2-flood`.

use buf::Frame;
use class_b::{Inserted, Map, View};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use infra::class_a::SlotReader;
use infra::class_b;
use infra::quiesce::Guard;
use net::ethernet::HEADER;
use net::interface::Interface;
use wire::ethernet::EthernetHeader;

use super::mac::{self, Kind, Place};
use super::table::{BridgePort, Domain, Shared};
use crate::node::fits;
use crate::rewrite::{Fault, Plan, Plans};

edges! { pub enum Next { Output = "interface-output", Flood = "l2-flood" } }
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

/// The bits of the address in a key of the MAC table.
const ADDRESS: u64 = (1 << 48) - 1;

/// A vector's addresses: keys of the MAC table, and their hashes.
struct Keys {
    src: [(u64, u64); buf::FRAME_SIZE],
    dst: [(u64, u64); buf::FRAME_SIZE],
}

/// The node.
pub(crate) struct Bridge {
    shared: Shared,
    interfaces: SlotReader<Interface>,
    ports: SlotReader<BridgePort>,
    plans: SlotReader<Plans>,
    keys: Box<Keys>,
}

impl Bridge {
    pub(crate) fn new(
        shared: Shared,
        interfaces: SlotReader<Interface>,
        ports: SlotReader<BridgePort>,
        plans: SlotReader<Plans>,
    ) -> Bridge {
        let keys = Box::new(Keys { src: [(0, 0); buf::FRAME_SIZE], dst: [(0, 0); buf::FRAME_SIZE] });
        Bridge { shared, interfaces, ports, plans, keys }
    }
}

/// The port that has received a frame.
#[derive(Clone, Copy)]
struct In<'g> {
    port: BridgePort,
    domain: &'g Domain,
    learns: bool,
    /// The value of an entry for a station that is heard on this port now.
    word: u64,
    plan: Plan,
}

/// A port that sends frames which another port has received.
#[derive(Clone, Copy)]
struct To {
    interface: u32,
    domain: u32,
    group: u8,
    epoch: u16,
    mtu: usize,
    /// How the tags change between the two ports.
    plan: Plan,
}

impl Bridge {
    #[inline(never)]
    fn find<'g>(&self, guard: &'g Guard, rx: u32, now: u16) -> Option<In<'g>> {
        let port = *self.ports.get(guard, rx)?;
        let domain = self.shared.domains.get(guard, port.domain)?;
        let epoch = mac::epoch(domain.epoch, port.epoch);
        let word = Place { kind: Kind::Learned, port: rx, epoch, seen: now }.word();
        let plan = self.plans.get(guard, rx).copied().unwrap_or_default().rx;
        Some(In { port, domain, learns: port.learn && domain.learn, word, plan })
    }

    #[inline(never)]
    fn output(&self, guard: &Guard, from: &In<'_>, interface: u32) -> Option<To> {
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
    macs: &Map,
    guard: &Guard,
    shared: &Shared,
    from: &In<'_>,
    found: Option<class_b::Entry<'_>>,
    key: u64,
    now: u16,
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
        let is_new = place.port != new.port && !place.is_void(place.epoch, from.domain.age, now);
        return if entry.replace(from.word) && is_new { Learned::Moved } else { Learned::Known };
    }
    if !shared.may_learn(from.domain) {
        return Learned::OverLimit;
    }
    match macs.insert(guard, key, from.word) {
        Inserted::Yes => Learned::Known,
        other => {
            shared.forget(from.domain);
            if other == Inserted::Full { Learned::NoRoom } else { Learned::Known }
        }
    }
}

impl FrameNode for Bridge {
    const NAME: &'static str = "l2-bridge";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = net::trace::ethernet;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let Some(first) = frame.get(0).map(|p| p.rx_if()) else { return };
        let now = mac::second(cx.now);
        let guard = cx.guard;
        let view = self.shared.macs.view(guard);
        let (mut rx, mut from) = (first, self.find(guard, first, now));
        self.prefetch(guard, view, frame, rx, from.as_ref().map_or(0, |from| from.port.domain));
        let keys = &*self.keys;
        let mut to: Option<To> = None;
        // The last source address that was learned on `rx`, and the last destination with its port.
        let (mut fresh, mut known) = (0, (0, 0));
        let mut counts = [0; 3];
        let mut each = keys.src.iter().zip(&keys.dst);
        out.mostly(Verdict::Next(Next::Output), frame, |_, p| {
            let (&(src, src_hash), &(dst, dst_hash)) = each.next()?;
            if p.rx_if() != rx {
                rx = p.rx_if();
                // The port may have joined another domain since its keys were noted.
                from = self.find(guard, rx, now).filter(|from| src >> 48 == u64::from(from.port.domain));
                (to, fresh, known) = (None, 0, (0, 0));
            }
            let Some(from) = &from else { return Some(Verdict::Drop(Reason::NoDomain)) };
            if src != fresh {
                let number = src & ADDRESS;
                if mac::is_group(number) || number == 0 {
                    return Some(Verdict::Drop(Reason::BadSource));
                }
                if from.learns {
                    let found = view.find(src, src_hash);
                    if found.is_none_or(|entry| entry.value != from.word) {
                        match learn(&self.shared.macs, guard, &self.shared, from, found, src, now) {
                            Learned::Known => {}
                            Learned::Moved => counts[0] += 1,
                            Learned::OverLimit => counts[1] += 1,
                            Learned::NoRoom => counts[2] += 1,
                            Learned::Refused(reason) => return Some(Verdict::Drop(reason)),
                        }
                    }
                }
                fresh = src;
            }
            let station = if dst == known.0 { known.1 } else { lookup(view, from, dst, dst_hash) };
            known = (dst, station);
            if station <= LAST_REASON {
                return Some(self.without_station(from, p, station));
            }
            let place = Place::of(station);
            if to.is_none_or(|to| to.interface != place.port) {
                to = self.output(guard, from, place.port);
            }
            let Some(to) = to
                .filter(|to| to.domain == from.port.domain && !place.is_void(to.epoch, from.domain.age, now))
            else {
                return Some(self.without_station(from, p, UNKNOWN));
            };
            if to.group != 0 && to.group == from.port.group {
                return Some(Verdict::Drop(Reason::Split));
            }
            if !to.plan.is_empty()
                && let Err(fault) = to.plan.apply(&mut p.again())
            {
                return Some(Verdict::Drop(fault.into()));
            }
            p.set_tx_if(to.interface);
            if p.total_len() > HEADER + to.mtu && !fits(&mut p.again(), to.mtu) {
                return Some(Verdict::Drop(Reason::AboveMtu));
            }
            None
        });
        for (reason, n) in [Reason::Moves, Reason::OverLimit, Reason::NoRoom].into_iter().zip(counts) {
            if n > 0 {
                out.count(reason, n);
            }
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
/// The last of these. The values of entries are larger.
const LAST_REASON: u64 = REFLECTED;

/// Returns the value of the entry for a destination address, or one of the constants above.
#[inline(always)]
fn lookup(view: View<'_>, from: &In<'_>, dst: u64, hash: u64) -> u64 {
    let number = dst & ADDRESS;
    if mac::is_group(number) {
        return if mac::is_reserved(number) { RESERVED } else { GROUP };
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
            && !place.is_void((from.word >> 16) as u16, from.domain.age, from.word as u16) =>
        {
            REFLECTED
        }
        _ => entry.value,
    }
}

impl Bridge {
    /// Notes the keys of a vector's addresses, and prefetches their entries.
    #[inline(always)]
    fn prefetch(&mut self, guard: &Guard, view: View<'_>, frame: &mut Frame, first: u32, domain: u32) {
        let (mut rx, mut domain) = (first, domain);
        let (mut last_src, mut last_dst) = ((0, 0), (0, 0));
        let Keys { src: sources, dst: destinations } = &mut *self.keys;
        for ((mut p, src), dst) in frame.packets_ahead().zip(sources).zip(destinations) {
            if p.rx_if() != rx {
                rx = p.rx_if();
                domain = self.ports.get(guard, rx).map_or(0, |port| port.domain);
            }
            let header: &mut EthernetHeader = p.peek();
            let [s, d] = [header.src(), header.dst()].map(|mac| mac::key(domain, mac::number(mac)));
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

    /// Returns the verdict on a frame whose destination is not a known station on another port.
    #[cold]
    #[inline(never)]
    fn without_station(&self, from: &In<'_>, p: &mut buf::Packet<'_>, station: u64) -> Verdict<Next, Reason> {
        let drop = match station {
            RESERVED => Some(Reason::Reserved),
            FILTERED => Some(Reason::Filtered),
            REFLECTED => Some(Reason::Reflected),
            GROUP => (!(from.port.flood && from.domain.flood)).then_some(Reason::NoFlood),
            _ => (!(from.port.flood && from.domain.unknown)).then_some(Reason::Unknown),
        };
        if let Some(reason) = drop {
            return Verdict::Drop(reason);
        }
        if !from.plan.is_empty()
            && let Err(fault) = from.plan.apply(&mut p.again())
        {
            return Verdict::Drop(fault.into());
        }
        Verdict::Next(Next::Flood)
    }
}

//! The feature nodes: `policer-input-…` on the arcs of received packets, and `policer-output` on the arc of sent packets.
//!
//! In most frames all packets have the same interface and conform. The node polices such a frame with one request, without reading the
//! packets. It sorts the packets of any other frame by policer ([`Vector`]).
//!
//! **Bytes.** In both directions, a packet counts with its Ethernet header and VLAN tags, but without the frame check sequence (FCS). For a
//! received packet, these are the bytes of the IP packet and 14, 18 or 22 more, by the number of tags. A packet that the device has to
//! segment counts as its segments.
//!
//! **Order.** Received packets are policed after the check of their source address, before fragments wait for reassembly and before other
//! features count packets. Sent packets are policed last: in the form in which they are sent, after the interface has counted them. So the
//! interface's counters of sent packets include those that a policer drops, like those that the interface's queue refuses.
//!
//! **Neighbors.** ARP and Neighbor Discovery packets on the link are policed and counted like all others, but never dropped: see
//! `keeps_neighbors`. Otherwise an overload in one direction would stop the traffic in the other direction, too.

use std::fmt::Write;
use std::io;

use buf::{FeatureField, Flags, Frame, Packet};
use graph::trace::TraceFn;
use graph::{Builder, Cx, FrameNode, GraphError, Out, Verdict, edges, reasons};
use infra::class_a::SlotReader;
use infra::counters::{CounterSet, Lane};
use net::Tables;
use net::router::Hooks;
use net::setting::{Attached, Setting, Switch};

use crate::bucket::{Color, DROP, MARK, Policer, TRANSMIT};
use crate::packet::{behind_tags, color_of, dscp, keeps_neighbors, mark, segments};
use crate::rate::Unit;
use crate::table::{Policers, Shared};
use crate::vector::{Load, Vector};

/// The policers of an interface, by index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policing {
    /// The policer of received IPv4 and IPv6 packets, unicast and multicast; `None` without one.
    pub input: Option<u32>,
    /// The policer of all sent frames; `None` without one.
    pub output: Option<u32>,
}

impl Setting for Policing {
    /// Numbers of received and of sent packets that the interface's policers dropped.
    type Counts = CounterSet<2>;
    const COUNTED: &'static str = "/feature/policer";

    fn switches(&self) -> Vec<Switch> {
        let of = |place: &Site| Switch {
            arc: place.arc,
            feature: place.feature,
            on: if place.outward { self.output.is_some() } else { self.input.is_some() },
        };
        SITES.iter().map(of).collect()
    }
}

/// A place in the graph where packets are policed: a feature on an arc.
struct Site {
    arc: &'static str,
    feature: &'static str,
    outward: bool,
    trace: TraceFn,
    /// Returns the offset of a packet's network header, and whether the packet is IPv6; `None` if it is neither IPv4 nor IPv6.
    network: fn(&Packet<'_>) -> Option<(usize, bool)>,
}

const IP4: usize = 0;
const IP6: usize = 1;
const IP4_GROUP: usize = 2;
const IP6_GROUP: usize = 3;
const OUTPUT: usize = 4;

const SITES: [Site; 5] = [
    Site {
        arc: "ip4-unicast",
        feature: "policer-input-ip4",
        outward: false,
        trace: net::trace::ip4,
        network: |_| Some((0, false)),
    },
    Site {
        arc: "ip6-unicast",
        feature: "policer-input-ip6",
        outward: false,
        trace: net::trace::ip6,
        network: |_| Some((0, true)),
    },
    Site {
        arc: "ip4-multicast",
        feature: "policer-input-ip4-multicast",
        outward: false,
        trace: net::trace::ip4,
        network: |_| Some((0, false)),
    },
    Site {
        arc: "ip6-multicast",
        feature: "policer-input-ip6-multicast",
        outward: false,
        trace: net::trace::ip6,
        network: |_| Some((0, true)),
    },
    Site {
        arc: "interface-output",
        feature: "policer-output",
        outward: true,
        trace: net::trace::ethernet,
        network: behind_tags,
    },
];

/// The name of the feature, in traces.
const FEATURE: &str = "policer";

/// Adds the nodes to the graph, and the table [`Policers`] to the router's state.
///
/// # Errors
/// Fails if there is no address space for the table, or no room in the packets for the feature's field.
pub fn install(b: &mut Builder, _: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    let settings = hooks.setting::<Policing>()?;
    let shared = hooks.state(Policers::new)?.shared();
    let seen = b.feature_field(FEATURE, Seen::trace)?;
    add::<IP4>(b, &settings, &shared, seen);
    add::<IP6>(b, &settings, &shared, seen);
    add::<IP4_GROUP>(b, &settings, &shared, seen);
    add::<IP6_GROUP>(b, &settings, &shared, seen);
    add::<OUTPUT>(b, &settings, &shared, seen);
    Ok(())
}

fn add<const SITE: usize>(
    b: &mut Builder,
    settings: &Attached<Policing>,
    shared: &Shared,
    seen: FeatureField<[u32; 2]>,
) {
    let (settings, shared) = (settings.clone(), shared.clone());
    b.frame(move |s| Police::<SITE>::new(&settings, &shared, seen, s.worker));
    let Site { arc, feature, .. } = SITES[SITE];
    b.feature(arc, feature, &[], &[]);
}

edges! { pub enum Next { Continue = "next-feature" } }
reasons! {
    pub enum Reason {
        Conform = "policer-conform", Info, "the packet conforms to its policer, which drops such packets";
        Exceed = "policer-exceed", Info, "the packet exceeds the committed rate or burst of its policer";
        Violate = "policer-violate", Info, "the packet violates the rates or bursts of its policer";
    }
}

impl From<Color> for Reason {
    fn from(color: Color) -> Reason {
        match color {
            Color::Green => Reason::Conform,
            Color::Yellow => Reason::Exceed,
            Color::Red => Reason::Violate,
        }
    }
}

/// The data that a trace records about a packet: the policer's index plus one, and the color.
struct Seen;

impl Seen {
    fn of(policer: u32, color: Color) -> [u32; 2] {
        [policer.wrapping_add(1), color as u32]
    }

    fn trace(seen: &[u32; 2], text: &mut String) {
        let color = Color::ALL.get(seen[1] as usize).map_or("?", |color| color.word());
        let _ = write!(text, "policer-idx {} {color}", seen[0].wrapping_sub(1));
    }
}

/// The node that polices the packets of one arc.
pub struct Police<const SITE: usize> {
    settings: SlotReader<Policing>,
    policers: SlotReader<Policer>,
    counts: Lane<6>,
    /// Numbers of dropped packets by interface: received, sent.
    dropped: Lane<2>,
    seen: FeatureField<[u32; 2]>,
    vector: Box<Vector>,
}

impl<const SITE: usize> Police<SITE> {
    const OUTWARD: bool = SITES[SITE].outward;

    fn new(
        settings: &Attached<Policing>,
        shared: &Shared,
        seen: FeatureField<[u32; 2]>,
        worker: usize,
    ) -> io::Result<Self> {
        Ok(Police {
            settings: settings.values.clone(),
            policers: shared.policers.clone(),
            counts: shared.lane(worker)?,
            dropped: settings.counts.lane(worker)?,
            seen,
            vector: Box::default(),
        })
    }

    /// Returns the interface whose policer applies to a packet: the receive interface, or the one that sends the packet.
    #[inline(always)]
    fn interface(p: &Packet<'_>) -> u32 {
        if Self::OUTWARD { p.tx_if() } else { p.rx_if() }
    }

    /// Returns the index of the policer for the direction of this node; `None` without one.
    #[inline(always)]
    fn policer(setting: &Policing) -> Option<u32> {
        if Self::OUTWARD { setting.output } else { setting.input }
    }

    /// Returns the number of bytes that a policer counts for all packets of a frame, none of which is to be segmented.
    #[inline(always)]
    fn bytes(frame: &mut Frame) -> u64 {
        let links: usize =
            if Self::OUTWARD { 0 } else { frame.packets().map(|p| usize::from(p.l2_len())).sum() };
        (frame.total_len() + links) as u64
    }

    /// Returns a packet's size for its policer, and its color on arrival.
    #[inline(always)]
    fn load(p: &mut Packet<'_>) -> Load {
        let link = if Self::OUTWARD { 0 } else { usize::from(p.l2_len()) };
        let bytes = (p.total_len() + link) as u32;
        let came = (SITES[SITE].network)(p).map_or(0, |(at, ip6)| dscp(p, at, ip6));
        let (packets, bytes) = if p.flags().any(Flags::GSO) { segments(p, bytes) } else { (1, bytes) };
        Load { packets, bytes, came: color_of(came) }
    }

    /// Polices each packet of a frame with the policer of its own interface, and performs the actions.
    #[inline(never)]
    fn sort(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let Police { settings, policers, counts, dropped, seen, vector, .. } = self;
        let (settings, policers) = (settings.view(cx.guard), policers.view(cx.guard));
        let traced = frame.any().any(Flags::TRACED);
        vector.begin();
        for (i, mut p) in frame.packets().enumerate() {
            let index = settings.get(Self::interface(&p)).and_then(Self::policer);
            match index.and_then(|index| Some((index, policers.get(index)?))) {
                Some((index, policer)) => vector.add(i, index, policer, Self::load(&mut p)),
                None => vector.pass(i),
            }
        }
        vector.police(&policers, counts, cx.worker, cx.now);
        out.mostly(Verdict::Next(Next::Continue), frame, |i, p| {
            if traced
                && p.flags().any(Flags::TRACED)
                && let Some(index) = settings.get(Self::interface(p)).and_then(Self::policer)
                && policers.get(index).is_some()
            {
                *p.feature_mut(*seen) = Seen::of(index, vector.color(i));
            }
            match vector.action(i) {
                TRANSMIT => None,
                DROP if keeps_neighbors(p, (SITES[SITE].network)(p), Self::OUTWARD) => None,
                DROP => {
                    let way = if Self::OUTWARD { [0, 1] } else { [1, 0] };
                    dropped.add(Self::interface(p), way);
                    Some(Verdict::Drop(vector.color(i).into()))
                }
                code => {
                    if let Some((at, ip6)) = (SITES[SITE].network)(p) {
                        mark(p, at, ip6, code ^ MARK);
                    }
                    None
                }
            }
        });
    }
}

impl<const SITE: usize> FrameNode for Police<SITE> {
    const NAME: &'static str = SITES[SITE].feature;
    type Next = Next;
    type Drop = Reason;
    const TRACE: TraceFn = SITES[SITE].trace;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let uniform = if Self::OUTWARD { frame.uniform_tx() } else { frame.uniform_rx() };
        let Some(interface) = uniform.filter(|_| !frame.any().any(Flags::GSO)) else {
            return self.sort(cx, frame, out);
        };
        let index = self.settings.get(cx.guard, interface).and_then(Self::policer);
        let Some((index, policer)) = index.and_then(|i| Some((i, self.policers.get(cx.guard, i)?))) else {
            // The policer was disabled or removed while the packets were in flight.
            return out.all(Verdict::Next(Next::Continue));
        };
        if policer.is_aware() || policer.action(Color::Green) != TRANSMIT {
            return self.sort(cx, frame, out);
        }
        let (packets, bytes) = (frame.len() as u64, Self::bytes(frame));
        let tokens = match policer.unit() {
            Unit::Kbps => bytes,
            Unit::Pps => packets,
        };
        if !policer.all(cx.worker, cx.now, tokens) {
            return self.sort(cx, frame, out);
        }
        self.counts.add(index, [packets, bytes, 0, 0, 0, 0]);
        if frame.any().any(Flags::TRACED) {
            note(frame, self.seen, index);
        }
        out.all(Verdict::Next(Next::Continue));
    }
}

/// Records in each traced packet of a frame that the packet conforms to `policer`.
#[cold]
fn note(frame: &mut Frame, seen: FeatureField<[u32; 2]>, policer: u32) {
    for mut p in frame.packets().filter(|p| p.flags().any(Flags::TRACED)) {
        *p.feature_mut(seen) = Seen::of(policer, Color::Green);
    }
}

#[cfg(test)]
#[path = "node_tests.rs"]
mod tests;

//! MSS clamping: lowers the MSS option in TCP SYN segments that pass the router (RFC 9293 section 3.7.1).
//! This is for paths with a smaller MTU than the hosts know (for example, a PPPoE line or a tunnel), if ICMP
//! errors on the path are filtered.
//!
//! There are two features, for packets received on an interface and for packets sent by it. They change only
//! segments with the SYN flag, and never raise the option. If the option is missing, nothing is added: hosts
//! then assume 536 bytes (IPv4) or 1,220 bytes (IPv6).

use std::io;
use std::marker::PhantomData;
use std::net::{Ipv4Addr, Ipv6Addr};

use buf::{Flags, Frame, Packet};
use graph::{Builder, Cx, FrameNode, GraphError, Out, Verdict, edges, reasons};
use infra::class_a::SlotReader;
use infra::counters::{CounterSet, Lane};
use wire::extension::{Chain, is_extension};
use wire::{Ipv4Header, Ipv6Header, protocol, tcp};

use net::ip::{Packets, PerFamily};
use net::router::Hooks;
use net::setting::{Attached, Setting, Switch};

/// A family with MSS clamping.
pub trait Clamped: Packets {
    /// Name of the feature for received packets.
    const IN: &'static str;
    /// Name of the feature for sent packets.
    const OUT: &'static str;
    /// The word for the family in commands.
    const WORD: &'static str;
    /// The numbers to add to the two counters (IPv4 and IPv6) for one lowered segment of this family.
    const LOWERED: [u64; 2];

    /// Returns the offset of the TCP header in a packet that begins with its IP header. `None` for other protocols, and for fragments
    /// except the first one.
    fn segment(l3: &[u8]) -> Option<usize>;
}

impl Clamped for Ipv4Addr {
    const IN: &'static str = "tcp-mss-clamping-ip4-in";
    const OUT: &'static str = "tcp-mss-clamping-ip4-out";
    const WORD: &'static str = "ip4";
    const LOWERED: [u64; 2] = [1, 0];

    #[inline(always)]
    fn segment(l3: &[u8]) -> Option<usize> {
        let (ip, _) = Ipv4Header::split(l3)?;
        (ip.protocol() == protocol::TCP && ip.fragment_offset() == 0).then(|| ip.header_len())
    }
}

impl Clamped for Ipv6Addr {
    const IN: &'static str = "tcp-mss-clamping-ip6-in";
    const OUT: &'static str = "tcp-mss-clamping-ip6-out";
    const WORD: &'static str = "ip6";
    const LOWERED: [u64; 2] = [0, 1];

    #[inline(always)]
    fn segment(l3: &[u8]) -> Option<usize> {
        let (ip, _) = Ipv6Header::split(l3)?;
        match ip.next_header() {
            protocol::TCP => Some(Ipv6Header::LEN),
            next if is_extension(next) => behind_extensions(l3),
            _ => None,
        }
    }
}

#[cold]
fn behind_extensions(l3: &[u8]) -> Option<usize> {
    let chain = Chain::of(l3).ok()?;
    let first = chain.fragment.is_none_or(|f| f.offset == 0);
    (first && chain.protocol == protocol::TCP).then_some(chain.offset)
}

/// The directions in which the MSS is lowered on an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clamping {
    /// The MSS is not lowered.
    #[default]
    Off,
    /// Received packets.
    Rx,
    /// Sent packets.
    Tx,
    /// Received and sent packets.
    Both,
}

/// The clamping of one family on an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mss {
    /// The directions in which the MSS is lowered.
    pub clamping: Clamping,
    /// The largest MSS that passes unchanged, in bytes without headers.
    pub most: u16,
}

impl Mss {
    /// Returns the largest MSS that passes unchanged. It is 65,535 if clamping is off, because a worker may still be in the feature
    /// when clamping is switched off.
    fn limit(self) -> u16 {
        if self.clamping == Clamping::Off { u16::MAX } else { self.most }
    }

    /// Returns the family's word in commands if `feature` is an MSS clamping feature; otherwise `None`.
    pub fn family_of(feature: &str) -> Option<&'static str> {
        fn word<A: Clamped>(feature: &str) -> Option<&'static str> {
            (feature == A::IN || feature == A::OUT).then_some(A::WORD)
        }
        word::<Ipv4Addr>(feature).or_else(|| word::<Ipv6Addr>(feature))
    }
}

impl Clamping {
    /// All values except `Off`.
    pub const ALL: [Clamping; 3] = [Clamping::Rx, Clamping::Tx, Clamping::Both];

    /// Returns the direction's word in commands.
    pub fn word(self) -> &'static str {
        match self {
            Clamping::Off => "disable",
            Clamping::Rx => "rx",
            Clamping::Tx => "tx",
            Clamping::Both => "enable",
        }
    }

    /// Returns the direction: "rx", "tx" or "both".
    pub fn direction(self) -> &'static str {
        match self {
            Clamping::Both => "both",
            one => one.word(),
        }
    }

    /// Returns the switches of a family's two features, each with its arc. A switch is on if the MSS is lowered in its direction.
    fn switches<A: Clamped>(self) -> [Switch; 2] {
        let (rx, tx) =
            (matches!(self, Clamping::Rx | Clamping::Both), matches!(self, Clamping::Tx | Clamping::Both));
        let switch = |arc, feature, on| Switch { arc, feature, on };
        [switch(A::NODES.unicast, A::IN, rx), switch(A::NODES.output, A::OUT, tx)]
    }
}

/// The clamping of an interface, by family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clamps(pub PerFamily<Mss>);

impl Setting for Clamps {
    /// Number of segments whose MSS was lowered: over IPv4, over IPv6.
    type Counts = CounterSet<2>;
    const COUNTED: &'static str = "/feature/tcp-mss-clamp";

    fn switches(&self) -> Vec<Switch> {
        let (ip4, ip6) = (self.0.ip4.clamping, self.0.ip6.clamping);
        [ip4.switches::<Ipv4Addr>(), ip6.switches::<Ipv6Addr>()].concat()
    }
}

/// Adds both nodes of a family.
///
/// # Errors
/// Fails if address space for the table of settings cannot be reserved.
pub fn install<A: Clamped>(b: &mut Builder, hooks: &mut Hooks) -> Result<(), GraphError> {
    let limits = hooks.setting::<Clamps>()?;
    let again = limits.clone();
    b.frame(move |s| TcpMssClamp::<A, false>::new(&limits, s.worker));
    b.frame(move |s| TcpMssClamp::<A, true>::new(&again, s.worker));
    b.feature(A::NODES.unicast, A::IN, &[], &[]);
    b.feature(A::NODES.output, A::OUT, &[], &[]);
    Ok(())
}

edges! { pub enum Next { Continue = "next-feature" } }

reasons! {
    pub enum Reason {
        Clamped = "clamped", Info, counted, "the segment's MSS was larger than the interface allows, and was lowered";
    }
}

pub(crate) struct TcpMssClamp<A, const OUTWARD: bool> {
    limits: SlotReader<Clamps>,
    /// Number of segments whose MSS was lowered, by interface: over IPv4, over IPv6.
    clamped: Lane<2>,
    family: PhantomData<A>,
}

impl<A: Clamped, const OUTWARD: bool> TcpMssClamp<A, OUTWARD> {
    pub fn new(limits: &Attached<Clamps>, worker: usize) -> io::Result<Self> {
        let (limits, clamped) = (limits.values.clone(), limits.counts.lane(worker)?);
        Ok(TcpMssClamp { limits, clamped, family: PhantomData })
    }
}

/// Lowers the MSS of a packet whose network header is at offset `l3`. Returns true if it was lowered.
fn clamp<A: Clamped>(p: &mut Packet<'_>, l3: usize, most: u16) -> bool {
    // A partial checksum covers the pseudo header only; the rest is summed when it is completed.
    let partial = p.flags().any(Flags::CSUM_PARTIAL);
    let Some(l3) = p.bytes_mut().get_mut(l3..) else { return false };
    let Some(at) = A::segment(l3) else { return false };
    l3.get_mut(at..).is_some_and(|segment| tcp::clamp_mss(segment, most, !partial))
}

impl<A: Clamped, const OUTWARD: bool> FrameNode for TcpMssClamp<A, OUTWARD> {
    const NAME: &'static str = if OUTWARD { A::OUT } else { A::IN };
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = A::TRACE;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let mut lowered = 0;
        let limits = self.limits.view(cx.guard);
        for mut p in frame.packets() {
            // Packets that leave already have their link header.
            let (by, l3) = if OUTWARD { (p.tx_if(), usize::from(p.l2_len())) } else { (p.rx_if(), 0) };
            if let Some(most) = limits.get(by).map(|limits| limits.0.of::<A>().limit())
                && clamp::<A>(&mut p, l3, most)
            {
                self.clamped.add(by, A::LOWERED);
                lowered += 1;
            }
        }
        if lowered > 0 {
            out.count(Reason::Clamped, lowered);
        }
        out.all(Verdict::Next(Next::Continue));
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

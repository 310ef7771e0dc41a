//! MSS clamping: the largest segment that TCP's two ends tell each other is lowered as it passes by (RFC 9293 section 3.7.1), where
//! packets are to be smaller than the ends can know: behind a PPPoE line or a tunnel, whose ICMP errors somebody filters.
//!
//! Two features, for packets that come in by an interface and for those that leave by it. They look at segments with SYN only, and never
//! raise what is said; where nothing is said, the ends assume 536 bytes, and nothing is added.

use std::io;

use buf::{Flags, Frame, Packet};
use graph::{Builder, Cx, FrameNode, NoReason, Out, Verdict, edges};
use infra::class_a::SlotReader;
use infra::counters::Lane;
use wire::ipv4::{Ipv4Header, protocol};
use wire::tcp;

use super::reassembly::SHALLOW;
use crate::Tables;
use crate::interface::Interface;

const IN: &str = "tcp-mss-clamping-ip4-in";
const OUT: &str = "tcp-mss-clamping-ip4-out";

/// Whose largest segments are lowered on an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clamping {
    /// Nobody's.
    #[default]
    Off,
    /// Of packets that come in by it.
    Rx,
    /// Of packets that leave by it.
    Tx,
    /// Of both.
    Both,
}

/// How segments are clamped on an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mss {
    /// Which packets.
    pub clamping: Clamping,
    /// The largest segment over IPv4 that may be said, in bytes without headers.
    pub ip4: u16,
}

impl Mss {
    /// The largest segment over IPv4 that passes as it is: any, where nothing is clamped. A worker may still be in the
    /// feature when that is switched off.
    pub(crate) fn most4(self) -> u16 {
        if self.clamping == Clamping::Off { u16::MAX } else { self.ip4 }
    }
}

impl Clamping {
    /// Those of packets that pass in some direction.
    pub const ALL: [Clamping; 3] = [Clamping::Rx, Clamping::Tx, Clamping::Both];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Clamping::Off => "disable",
            Clamping::Rx => "rx",
            Clamping::Tx => "tx",
            Clamping::Both => "enable",
        }
    }

    /// What is on, of each feature with its arc.
    pub(crate) fn features(self) -> [(&'static str, &'static str, bool); 2] {
        let (rx, tx) =
            (matches!(self, Clamping::Rx | Clamping::Both), matches!(self, Clamping::Tx | Clamping::Both));
        [("ip4-unicast", IN, rx), ("ip4-output", OUT, tx)]
    }

    /// Whether a feature of an arc is one of these: they are set by command.
    pub fn has(feature: &str) -> bool {
        feature == IN || feature == OUT
    }
}

/// Adds both nodes. Fragments have been put in order, as far as anybody asked for that.
pub(super) fn install(b: &mut Builder, t: &Tables) {
    let tables = t.clone();
    b.frame(move |s| TcpMssClamp::<false>::new(&tables, s.worker));
    let tables = t.clone();
    b.frame(move |s| TcpMssClamp::<true>::new(&tables, s.worker));
    b.feature("ip4-unicast", IN, &[SHALLOW], &[]);
    b.feature("ip4-output", OUT, &[], &[]);
}

edges! { pub enum Next { Continue = "next-feature" } }

pub struct TcpMssClamp<const OUTWARD: bool> {
    interfaces: SlotReader<Interface>,
    /// Segments that said more, by interface.
    clamped: Lane<1>,
}

impl<const OUTWARD: bool> TcpMssClamp<OUTWARD> {
    pub fn new(t: &Tables, worker: usize) -> io::Result<Self> {
        Ok(TcpMssClamp { interfaces: t.interfaces.clone(), clamped: t.mss_clamped.lane(worker)? })
    }
}

/// Lowers what a packet says, whose network header is `l3` bytes behind its start. Returns whether it said more.
fn clamp(p: &mut Packet<'_>, l3: usize, most: u16) -> bool {
    // The ends of a partial checksum are summed when it is completed.
    let partial = p.flags().any(Flags::CSUM_PARTIAL);
    let Some(l3) = p.bytes_mut().get_mut(l3..) else { return false };
    let Some((ip, _)) = Ipv4Header::split(l3) else { return false };
    if ip.protocol() != protocol::TCP || ip.fragment_offset() != 0 {
        return false;
    }
    let header = ip.header_len();
    l3.get_mut(header..).is_some_and(|segment| tcp::clamp_mss(segment, most, !partial))
}

impl<const OUTWARD: bool> FrameNode for TcpMssClamp<OUTWARD> {
    const NAME: &'static str = if OUTWARD { OUT } else { IN };
    type Next = Next;
    type Drop = NoReason;
    const TRACE: graph::trace::TraceFn = crate::trace::ip4;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, NoReason>) {
        let interfaces = self.interfaces.view(cx.guard);
        for mut p in frame.packets() {
            // Packets that leave have their link header already.
            let (by, l3) = if OUTWARD { (p.tx_if(), usize::from(p.l2_len())) } else { (p.rx_if(), 0) };
            if let Some(most) = interfaces.get(by).map(|i| i.mss4)
                && clamp(&mut p, l3, most)
            {
                self.clamped.add(by, [1]);
            }
        }
        out.all(Verdict::Next(Next::Continue));
    }
}

#[cfg(test)]
#[path = "mss_tests.rs"]
mod tests;

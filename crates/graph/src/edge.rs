//! A node's verdicts on packets, and the edges and reasons that verdicts name.

use std::sync::{Arc, Mutex};

/// Lowest code of a reason. Codes 0 to 127 are edges, codes 128 to 252 are reasons for dropped or ignored packets, and the constants below
/// have the remaining codes.
pub(crate) const FIRST_REASON: u8 = 128;
/// The node is done with the packet. The packet's buffers are freed, and no reason is counted.
pub(crate) const CONSUMED: u8 = 253;
/// The node returned no verdict on the packet. The packet is freed and counted as lost. This is a bug in the node.
pub(crate) const UNSAID: u8 = 254;
/// The node keeps the packet.
pub(crate) const HELD: u8 = 255;

/// All edges by which packets leave a node. Declared with [`edges!`](crate::edges).
pub trait Edges: Copy + 'static {
    /// Names of the nodes or arcs to which the edges lead, by code.
    const NAMES: &'static [&'static str];
    /// The edge's number.
    fn code(self) -> u8;
}

/// All reasons for which a node drops packets or counts other events. Declared with [`reasons!`](crate::reasons).
pub trait Reasons: Copy + 'static {
    /// The reasons, by code.
    const INFO: &'static [ReasonInfo];
    /// The reason's number.
    fn code(self) -> u8;
}

/// Reasons for drops and other events, in addition to a node's own reasons
/// ([`Builder::more_reasons`](crate::Builder::more_reasons)). The list is filled while the graph is built. Clones share the list.
#[derive(Clone, Debug, Default)]
pub struct MoreReasons(Arc<Mutex<Vec<&'static ReasonInfo>>>);

impl MoreReasons {
    /// Adds a reason. Returns its position in the list.
    pub fn add(&self, reason: &'static ReasonInfo) -> usize {
        let mut list = self.0.lock().unwrap_or_else(|e| e.into_inner());
        list.push(reason);
        list.len() - 1
    }

    pub(crate) fn all(&self) -> Vec<&'static ReasonInfo> {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
}

/// A reason of a node with [further reasons](MoreReasons): either from the node's own enum, or from the list
/// of further reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extended<R> {
    /// A reason of the node's enum.
    Own(R),
    /// Position in the list of further reasons.
    More(u8),
}

impl<R: Reasons> Reasons for Extended<R> {
    const INFO: &'static [ReasonInfo] = R::INFO;
    #[inline(always)]
    fn code(self) -> u8 {
        match self {
            Extended::Own(reason) => reason.code(),
            Extended::More(at) => R::INFO.len() as u8 + at,
        }
    }
}

/// The verdict on a whole frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Every packet that is still in the frame has this code.
    All(u8),
    /// The code bytes of the frame hold a separate code for each packet.
    Mixed,
    /// Like `Mixed`, but the packets leave one by one, in the order of the frame.
    InOrder,
}

/// A node's number in the graph: its position in running order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// Severity of a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Expected in normal operation.
    Info,
    /// Look into the cause if the count increases.
    Warn,
    /// The packet is broken, or the configuration is wrong.
    Error,
}

/// One reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasonInfo {
    /// Short name, for counters and labels: `bad-checksum`.
    pub name: &'static str,
    /// Severity of the reason.
    pub severity: Severity,
    /// True if packets are dropped for this reason. If false, packets are [ignored](Verdict::Ignore) for this reason, or the node counts
    /// other events with [`Out::count`](crate::Out::count).
    pub drops: bool,
    /// A description for the operator.
    pub text: &'static str,
}

/// Declares the edges of a node: `edges! { pub enum Next { Lookup = "ip4-lookup", Local = "ip4-local" } }`.
///
/// An edge has the name of a node, of a feature arc that begins here, or [`CONTINUE`](crate::CONTINUE).
#[macro_export]
macro_rules! edges {
    ($(#[$m:meta])* $v:vis enum $name:ident { $($(#[$vm:meta])* $variant:ident = $node:expr),+ $(,)? }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        $v enum $name { $($(#[$vm])* #[doc = concat!("To `", $node, "`.")] $variant),+ }
        impl $crate::Edges for $name {
            const NAMES: &'static [&'static str] = &[$($node),+];
            #[inline(always)]
            fn code(self) -> u8 { self as u8 }
        }
    };
}

/// Declares the reasons for which a node drops or counts packets:
/// `reasons! { pub enum Reason { Checksum = "bad-checksum", Error, "the header checksum is wrong"; } }`. If a reason drops no packet and is
/// only counted, the word `counted` follows its severity.
#[macro_export]
macro_rules! reasons {
    ($(#[$m:meta])* $v:vis enum $name:ident {
        $($(#[$vm:meta])* $variant:ident = $short:literal, $severity:ident, $($counted:ident,)? $text:literal;)+
    }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        $v enum $name { $($(#[$vm])* #[doc = $text] $variant),+ }
        impl $crate::Reasons for $name {
            const INFO: &'static [$crate::ReasonInfo] = &[$($crate::ReasonInfo {
                name: $short, severity: $crate::Severity::$severity, drops: true $(&& $crate::reasons!(@$counted))?, text: $text
            }),+];
            #[inline(always)]
            fn code(self) -> u8 { self as u8 }
        }
    };
    (@counted) => { false };
}

/// The edges of a node that declares none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoNext {}
impl Edges for NoNext {
    const NAMES: &'static [&'static str] = &[];
    fn code(self) -> u8 {
        match self {}
    }
}

/// The reasons of a node that neither drops nor counts packets.
#[derive(Clone, Copy, Debug)]
pub enum NoReason {}
impl Reasons for NoReason {
    const INFO: &'static [ReasonInfo] = &[];
    fn code(self) -> u8 {
        match self {}
    }
}

/// An edge that was added to a node while the graph was being built: registries of protocols and ports add edges in this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeId(pub(crate) u8);

impl EdgeId {
    /// Returns the number of the edge, for storage in a table.
    pub fn to_raw(self) -> u8 {
        self.0
    }

    /// Returns the edge with the number `raw`; numbers above 127 count as 127. A packet that is sent by an edge that its node does not have
    /// is freed and counted as lost.
    pub fn from_raw(raw: u8) -> EdgeId {
        EdgeId(raw.min(FIRST_REASON - 1))
    }
}

/// The verdict on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<N, D> {
    /// The packet leaves by this edge.
    Next(N),
    /// The packet leaves by an edge that was added while the graph was being built.
    Edge(EdgeId),
    /// The packet is dropped for this reason.
    Drop(D),
    /// The packet is valid, but the node has no use for it. Its buffers are freed, and it is counted for this reason, which must be
    /// declared `counted`.
    Ignore(D),
    /// The node holds the packet: [`FrameNode::held`](crate::FrameNode::held) receives it after the frame.
    Hold,
    /// The node is done with the packet, and its buffers are freed.
    Consume,
}

/// Returns whether a reason drops packets; `None` if it is not known here, because it is one of the [further reasons](MoreReasons).
pub(crate) fn drops<D: Reasons>(reason: D) -> Option<bool> {
    D::INFO.get(usize::from(reason.code())).map(|info| info.drops)
}

/// Returns the verdict code of a packet that the node drops for this reason.
#[inline(always)]
pub(crate) fn drop_code<D: Reasons>(reason: D) -> u8 {
    debug_assert!(
        drops(reason) != Some(false),
        "a packet must not be dropped for an event (a reason declared `counted`)"
    );
    FIRST_REASON | reason.code()
}

/// Returns the verdict code of a packet that the node ignores for this reason.
#[inline(always)]
fn ignore_code<D: Reasons>(reason: D) -> u8 {
    debug_assert!(drops(reason) != Some(true), "a packet is ignored with a drop reason");
    FIRST_REASON | reason.code()
}

impl<N: Edges, D: Reasons> Verdict<N, D> {
    #[inline(always)]
    pub(crate) fn code(self) -> u8 {
        match self {
            Verdict::Next(n) => n.code(),
            Verdict::Edge(e) => e.0,
            Verdict::Drop(d) => drop_code(d),
            Verdict::Ignore(d) => ignore_code(d),
            Verdict::Hold => HELD,
            Verdict::Consume => CONSUMED,
        }
    }
}

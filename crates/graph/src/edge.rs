//! What a node says of a packet: by which edge it leaves, or for what reason it is dropped.

/// Codes 0–127 are edges, 128–252 drop reasons, the rest below.
pub(crate) const FIRST_REASON: u8 = 128;
/// The node has done with the packet; its buffers are freed without a reason (something else went on in its place).
pub(crate) const CONSUMED: u8 = 253;
/// The node said nothing: the packet is freed and counted as lost, which is a defect of the node.
pub(crate) const UNSAID: u8 = 254;
/// The node keeps the packet.
pub(crate) const HELD: u8 = 255;

/// The closed list of edges by which packets leave a node. Made by [`edges!`](crate::edges).
pub trait Edges: Copy + 'static {
    /// Names of nodes or arcs, in the order of the codes.
    const NAMES: &'static [&'static str];
    /// The edge's number.
    fn code(self) -> u8;
}

/// The closed list of reasons for which a node drops packets, or counts what is no drop. Made by [`reasons!`](crate::reasons).
pub trait Reasons: Copy + 'static {
    /// The reasons in the order of the codes.
    const INFO: &'static [ReasonInfo];
    /// The reason's number.
    fn code(self) -> u8;
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Every packet that is still in the frame has this code.
    All(u8),
    /// Each has the code in the code bytes.
    Mixed,
    /// As `Mixed`, and they leave one by one.
    InOrder,
}

/// A node's number in the graph: its place in the order in which nodes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// How bad a drop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Expected in normal operation.
    Info,
    /// Worth a look when it grows.
    Warn,
    /// The packet was broken, or something is configured wrong.
    Error,
}

/// One reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasonInfo {
    /// Short name, for counters and labels: `bad-checksum`.
    pub name: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// Whether a packet is dropped. Otherwise the packet is [ignored](Verdict::Ignore), or the node counts something else by
    /// [`Out::count`](crate::Out::count).
    pub drops: bool,
    /// What happened, in words for the operator.
    pub text: &'static str,
}

/// Declares the edges of a node: `edges! { pub enum Next { Lookup = "ip4-lookup", Local = "ip4-local" } }`.
///
/// A name is that of a node, or of a feature arc that begins here, or [`CONTINUE`](crate::CONTINUE).
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

/// Declares the drop reasons of a node:
/// `reasons! { pub enum Reason { Checksum = "bad-checksum", Error, "the header checksum is wrong"; } }`. What is counted and
/// is no drop has the word `counted` behind its severity.
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

/// For a node without edges of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoNext {}
impl Edges for NoNext {
    const NAMES: &'static [&'static str] = &[];
    fn code(self) -> u8 {
        match self {}
    }
}

/// For a node that drops nothing.
#[derive(Clone, Copy, Debug)]
pub enum NoReason {}
impl Reasons for NoReason {
    const INFO: &'static [ReasonInfo] = &[];
    fn code(self) -> u8 {
        match self {}
    }
}

/// An edge that was added to a node when the graph was built (registries of protocols and ports).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeId(pub(crate) u8);

impl EdgeId {
    /// The edge's number, to be kept in a table.
    pub fn to_raw(self) -> u8 {
        self.0
    }

    /// The edge with this number. One that the node does not have drops the packet, and counts it as lost.
    pub fn from_raw(raw: u8) -> EdgeId {
        EdgeId(raw.min(FIRST_REASON - 1))
    }
}

/// What is to become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<N, D> {
    /// It leaves by this edge.
    Next(N),
    /// It leaves by an edge that was added when the graph was built.
    Edge(EdgeId),
    /// It is dropped.
    Drop(D),
    /// The node has no use for it, and nothing is wrong with it: its buffers are freed, and it is counted for this reason, which is
    /// declared `counted`.
    Ignore(D),
    /// The node keeps it: [`FrameNode::held`](crate::FrameNode::held) is called with it after the frame.
    Hold,
    /// The node has done with it, and its buffers are freed.
    Consume,
}

/// The code of a packet that is dropped for this reason.
#[inline(always)]
pub(crate) fn drop_code<D: Reasons>(reason: D) -> u8 {
    debug_assert!(D::INFO[usize::from(reason.code())].drops, "a packet is dropped for what only counts");
    FIRST_REASON | reason.code()
}

/// The code of a packet that is ignored for this reason.
#[inline(always)]
fn ignore_code<D: Reasons>(reason: D) -> u8 {
    debug_assert!(
        !D::INFO[usize::from(reason.code())].drops,
        "a packet is ignored for what it is to be dropped for"
    );
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

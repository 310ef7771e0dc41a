//! Causes of ICMP errors: causes of the core, and causes that features register.

use std::sync::{Arc, Mutex};

use graph::{GraphError, MoreReasons, ReasonInfo};

/// In a forwarding index, a feature's cause is encoded as this number plus its position in [`Causes`].
const OF_FEATURES: u32 = 0x80;
/// Maximum number of causes of features.
const MOST: usize = 64;

/// The reason why a packet could not be delivered. A node sets the cause as the packet's forwarding index, and passes the packet to the
/// node that sends ICMP errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The TTL has expired.
    TtlExpired,
    /// No route covers the destination.
    NoRoute,
    /// The route is `unreachable`, or the next hop does not answer.
    HostUnreachable,
    /// The route is `prohibit`.
    Prohibited,
    /// This router does not support the packet's protocol.
    ProtocolUnreachable,
    /// No service listens on the packet's port.
    PortUnreachable,
    /// The packet is larger than this MTU (in bytes), and must not be fragmented.
    FragmentationNeeded(u16),
    /// The packet has a source route, and this router does not follow source routes.
    SourceRouteFailed,
    /// The header is invalid at this byte of the packet.
    ParameterProblem(u16),
    /// The source address is valid only on the link on which the packet was received (IPv6).
    BeyondScope,
    /// The option at this byte of the packet is not supported, and its type requires a report (IPv6).
    UnknownOption(u16),
    /// The packet is a first fragment that does not contain all headers (IPv6).
    IncompleteHeaders,
    /// A cause of a feature, by its position in [`Causes`].
    Feature(u8),
}

impl Cause {
    /// Returns the cause as a forwarding index. The kind is in the lowest 8 bits, and the MTU or the offset
    /// in the upper 16 bits.
    #[inline(always)]
    pub fn to_raw(self) -> u32 {
        match self {
            Cause::TtlExpired => 0,
            Cause::NoRoute => 1,
            Cause::HostUnreachable => 2,
            Cause::Prohibited => 3,
            Cause::ProtocolUnreachable => 4,
            Cause::PortUnreachable => 5,
            Cause::FragmentationNeeded(mtu) => 6 | u32::from(mtu) << 16,
            Cause::SourceRouteFailed => 7,
            Cause::ParameterProblem(at) => 8 | u32::from(at) << 16,
            Cause::BeyondScope => 9,
            Cause::UnknownOption(at) => 10 | u32::from(at) << 16,
            Cause::IncompleteHeaders => 11,
            Cause::Feature(at) => OF_FEATURES + u32::from(at),
        }
    }

    /// Returns the cause that is encoded in a forwarding index. Returns "no route" if the lowest 8 bits encode no cause.
    #[inline(always)]
    pub fn from_raw(raw: u32) -> Cause {
        match raw & 0xff {
            0 => Cause::TtlExpired,
            2 => Cause::HostUnreachable,
            3 => Cause::Prohibited,
            4 => Cause::ProtocolUnreachable,
            5 => Cause::PortUnreachable,
            6 => Cause::FragmentationNeeded((raw >> 16) as u16),
            7 => Cause::SourceRouteFailed,
            8 => Cause::ParameterProblem((raw >> 16) as u16),
            9 => Cause::BeyondScope,
            10 => Cause::UnknownOption((raw >> 16) as u16),
            11 => Cause::IncompleteHeaders,
            of @ OF_FEATURES..=0xff => Cause::Feature((of - OF_FEATURES) as u8),
            _ => Cause::NoRoute,
        }
    }
}

/// The rate limit for a kind of ICMP errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The limit that most ICMP errors share.
    Common,
    /// The limit for errors without which a connection hangs, such as "packet too big".
    Vital,
}

/// A feature's cause of ICMP errors: why packets are dropped, and which error their sources get.
#[derive(Clone, Copy, Debug)]
pub struct CauseInfo {
    /// The type of the ICMP error.
    pub kind: u8,
    /// The code of the ICMP error.
    pub code: u8,
    /// The rate limit for the ICMP errors.
    pub limit: Limit,
    /// The reason for which the packet is dropped.
    pub reason: &'static ReasonInfo,
}

/// The causes that features register while the graph is built. Clones share them.
#[derive(Clone, Default)]
pub struct Causes {
    all: Arc<Mutex<Vec<CauseInfo>>>,
    /// The drop reasons of the causes, in the same order as the causes.
    pub(crate) reasons: MoreReasons,
}

impl Causes {
    /// Registers a cause. To report it for a packet, a node sets the cause as the packet's forwarding index, and passes the packet to the
    /// node that sends ICMP errors.
    ///
    /// # Errors
    /// If there are too many causes, or another cause has a reason of the same name.
    pub fn register(&self, info: CauseInfo) -> Result<Cause, GraphError> {
        let mut all = self.all.lock().unwrap_or_else(|e| e.into_inner());
        let name = info.reason.name;
        if all.iter().any(|other| other.reason.name == name) {
            return Err(GraphError(format!(
                "a cause of ICMP errors with the name \"{name}\" is already registered"
            )));
        }
        if all.len() == MOST {
            return Err(GraphError(format!(
                "cannot register the cause of ICMP errors \"{name}\": features can register at most {MOST}"
            )));
        }
        all.push(info);
        Ok(Cause::Feature(self.reasons.add(info.reason) as u8))
    }

    /// Returns all causes.
    pub(crate) fn all(&self) -> Vec<CauseInfo> {
        self.all.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
}

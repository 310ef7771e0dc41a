//! Causes of ICMP errors.

/// Why a packet could not be delivered. The packet has the cause as its forwarding index on the way to the
/// node that reports it.
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
    /// This is the first fragment of a datagram whose other fragments did not arrive in time.
    ReassemblyTimeout,
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
            Cause::ReassemblyTimeout => 7,
            Cause::SourceRouteFailed => 8,
            Cause::ParameterProblem(at) => 9 | u32::from(at) << 16,
            Cause::BeyondScope => 10,
            Cause::UnknownOption(at) => 11 | u32::from(at) << 16,
            Cause::IncompleteHeaders => 12,
        }
    }

    /// Returns the cause that a forwarding index stands for. If its lowest 8 bits are not the kind of a
    /// cause, it counts as "no route".
    #[inline(always)]
    pub fn from_raw(raw: u32) -> Cause {
        match raw & 0xff {
            0 => Cause::TtlExpired,
            2 => Cause::HostUnreachable,
            3 => Cause::Prohibited,
            4 => Cause::ProtocolUnreachable,
            5 => Cause::PortUnreachable,
            6 => Cause::FragmentationNeeded((raw >> 16) as u16),
            7 => Cause::ReassemblyTimeout,
            8 => Cause::SourceRouteFailed,
            9 => Cause::ParameterProblem((raw >> 16) as u16),
            10 => Cause::BeyondScope,
            11 => Cause::UnknownOption((raw >> 16) as u16),
            12 => Cause::IncompleteHeaders,
            _ => Cause::NoRoute,
        }
    }
}

//! Why a packet is reported to its source.

/// Why a packet could not be delivered. Rides in the packet's forwarding index to the node that reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The time to live was used up.
    TtlExpired,
    /// No route covers the destination.
    NoRoute,
    /// The route says `unreachable`, or its next hop cannot be reached.
    HostUnreachable,
    /// The route says `prohibit`.
    Prohibited,
    /// This router does not speak the packet's protocol.
    ProtocolUnreachable,
    /// Nobody listens at the packet's port.
    PortUnreachable,
    /// The packet is larger than this MTU (bytes), and must not be fragmented.
    FragmentationNeeded(u16),
    /// Fragments of the datagram, whose first this is, did not come in time.
    ReassemblyTimeout,
    /// The packet wants to be routed by its source, which this router does not do.
    SourceRouteFailed,
    /// The header is wrong at this byte of the packet.
    ParameterProblem(u16),
    /// The source means something on the link only that the packet came from (IPv6).
    BeyondScope,
    /// Nobody here knows the option at this byte of the packet, which says that its source is to be told (IPv6).
    UnknownOption(u16),
    /// The packet is a first fragment that does not have all headers in it (IPv6).
    IncompleteHeaders,
}

impl Cause {
    /// As a forwarding index: the kind in the low byte, the MTU or the place in the high half.
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

    /// The cause behind a forwarding index; one that nobody wrote counts as "no route".
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

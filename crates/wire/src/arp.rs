//! ARP for IPv4 over Ethernet (RFC 826; probes and announcements RFC 5227).

use std::fmt;
use std::net::Ipv4Addr;

use crate::ethernet::ethertype;
use crate::field::{get, get16, get32, put};
use crate::mac::Mac;

/// Hardware type of Ethernet.
pub const HTYPE_ETHERNET: u16 = 1;

/// The operation of an ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Request: which station has the target protocol address? (1)
    Request,
    /// Reply: the sender has its protocol address. (2)
    Reply,
}

impl Operation {
    const fn code(self) -> u16 {
        match self {
            Operation::Request => 1,
            Operation::Reply => 2,
        }
    }
}

/// The reason why a packet is not an ARP packet for IPv4 over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArpError {
    /// The hardware type is not Ethernet, or hardware addresses are not 6 bytes long.
    Hardware,
    /// The protocol type is not IPv4, or protocol addresses are not 4 bytes long.
    Protocol,
    /// The operation is neither request nor reply.
    Operation,
}

impl fmt::Display for ArpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ArpError::Hardware => "ARP hardware is not Ethernet",
            ArpError::Protocol => "ARP protocol is not IPv4",
            ArpError::Operation => "ARP operation is neither request nor reply",
        })
    }
}

impl std::error::Error for ArpError {}

header! {
    /// An ARP packet with 6-byte hardware and 4-byte protocol addresses: valid only after [`check`](ArpPacket::check).
    ArpPacket, 28
}

impl ArpPacket {
    /// Returns a packet with this operation, sender and target.
    pub fn new(op: Operation, sender: (Mac, Ipv4Addr), target: (Mac, Ipv4Addr)) -> Self {
        let mut p = Self::zeroed();
        put::<0, 2, _>(&mut p.0, HTYPE_ETHERNET.to_be_bytes());
        put::<2, 2, _>(&mut p.0, ethertype::IPV4.to_be_bytes());
        put::<4, 2, _>(&mut p.0, [6, 4]);
        put::<6, 2, _>(&mut p.0, op.code().to_be_bytes());
        put::<8, 6, _>(&mut p.0, sender.0.0);
        put::<14, 4, _>(&mut p.0, sender.1.octets());
        put::<18, 6, _>(&mut p.0, target.0.0);
        put::<24, 4, _>(&mut p.0, target.1.octets());
        p
    }

    /// Returns a request for `target`. Send it to the broadcast address or, to refresh an entry, to the known Ethernet address.
    pub fn request(sender: Mac, sender_ip: Ipv4Addr, target: Ipv4Addr) -> Self {
        Self::new(Operation::Request, (sender, sender_ip), (Mac::ZERO, target))
    }

    /// Returns the reply to this request, in which `mac` is the Ethernet address of the requested IP address. Send the reply to the
    /// request's sender (RFC 826).
    pub fn reply(&self, mac: Mac) -> Self {
        Self::new(Operation::Reply, (mac, self.target_ip()), (self.sender_mac(), self.sender_ip()))
    }

    /// Returns an announcement of the address `ip` with the Ethernet address `mac`: a broadcast request for the sender's own
    /// address (RFC 5227 section 3).
    pub fn gratuitous(mac: Mac, ip: Ipv4Addr) -> Self {
        Self::request(mac, ip, ip)
    }

    /// Returns the operation, if this is an ARP packet for IPv4 over Ethernet.
    #[inline]
    pub const fn check(&self) -> Result<Operation, ArpError> {
        if self.htype() != HTYPE_ETHERNET || self.hlen() != 6 {
            return Err(ArpError::Hardware);
        }
        if self.ptype() != ethertype::IPV4 || self.plen() != 4 {
            return Err(ArpError::Protocol);
        }
        match self.op() {
            1 => Ok(Operation::Request),
            2 => Ok(Operation::Reply),
            _ => Err(ArpError::Operation),
        }
    }

    /// True if the packet is about its sender's own address (an announcement, as request or as reply).
    #[inline(always)]
    pub const fn is_gratuitous(&self) -> bool {
        self.sender_ip_u32() == self.target_ip_u32()
    }

    /// Hardware type.
    #[inline(always)]
    pub const fn htype(&self) -> u16 {
        get16::<0, _>(&self.0)
    }

    /// Protocol type, an [`ethertype`].
    #[inline(always)]
    pub const fn ptype(&self) -> u16 {
        get16::<2, _>(&self.0)
    }

    /// Length of a hardware address in bytes.
    #[inline(always)]
    pub const fn hlen(&self) -> u8 {
        self.0[4]
    }

    /// Length of a protocol address in bytes.
    #[inline(always)]
    pub const fn plen(&self) -> u8 {
        self.0[5]
    }

    /// Operation code.
    #[inline(always)]
    pub const fn op(&self) -> u16 {
        get16::<6, _>(&self.0)
    }

    /// The sender's Ethernet address.
    #[inline(always)]
    pub const fn sender_mac(&self) -> Mac {
        Mac(get::<8, 6, _>(&self.0))
    }

    /// The sender's IPv4 address.
    #[inline(always)]
    pub const fn sender_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.sender_ip_u32())
    }

    /// The sender's IPv4 address in host order.
    #[inline(always)]
    pub const fn sender_ip_u32(&self) -> u32 {
        get32::<14, _>(&self.0)
    }

    /// The target's Ethernet address; undefined in a request.
    #[inline(always)]
    pub const fn target_mac(&self) -> Mac {
        Mac(get::<18, 6, _>(&self.0))
    }

    /// The target's IPv4 address.
    #[inline(always)]
    pub const fn target_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.target_ip_u32())
    }

    /// The target's IPv4 address in host order.
    #[inline(always)]
    pub const fn target_ip_u32(&self) -> u32 {
        get32::<24, _>(&self.0)
    }
}

//! The two links of a testbed.
//!
//! ```text
//!   tester                              router
//!   0: 198.18.0.2, 2001:2::2 ────────── 198.18.0.1, 2001:2::1
//!   1: 198.19.0.2, 2001:2:0:8000::2 ─── 198.19.0.1, 2001:2:0:8000::1
//! ```
//!
//! The networks behind the tester's hosts are those of RFC 2544 (198.18.0.0/15, halved) and RFC 5180 (2001:2::/48, halved).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use wire::Mac;

use crate::engine::host::Hosts;

/// A link between the tester and the tested router.
#[derive(Clone, Debug)]
pub struct Link {
    /// The tester's interface.
    pub tester: String,
    /// Ethernet address of the tester's interface.
    pub tester_mac: Mac,
    /// The name of the router's interface, as the router calls it. For memif: the path of the socket on which the tester listens; the
    /// interface ID is 0.
    pub router: String,
    /// Ethernet address of the router's interface.
    pub router_mac: Mac,
    /// In IPv4: the router's address with the prefix length of the link, and the network behind the tester's host.
    pub ipv4: (IpNet, IpNet),
    /// In IPv6: the router's address with the prefix length of the link, and the network behind the tester's host.
    pub ipv6: (IpNet, IpNet),
}

impl Link {
    /// Makes link 0 (`t0` to `d0`) or link 1 (`t1` to `d1`).
    pub(super) fn new(n: u8) -> Link {
        let half = u16::from(n) << 15;
        let v4 = |c, len| IpNet::new_assert(Ipv4Addr::new(198, 18 + n, 0, c).into(), len);
        let v6 = |host, len| IpNet::new_assert(Ipv6Addr::new(0x2001, 2, 0, half, 0, 0, 0, host).into(), len);
        Link {
            tester: format!("t{n}"),
            tester_mac: Mac([2, 0x54, 0, 0, 0, n]),
            router: format!("d{n}"),
            router_mac: Mac([2, 0x44, 0, 0, 0, n]),
            ipv4: (v4(1, 24), v4(0, 16)),
            ipv6: (v6(1, 64), v6(0, 49)),
        }
    }

    /// Returns the tester's hosts on the link, for IPv4 and IPv6. They are the next hops to the networks behind them.
    pub fn hosts(&self) -> [IpAddr; 2] {
        [self.ipv4.0, self.ipv6.0].map(|net| match net.addr() {
            IpAddr::V4(a) => Ipv4Addr::from_bits(a.to_bits() + 1).into(),
            IpAddr::V6(a) => IpAddr::from(Ipv6Addr::from_bits(a.to_bits() + 1)),
        })
    }

    /// Returns for IPv4 and IPv6: the router's address on the link, the network behind the tester's host, and that host.
    pub fn families(&self) -> [(IpNet, IpNet, IpAddr); 2] {
        let [v4, v6] = self.hosts();
        [(self.ipv4.0, self.ipv4.1, v4), (self.ipv6.0, self.ipv6.1, v6)]
    }

    /// Returns the hosts that the tester answers for on this link.
    pub(super) fn answering(&self) -> Hosts {
        Hosts {
            mac: self.tester_mac,
            networks: vec![self.ipv4.0.trunc(), self.ipv6.0.trunc()],
            except: vec![self.ipv4.0.addr(), self.ipv6.0.addr()],
        }
    }
}

/// Returns both links.
pub(crate) fn links() -> [Link; 2] {
    [0, 1].map(Link::new)
}

/// Sets the router's Ethernet address of each link to the tester's address on the other link. This is for a cable between the tester's two
/// ends, without a router.
pub(super) fn crossed(links: &mut [Link; 2]) {
    let [a, b] = links;
    // Frames to a router's address must reach the other end.
    (a.router_mac, b.router_mac) = (b.tester_mac, a.tester_mac);
}

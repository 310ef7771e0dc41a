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

/// One link between the tester and what is tested.
#[derive(Clone, Debug)]
pub struct Link {
    /// The tester's interface.
    pub tester: String,
    /// Its Ethernet address.
    pub tester_mac: Mac,
    /// The router's interface, as the router knows it; of memif the socket that the tester listens on, for the interface with number 0.
    pub router: String,
    /// Its Ethernet address.
    pub router_mac: Mac,
    /// The router's address and the network on the link, and what lies behind the tester's host there.
    pub ipv4: (IpNet, IpNet),
    /// The same of IPv6.
    pub ipv6: (IpNet, IpNet),
}

impl Link {
    /// Link 0 or 1, between `t0` and `d0` or between `t1` and `d1`.
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

    /// The tester's host on the link, of both families: the next hop to what lies behind it.
    pub fn hosts(&self) -> [IpAddr; 2] {
        [self.ipv4.0, self.ipv6.0].map(|net| match net.addr() {
            IpAddr::V4(a) => Ipv4Addr::from_bits(a.to_bits() + 1).into(),
            IpAddr::V6(a) => IpAddr::from(Ipv6Addr::from_bits(a.to_bits() + 1)),
        })
    }

    /// Of both families: the router's address on the link, what lies behind the tester's host, and that host.
    pub fn families(&self) -> [(IpNet, IpNet, IpAddr); 2] {
        let [v4, v6] = self.hosts();
        [(self.ipv4.0, self.ipv4.1, v4), (self.ipv6.0, self.ipv6.1, v6)]
    }

    /// Who answers at the tester's end.
    pub(super) fn answering(&self) -> Hosts {
        Hosts {
            mac: self.tester_mac,
            networks: vec![self.ipv4.0.trunc(), self.ipv6.0.trunc()],
            except: vec![self.ipv4.0.addr(), self.ipv6.0.addr()],
        }
    }
}

/// Both of them.
pub(crate) fn links() -> [Link; 2] {
    [0, 1].map(Link::new)
}

/// Two links of which the far end of each is the near end of the other: without a router.
pub(super) fn crossed(links: &mut [Link; 2]) {
    let [a, b] = links;
    // The other end takes what is sent to a router.
    (a.router_mac, b.router_mac) = (b.tester_mac, a.tester_mac);
}

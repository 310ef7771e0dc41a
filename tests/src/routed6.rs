//! The topology of [`Routed`](crate::Routed) with IPv6.

use testkit::netns::{Host, LIMIT, Lab};
use testkit::router::Router;

use crate::Ping;

/// Commands that set up both ports with their IPv6 addresses.
pub const TWO_PORTS6: &str = "\
create host-interface name eth0
create host-interface name eth1
set interface state host-eth0 up
set interface state host-eth1 up
set interface ip address host-eth0 2001:db8::1/64
set interface ip address host-eth1 2001:db8:1::1/64
";

/// Host `a` (2001:db8::2) — router (2001:db8::1 on eth0, 2001:db8:1::1 on eth1) — host `b` (2001:db8:1::2), over veth.
#[derive(Debug)]
pub struct Routed6 {
    /// The router. The first field, so that it ends before its links are removed.
    pub router: Router,
    /// The host at the router's eth0.
    pub a: Host,
    /// The host at the router's eth1.
    pub b: Host,
    /// The namespace that the router runs in.
    pub r: Host,
}

impl Routed6 {
    /// Sets up the topology, starts the router, and waits until both hosts are its neighbors. `None` if namespaces are not
    /// available (reported as skipped).
    pub fn new() -> Option<Routed6> {
        let (a, r, b) = cabled6()?;
        address6(&a, "2001:db8::2/64", "2001:db8::1");
        address6(&b, "2001:db8:1::2/64", "2001:db8:1::1");
        let router = Router::start(&r, TWO_PORTS6);
        // The router uses its addresses after Duplicate Address Detection.
        Ping::until_answered(&a, "2001:db8::1", LIMIT);
        Ping::until_answered(&a, "2001:db8:1::2", LIMIT);
        Some(Routed6 { router, a, b, r })
    }
}

/// Sets up the hosts of [`Routed6`] with cables, but without addresses and router. Returns `(a, r, b)`; `None` if namespaces are not
/// available (reported as skipped).
pub fn cabled6() -> Option<(Host, Host, Host)> {
    let lab = Lab::new()?;
    let (a, r, b) = (lab.host("a"), lab.host("r"), lab.host("b"));
    lab.link((&a, "eth0"), (&r, "eth0"));
    lab.link((&b, "eth0"), (&r, "eth1"));
    Some((a, r, b))
}

/// Enables IPv6 on a host's eth0.
pub fn speaks6(host: &Host) {
    host.run("sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0 net.ipv6.conf.lo.disable_ipv6=0");
}

/// Enables IPv6 on a host's eth0, and sets an address and a default route.
pub fn address6(host: &Host, address: &str, gateway: &str) {
    speaks6(host);
    host.run(&format!("ip -6 addr add {address} dev eth0 nodad"));
    host.run(&format!("ip -6 route add default via {gateway}"));
}

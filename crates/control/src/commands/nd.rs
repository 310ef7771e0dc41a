//! Router advertisements.

use std::net::{IpAddr, Ipv6Addr};

use net::nd::advertiser::Interval;
use net::nd::{Advertisement, Preference};

use super::interface::change;
use super::{Context, Output};
use crate::cli::{Args, CliError, Registry};

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add(
        "ip6 nd <interface:interface> [no] {ra-suppress | ra-managed-config-flag | ra-other-config-flag | ra-dns <server:ip>}",
        "Say what hosts on the link are told of the router. They are told nothing until something is said, or \"no ra-suppress\".",
        set,
    );
    r.add(
        "ip6 nd <interface:interface> ra-interval <max:u16> [<min:u16>]",
        "Set the longest and the shortest time between two router advertisements, in seconds.",
        |c, a| {
            let max: u16 = a.need("max")?;
            let min = a.get::<u16>("min").unwrap_or_else(|| (max / 3).max(3));
            let interval =
                Interval::new(min.into(), max.into()).map_err(|e| a.fault("max", e.to_string()))?;
            advertise(c, a, |says| says.interval = interval)
        },
    );
    r.add(
        "ip6 nd <interface:interface> ra-lifetime <lifetime:u16>",
        "Set how long hosts may take the router for their default router, in seconds; 0: not at all.",
        |c, a| {
            let lifetime = a.need("lifetime")?;
            advertise(c, a, |says| says.lifetime = lifetime)
        },
    );
    r.add(
        "ip6 nd <interface:interface> ra-preference {low | medium | high}",
        "Set whether hosts should prefer the router to others (RFC 4191).",
        |c, a| {
            let preference = match (a.has("low"), a.has("high")) {
                (true, _) => Preference::Low,
                (_, true) => Preference::High,
                _ => Preference::Medium,
            };
            advertise(c, a, |says| says.preference = preference)
        },
    );
}

/// Changes what hosts are told; they are told something from then on.
fn advertise(c: &mut Context, a: &Args, f: impl FnOnce(&mut Advertisement)) -> Result<Output, CliError> {
    change(c, a, "interface", |i| f(i.advertisement.get_or_insert_default()))
}

fn set(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let on = !a.has("no");
    if a.has("ra-suppress") {
        return match on {
            true => change(c, a, "interface", |i| i.advertisement = None),
            false => advertise(c, a, |_| ()),
        };
    }
    let server = match a.get::<IpAddr>("server") {
        Some(IpAddr::V6(server)) => Some(server),
        Some(IpAddr::V4(_)) => {
            return Err(a.fault("server", "hosts are told of servers by IPv6 addresses here"));
        }
        None => None,
    };
    let (managed, other) = (a.has("ra-managed-config-flag"), a.has("ra-other-config-flag"));
    advertise(c, a, |says| {
        if managed {
            says.managed = on;
        }
        if other {
            says.other = on;
        }
        if let Some(server) = server {
            says.dns.retain(|s: &Ipv6Addr| *s != server);
            says.dns.extend(on.then_some(server));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::Cli;

    #[test]
    fn advertisements_are_configured_and_kept() {
        let mut cli = Cli::new();
        let lines = [
            "ip6 nd pg0 no ra-suppress",
            "ip6 nd pg0 ra-interval 30 10",
            "ip6 nd pg0 ra-lifetime 90",
            "ip6 nd pg0 ra-managed-config-flag",
            "ip6 nd pg0 ra-preference high",
            "ip6 nd pg0 ra-dns 2001:db8::53",
        ];
        for line in lines {
            cli.ok(line);
        }
        let config = cli.ok("show config");
        assert!(lines.iter().all(|line| config.contains(&format!("{line}\n"))), "{config}");
        let yaml = cli.ok("show config yaml");
        assert!(yaml.contains("    router-advertisement:\n      interval: [ 10, 30 ]\n"), "{yaml}");
        cli.ok("ip6 nd pg0 no ra-managed-config-flag");
        assert!(!cli.ok("show config").contains("managed"));
        cli.refused("ip6 nd pg0 ra-interval 2", "2");
        cli.refused("ip6 nd pg0 ra-dns 192.0.2.53", "192.0.2.53");
        cli.ok("ip6 nd pg0 ra-suppress");
        assert!(!cli.ok("show config").contains("ip6 nd"));
    }

    #[test]
    fn addresses_are_used_by_others_and_answered_for() {
        let mut cli = Cli::new();
        cli.ok("create loopback interface");
        cli.ok("set interface ip address loop0 192.0.2.1/32");
        cli.ok("set interface unnumbered pg1 use loop0");
        cli.ok("set interface proxy-arp pg1 enable");
        cli.ok("set urpf ip6 rx strict pg1");
        let config = cli.ok("show config");
        for line in [
            "set interface unnumbered pg1 use loop0",
            "set interface proxy-arp pg1 enable",
            "set urpf ip6 rx strict pg1",
        ] {
            assert!(config.contains(&format!("{line}\n")), "{config}");
        }
        let yaml = cli.ok("show config yaml");
        assert!(
            ["unnumbered: loop0", "proxy-arp: true", "urpf6: strict"].iter().all(|l| yaml.contains(l)),
            "{yaml}"
        );
        let told = cli.refused("set interface ip address pg1 10.7.0.1/24", "10.7.0.1/24");
        assert!(told.contains("pg1 uses the addresses of loop0"), "{told}");
        cli.refused("set interface unnumbered loop0 use pg1", "loop0");
        cli.ok("create loopback interface");
        let told = cli.refused("set interface unnumbered loop1 use pg1", "loop1");
        assert!(told.contains("pg1 uses the addresses of loop0 itself"), "{told}");
        cli.ok("ip table add 7");
        assert!(cli.run("set interface ip table pg1 7").is_err(), "they are in one table");
        cli.ok("set interface unnumbered del pg1");
        cli.ok("set interface ip address pg1 10.7.0.1/24");
    }
}

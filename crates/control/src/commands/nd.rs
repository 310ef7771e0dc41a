//! Router advertisements.

use std::net::{IpAddr, Ipv6Addr};

use net::ip::Prefix6;
use net::nd::advertiser::Interval;
use net::nd::{Advertisement, BadAdvice, Preference, PrefixAdvice};

use super::interface::change;
use crate::app::{Context, Output};
use crate::cli::{Args, CliError, Registry};
use crate::intent::Find;

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add(
        "ip6 nd <interface:interface> [no] {ra-suppress | ra-managed-config-flag | ra-other-config-flag | ra-dns <server:ip>}",
        "Set the router advertisements on an interface. The first setting, or \"no ra-suppress\", starts them. \"ra-suppress\" \
         stops them and keeps the settings.",
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
        "Set how long hosts may use the router as a default router, in seconds; 0: not at all.",
        |c, a| {
            let lifetime = a.need("lifetime")?;
            advertise(c, a, |says| says.lifetime = lifetime)
        },
    );
    r.add(
        "ip6 nd <interface:interface> prefix <prefix:prefix6> [{<valid:u32> <preferred:u32> | infinite | default}] \
         [off-link] [no-onlink] [no-autoconfig] [no-advertise]",
        "Set the advertisement of a prefix: its valid and preferred lifetimes in seconds; not on-link (off-link or no-onlink), no \
         address autoconfiguration, or no advertisement at all. Connected prefixes are advertised with defaults anyway.",
        prefix,
    );
    // As in VPP, the options are ignored.
    r.add(
        "ip6 nd <interface:interface> no prefix <prefix:prefix6> [{<valid:u32> <preferred:u32> | infinite | default}] \
         [off-link] [no-onlink] [no-autoconfig] [no-advertise]",
        "Remove this prefix's advertisement settings. Connected prefixes are still advertised with defaults.",
        no_prefix,
    );
    r.add(
        "ip6 nd <interface:interface> ra-preference {low | medium | high}",
        "Set the preference of the router among default routers (RFC 4191).",
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

/// Changes the router advertisements. The first change starts them, unless they are suppressed.
fn advertise(c: &mut Context, a: &Args, f: impl FnOnce(&mut Advertisement)) -> Result<Output, CliError> {
    change(c, a, "interface", |i| f(i.advertisement.get_or_insert_default()))
}

fn set(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let on = !a.has("no");
    if a.has("ra-suppress") {
        return match on {
            // Also before other settings: later settings are kept, but nothing is sent.
            true => change(c, a, "interface", |i| {
                i.advertisement.get_or_insert_default();
                i.ra_suppressed = true;
            }),
            false => change(c, a, "interface", |i| {
                i.advertisement.get_or_insert_default();
                i.ra_suppressed = false;
            }),
        };
    }
    let server = match a.get::<IpAddr>("server") {
        Some(IpAddr::V6(server)) => Some(server),
        Some(IpAddr::V4(_)) => {
            return Err(a.fault("server", "a DNS server in router advertisements needs an IPv6 address"));
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

/// Returns the prefix of a command.
fn named(a: &Args) -> Result<Prefix6, CliError> {
    let prefix = super::route::exact(a, "prefix")?.of::<Ipv6Addr>();
    prefix.ok_or_else(|| a.fault("prefix", "only IPv6 prefixes can be advertised"))
}

fn prefix(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let (prefix, usual) = (named(a)?, PrefixAdvice::default());
    let lifetime = |name: &str, usual| match a.has("infinite") {
        true => PrefixAdvice::INFINITE,
        false => a.get::<u32>(name).unwrap_or(usual),
    };
    let advice = PrefixAdvice {
        advertised: !a.has("no-advertise"),
        on_link: !a.has("off-link") && !a.has("no-onlink"),
        autonomous: !a.has("no-autoconfig"),
        valid: lifetime("valid", usual.valid),
        preferred: lifetime("preferred", usual.preferred),
    };
    let about = |e| if e == BadAdvice::Lifetimes { "preferred" } else { "prefix" };
    Advertisement::check(prefix, &advice).map_err(|e| a.fault(about(e), e.to_string()))?;
    advertise(c, a, |says| _ = says.prefixes.insert(prefix, advice))
}

fn no_prefix(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let (prefix, name) = (named(a)?, a.need::<String>("interface")?);
    let says = c.store.interface(&name).and_then(|i| i.advertisement.as_ref());
    if !says.is_some_and(|says| says.prefixes.contains_key(&prefix)) {
        return Err(a.fault("prefix", format!("{name} has no settings for {prefix}")));
    }
    advertise(c, a, |says| _ = says.prefixes.remove(&prefix))
}

#[cfg(test)]
mod tests {
    use crate::testing::Cli;

    #[test]
    fn advertised_prefixes_are_configured_and_kept() {
        let mut cli = Cli::new();
        cli.ok("set interface ip address pg0 2001:db8::1/64");
        // As typed, and as shown.
        let mut lines = [
            ("prefix 2001:db8::/64 3600 600 no-autoconfig", "prefix 2001:db8::/64 3600 600 no-autoconfig"),
            ("prefix 2001:db8:1::/64 default", "prefix 2001:db8:1::/64"),
            (
                "prefix 2001:db8:2::/64 infinite no-onlink no-advertise",
                "prefix 2001:db8:2::/64 infinite off-link no-advertise",
            ),
            ("prefix 2001:db8:3::/48 4294967295 0 off-link", "prefix 2001:db8:3::/48 4294967295 0 off-link"),
            ("prefix 2001:db8:4::/64 2592000 604800", "prefix 2001:db8:4::/64"),
        ];
        lines.iter().for_each(|(line, _)| drop(cli.ok(&format!("ip6 nd pg0 {line}"))));
        let config = cli.ok("show config");
        let shown: Vec<&str> = config.lines().filter_map(|l| l.strip_prefix("ip6 nd pg0 prefix ")).collect();
        lines.sort_by_key(|(_, shown)| shown.contains("/64"));
        assert_eq!(shown.len(), lines.len(), "{config}");
        for (_, line) in lines {
            assert!(config.contains(&format!("ip6 nd pg0 {line}\n")), "{line} is not in\n{config}");
        }
        let yaml = cli.ok("show config yaml");
        for line in [
            "\"2001:db8::/64\": { valid: 3600, preferred: 600, autoconfig: false }",
            "\"2001:db8:1::/64\": {}",
            "\"2001:db8:2::/64\": { valid: infinite, preferred: infinite, on-link: false, advertise: false }",
            "\"2001:db8:3::/48\": { valid: infinite, preferred: 0, on-link: false }",
        ] {
            assert!(yaml.contains(&format!("        {line}\n")), "{line} is not in\n{yaml}");
        }
        let told = cli.ok("show ip6 interface pg0");
        for line in [
            "  advertises itself every 200 to 600 s, a default router for 1800 s\n",
            "    2001:db8::/64: valid 3600 s, preferred 600 s, on-link\n",
            "    2001:db8:1::/64: valid 2592000 s, preferred 604800 s, on-link, autoconfig\n",
            "    2001:db8:3::/48: valid infinite, preferred 0 s\n",
        ] {
            assert!(told.contains(line), "{line} is not in\n{told}");
        }
        assert!(!told.contains("2001:db8:2::/64"), "{told}");
        let prefixes = &cli.json("show ip6 interface pg0")[0]["advertises"]["prefixes"];
        assert_eq!(
            (&prefixes[0]["valid_seconds"], &prefixes[0]["autonomous"]),
            (&3600.into(), &false.into()),
            "{prefixes}"
        );
        cli.ok("ip6 nd pg0 no prefix 2001:db8::/64 3600 600 no-autoconfig");
        assert!(cli.ok("show ip6 interface pg0").contains("    2001:db8::/64: valid 2592000 s"));
        cli.ok("config rollback");
        assert_eq!(cli.ok("show config"), config);
        for (line, place, why) in [
            ("prefix 2001:db8::/64 600 3600", "3600", "longer than the valid lifetime"),
            ("prefix fe80::/64", "fe80::/64", "link-local"),
            ("prefix fe00::/8", "fe00::/8", "link-local"),
            ("prefix ff05::/16", "ff05::/16", "multicast"),
            ("prefix 2001:db8:1::77/64", "2001:db8:1::77/64", "did you mean 2001:db8:1::/64?"),
            ("prefix ::/0", "::/0", "must be 1 to 128"),
            ("prefix 2001:db8::/129", "2001:db8::/129", "does not fit"),
            ("prefix 10.0.0.0/8", "10.0.0.0/8", "does not fit"),
            ("prefix 2001:db8::/64 4294967296 1", "4294967296", "is not a number from 0 to 4294967295"),
            ("no prefix 2001:db8:9::/64", "2001:db8:9::/64", "pg0 has no settings for"),
        ] {
            let told = cli.refused(&format!("ip6 nd pg0 {line}"), place);
            assert!(told.contains(why), "{line}: {told}");
        }
        cli.refused("ip6 nd pg1 no prefix 2001:db8::/64", "2001:db8::/64");
        assert!(!cli.ok("show config").contains("ip6 nd pg1"), "a refused command enables nothing");
    }

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
    }

    #[test]
    fn suppressed_advertisements_keep_their_settings() {
        let mut cli = Cli::new();
        cli.ok("set interface ip address pg0 2001:db8::1/64");
        for line in
            ["no ra-suppress", "ra-interval 30 10", "ra-dns 2001:db8::53", "prefix 2001:db8:1::/64 infinite"]
        {
            cli.ok(&format!("ip6 nd pg0 {line}"));
        }
        let told =
            |cli: &Cli| cli.context.system.router.interface_named("pg0").unwrap().advertisement.clone();
        let (config, before) = (cli.ok("show config"), told(&cli));
        assert!(before.is_some());
        cli.ok("ip6 nd pg0 ra-suppress");
        assert_eq!(told(&cli), None);
        assert_eq!(cli.ok("show config"), config.replace("no ra-suppress", "ra-suppress"));
        assert!(cli.ok("show config yaml").contains("router-advertisement:\n      suppress: true\n"));
        let shown = cli.ok("show ip6 interface pg0");
        assert!(shown.contains("  advertises nothing: router advertisements are suppressed\n"), "{shown}");
        // Settings made meanwhile are kept, too.
        cli.ok("ip6 nd pg0 ra-lifetime 90");
        assert_eq!(told(&cli), None);
        cli.ok("ip6 nd pg0 no ra-suppress");
        let mut after = before.unwrap();
        after.lifetime = 90;
        assert_eq!(told(&cli), Some(after));
    }

    #[test]
    fn show_gives_the_reason_for_missing_advertisements() {
        let mut cli = Cli::new();
        cli.ok("ip6 nd pg0 prefix 2001:db8::/64");
        let why = |cli: &mut Cli| {
            let shown = cli.ok("show ip6 interface pg0");
            let json = cli.json("show ip6 interface pg0")[0]["not_advertised"].clone();
            let line =
                shown.lines().find_map(|l| l.strip_prefix("  advertises nothing: ").map(str::to_owned));
            assert_eq!(line.as_deref(), json.as_str(), "{shown}");
            line
        };
        let said = why(&mut cli).unwrap_or_default();
        assert!(
            said.contains("IPv6 is not enabled: add an IPv6 address, or run enable ip6 interface pg0"),
            "{said}"
        );
        assert!(
            cli.ok("show ip6 interface").contains("advertises nothing"),
            "also in the list of all interfaces"
        );
        cli.ok("enable ip6 interface pg0");
        cli.ok("set interface state pg0 down");
        assert_eq!(why(&mut cli).as_deref(), Some("the interface is down"));
        cli.ok("set interface state pg0 up");
        assert_eq!(why(&mut cli).as_deref(), Some("its link-local address is not in use yet"));
        cli.refused("show ip6 interface pg1", "pg1");
    }

    #[test]
    fn unnumbered_proxy_arp_and_urpf_are_configured() {
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
        assert!(cli.run("set interface ip table pg1 7").is_err(), "both must be in one table");
        cli.ok("set interface unnumbered del pg1");
        cli.ok("set interface ip address pg1 10.7.0.1/24");
    }
}

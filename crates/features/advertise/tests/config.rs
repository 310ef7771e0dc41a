//! Tests with random settings of router advertisements: commands and files reproduce them, and earlier settings have no influence.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use advertise::{Advertised, Advertisement, Advice, Interval, Preference, PrefixAdvice};
use control::testing::Cli;
use net::feature::{App, Configured};
use net::ip::Prefix6;
use proptest::prelude::*;

fn cli() -> Cli {
    Cli::with(&[&advertise::Feature])
}

/// Generates router advertisements.
fn advertisement() -> impl Strategy<Value = Box<Advertisement>> {
    let interval = prop::option::of((3u64..5, 7u64..9))
        .prop_map(|times| times.map_or(Interval::default(), |(min, max)| Interval::new(min, max).unwrap()));
    let preference = prop::sample::select(vec![Preference::Low, Preference::Medium, Preference::High]);
    let dns = prop::sample::subsequence(
        vec![Ipv6Addr::LOCALHOST, Ipv6Addr::from_bits(0x2001_0db8 << 96 | 0x53)],
        0..3,
    );
    let flags = (any::<bool>(), any::<bool>(), 0u16..9);
    (interval, preference, dns, flags, advice()).prop_map(
        |(interval, preference, dns, (managed, other, lifetime), prefixes)| {
            Box::new(Advertisement { interval, lifetime, managed, other, preference, dns, prefixes })
        },
    )
}

/// Generates prefix settings, some for networks of the interfaces.
fn advice() -> impl Strategy<Value = BTreeMap<Prefix6, PrefixAdvice>> {
    let prefix = (0u128..4, prop::sample::select(vec![48, 64]));
    let prefix =
        prefix.prop_map(|(n, len)| Prefix6::new(Ipv6Addr::from_bits(0x2001_0db8 << 96 | n << 64), len));
    let lifetime = || prop::sample::select(vec![0, 1, 600_000, PrefixAdvice::INFINITE]);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let advice = (flags, lifetime(), lifetime());
    let advice = advice.prop_map(|((advertised, on_link, autonomous), one, other)| PrefixAdvice {
        advertised,
        on_link,
        autonomous,
        valid: one.max(other),
        preferred: one.min(other),
    });
    prop::collection::btree_map(prefix, advice, 0..3)
}

/// Generates settings of an interface, half of them the default.
fn any_advice() -> impl Strategy<Value = Advice> {
    let says = (advertisement(), any::<bool>());
    prop::option::of(says).prop_map(|says| match says {
        Some((says, suppressed)) => Advice { says: Some(says), suppressed },
        None => Advice::default(),
    })
}

fn set(cli: &mut Cli, advice: &Advice) {
    cli.context.change_setting("pg0", |now: &mut Advice| *now = advice.clone()).unwrap();
}

fn configured(cli: &Cli) -> Advice {
    cli.context.configured("pg0").unwrap()
}

/// Returns what the router advertises; `None` if it advertises nothing.
fn sent(cli: &Cli) -> Option<Advertisement> {
    let Advertised(says) = cli.context.system.router.setting(1);
    says.map(|says| Advertisement::clone(&says))
}

/// Checks that the commands of `show config`, and a file, give this configuration to another router.
fn is_reproduced(cli: &mut Cli) {
    let (config, yaml) = (cli.ok("show config"), cli.yaml());
    let mut by_commands = self::cli();
    config.lines().filter(|line| line.starts_with("ip6 nd")).for_each(|line| drop(by_commands.ok(line)));
    let mut by_file = self::cli();
    by_file.apply(&yaml).unwrap();
    for mut again in [by_commands, by_file] {
        assert_eq!(configured(&again), configured(cli), "{config}{yaml}");
        assert_eq!((again.ok("show config"), sent(&again)), (config.clone(), sent(cli)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn settings_are_reproduced_whatever_was_set_before(all in prop::collection::vec(any_advice(), 1..5)) {
        let mut cli = cli();
        let mut before = Vec::new();
        for advice in &all {
            before.push(cli.yaml());
            set(&mut cli, advice);
            prop_assert_eq!(&configured(&cli), advice);
            prop_assert_eq!(sent(&cli), advice.says.as_deref().filter(|_| !advice.suppressed).cloned());
        }
        is_reproduced(&mut cli);
        let (last, after) = (before.pop().unwrap(), cli.yaml());
        if after != last {
            cli.ok("config rollback");
            prop_assert_eq!(cli.yaml(), last);
        }
    }
}

#[test]
fn each_field_of_a_file_is_read_as_written() {
    let mut cli = cli();
    let examples = Advice::examples();
    assert!(examples.len() > 10, "{examples:?}");
    for advice in examples {
        set(&mut cli, &advice);
        is_reproduced(&mut cli);
    }
}

#[test]
fn faults_of_a_file_are_reported_with_their_places() {
    let mut cli = cli();
    let before = cli.yaml();
    for (fields, why) in [
        ("interval: [ 200 ]", "expected two times in seconds"),
        ("interval: [ 600, 200 ]", "the shortest must be"),
        ("preference: urgent", "urgent"),
        ("dns: [ 192.0.2.1 ]", "is not an IPv6 address"),
        ("prefixes: { \"fe80::/64\": {} }", "link-local"),
        ("prefixes: { \"2001:db8::1/64\": {} }", "did you mean 2001:db8::/64?"),
        ("prefixes: { \"2001:db8::/64\": { valid: 1, preferred: 2 } }", "longer than the valid lifetime"),
        ("forever: true", "forever"),
    ] {
        let text = format!("interfaces:\n  pg0:\n    router-advertisement: {{ {fields} }}\n");
        let told = cli.apply(&text).unwrap_err();
        assert!(told.contains("3:") && told.contains(why), "{fields}: {told}");
    }
    assert_eq!(cli.yaml(), before);
}

/// Other front ends may request values that neither commands nor files can express.
#[test]
fn invalid_prefixes_are_refused_from_any_front_end() {
    let mut cli = cli();
    let prefix = Prefix6::new(Ipv6Addr::from_bits(0xfe80 << 112), 64);
    let told = cli.context.change_setting("pg0", |advice: &mut Advice| {
        advice.says.get_or_insert_default().prefixes.insert(prefix, PrefixAdvice::default());
    });
    let told = told.unwrap_err().to_string();
    assert!(told.contains("fe80::/64: the link-local prefix"), "{told}");
    assert_eq!(configured(&cli), Advice::default());
    assert!(cli.context.configured::<Advice>("pg9").is_err());
}

#[test]
fn interfaces_that_only_receive_cannot_advertise() {
    let mut cli = cli();
    cli.ok("create sub-interfaces pg0 5 dot1q any exact-match");
    let told = cli.refused("ip6 nd pg0.5 no ra-suppress", "pg0.5");
    assert!(told.contains("only receives"), "{told}");
}

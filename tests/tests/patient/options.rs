//! IPv4 options in packets through the router and to it.

use scenarios::{Ping, Routed, echo};

#[test]
fn ping_shows_the_recorded_route() {
    let Some(Routed { a, router: _router, .. }) = Routed::new() else { return };
    let recorded = |target: &str| {
        let text = Ping::run(&a, &format!("-R -c 1 -W 2 {target}")).text;
        let from = text.find("RR:").unwrap_or_else(|| panic!("no route was recorded: {text}"));
        let addresses = text[from + 3..].lines().map(str::trim).take_while(|line| !line.is_empty());
        addresses.map(str::to_string).collect::<Vec<_>>()
    };
    // Linux records its own address in its answer, once or twice.
    let route = recorded("10.0.1.2");
    assert_eq!(route[..3], ["10.0.0.2", "10.0.1.1", "10.0.1.2"], "{route:?}");
    assert!(route.contains(&"10.0.0.1".to_string()), "the way back: {route:?}");
    let route = recorded("10.0.0.1");
    assert_eq!(route[..2], ["10.0.0.2", "10.0.0.1"], "{route:?}");
}

#[test]
fn ping_shows_the_time_stamps() {
    let Some(Routed { a, router: _router, .. }) = Routed::new() else { return };
    let text = Ping::run(&a, "-T tsandaddr -c 1 -W 2 10.0.1.2").text;
    // All namespaces have the same clock, so the time stamps are close to each other.
    let stamps = text.split("TS:").nth(1).unwrap_or_else(|| panic!("no time was stamped: {text}"));
    let lines: Vec<Vec<&str>> = stamps.lines().map(|line| line.split_whitespace().collect()).collect();
    let ours = lines.iter().find(|words| words.first() == Some(&"10.0.1.1"));
    let offset: i64 = ours.and_then(|words| words.get(1)?.parse().ok()).unwrap_or_else(|| panic!("{text}"));
    assert!((0..2000).contains(&offset), "milliseconds after the first stamp: {text}");
}

#[test]
fn a_source_route_is_refused() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    for (kind, target) in [("83", "10.0.1.2"), ("89", "10.0.1.2"), ("83", "10.0.0.1")] {
        let answer = echo(&a, &format!("10.0.0.2 {target} --options {kind}07040a00010200"));
        assert_eq!(answer, "error 3 5 0", "source route failed");
    }
    assert_eq!(router.drops("ip4-icmp-error", "source-route"), 3);
}

#[test]
fn malformed_options_are_reported_with_their_place() {
    let Some(Routed { a, router, .. }) = Routed::new() else { return };
    for (options, at) in
        [("07000400", 21), ("01010182", 23), ("8263000000000000", 21), ("0707030000000000", 22)]
    {
        let answer = echo(&a, &format!("10.0.0.2 10.0.1.2 --options {options}"));
        assert_eq!(answer, format!("error 12 0 {}", at << 24), "{options}");
    }
    assert_eq!(router.drops("ip4-icmp-error", "bad-options"), 4);
    // An unknown option passes unchanged, both ways.
    assert!(echo(&a, "10.0.0.2 10.0.1.2 --options 9e04123401010101 --size 9").starts_with("reply 9 ok"));
}

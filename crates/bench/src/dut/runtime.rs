//! Clocks spent in each node as Volley and VPP show them, and the share of lookup nodes in all clocks (Okelmann 2019, section 6.3.4).

/// CLI command that shows the time of each node.
pub const RUNTIME: &str = "show runtime";

/// Counter of the clocks spent in lookup nodes.
const LOOKUPS: &str = "lookup clocks";
/// Counter of the clocks spent in all nodes with packets.
const NODES: &str = "node clocks";

/// Returns the lookup and node clocks as counters; empty if no node had packets.
pub fn clocks(runtime: &str) -> Vec<(String, String)> {
    let (mut lookups, mut all) = (0.0, 0.0);
    for (name, clocks) in runtime.lines().filter_map(node) {
        all += clocks;
        if ["ip4-lookup", "ip6-lookup"].contains(&name) {
            lookups += clocks;
        }
    }
    let counter = |name: &str, clocks: f64| (name.to_owned(), (clocks as u64).to_string());
    if all > 0.0 { vec![counter(LOOKUPS, lookups), counter(NODES, all)] } else { Vec::new() }
}

/// Parses a line into the name of a node and its clocks. The columns are `Name State Calls Vectors Suspends Clocks Vectors/Call`. `Clocks`
/// is clocks per vector, and the state has one or two words. `None` for other lines.
fn node(line: &str) -> Option<(&str, f64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, _, .., calls, vectors, suspends, clocks, a_call] = words[..] else { return None };
    let number = |word: &str| word.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
    [calls, suspends, a_call].map(number).iter().all(Option::is_some).then_some(())?;
    // For a node without packets VPP shows clocks per call; its 0 vectors make the product 0.
    Some((name, number(vectors)? * number(clocks)?))
}

/// Returns the share of lookup nodes in the clocks of all nodes, from 0 to below 1, given a router's counters. `None` if the counters are
/// missing or inconsistent.
pub fn lookup_share(counters: &[(String, String)]) -> Option<f64> {
    let value = |wanted: &str| counters.iter().find(|(name, _)| name == wanted)?.1.parse::<u64>().ok();
    let (lookups, all) = (value(LOOKUPS)? as f64, value(NODES)? as f64);
    (lookups < all).then(|| lookups / all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_count_only_nodes_with_packets() {
        let vpp = "Thread 1 vpp_wk_0 (lcore 2)\n\
                   Time 10.0, 10 sec internal node vector rate 3.10 loops/sec 1.2e6\n  \
                     vector rates in 1.1e5, out 1.1e5, drop 0.0000e0, punt 0.0000e0\n             \
                                Name                 State         Calls          Vectors        Suspends         Clocks       Vectors/Call\n\
                   af-packet-input                  polling          12345               0               0          9.00e1            0.00\n\
                   ip4-lookup                       active             100           25600               0          2.50e1          256.00\n\
                   ip4-rewrite                      active             100           25600               0          3.00e1          256.00\n\
                   unix-epoll-input              interrupt wa           10               0               0          1.00e3            0.00\n\
                   ip6-lookup                       active              10             400               0             100           40.00\n";
        let clocks = clocks(vpp);
        let expected = [("lookup clocks", "680000"), ("node clocks", "1448000")];
        assert_eq!(clocks, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(lookup_share(&clocks), Some(0.680 / 1.448));
        for none in [
            "",
            "ip4-lookup active 1 2 3 x 4",
            "ip4-lookup active 1 2 3 NaN 4",
            "ip4-lookup active 1 0 0 5 0",
        ] {
            assert_eq!(super::clocks(none), [], "{none}");
        }
        assert_eq!(lookup_share(&[]), None);
    }
}

//! The order of features on an arc: features do not know each other, so the list of features decides.

use net::router::{Parts, Router, Sizes};
use wire::Mac;

#[test]
fn features_on_arcs_follow_the_list() {
    let sizes = Sizes { buffers: 256, workers: 1 };
    let Parts { mut router, .. } = Router::build(volley::features::install, &sizes).unwrap();
    let index = router.add_loopback("loop0", Mac([2, 0, 0, 0, 0, 1])).unwrap();
    let all = router.features(index);
    for (arc, features) in [
        (
            "ip4-unicast",
            &[
                "ip4-rx-urpf-strict",
                "ip4-rx-urpf-loose",
                "policer-input-ip4",
                "ip4-sv-reassembly",
                "ip4-count",
                "tcp-mss-clamping-ip4-in",
            ][..],
        ),
        (
            "ip6-unicast",
            &["ip6-rx-urpf-strict", "ip6-rx-urpf-loose", "policer-input-ip6", "tcp-mss-clamping-ip6-in"],
        ),
        ("ip4-output", &["ip4-redirect", "tcp-mss-clamping-ip4-out"]),
        ("interface-output", &["policer-output", "pcap-tx"]),
    ] {
        let of = |(name, _): &&(&str, _)| *name == arc;
        let (_, has) = all.iter().find(of).unwrap();
        let place = |feature: &str| has.iter().position(|(name, _)| *name == feature).unwrap();
        let places: Vec<usize> = features.iter().map(|feature| place(feature)).collect();
        assert!(places.is_sorted(), "{arc}: {has:?}");
    }
}

//! VPP's names for reasons that this router counts under its own names. Readers such as VPP's test suite look for VPP's names.

/// VPP's node and reason, and the router's nodes and reasons that are counted together under this name. If the router has none, the count
/// is 0.
pub(super) type Known = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// The known names.
pub(super) const NAMES: &[Known] = &[
    ("ethernet-input", "no error", &[]),
    ("arp-reply", "l3_dst_address_not_local", &[("arp-input", "not-for-us")]),
    (
        "ip4-rx-urpf-strict",
        "uRPF Drop",
        &[("ip4-rx-urpf-strict", "no-route-to-source"), ("ip4-rx-urpf-strict", "source-elsewhere")],
    ),
    ("ip4-rx-urpf-loose", "uRPF Drop", &[("ip4-rx-urpf-loose", "no-route-to-source")]),
    (
        "ip6-rx-urpf-strict",
        "uRPF Drop",
        &[("ip6-rx-urpf-strict", "no-route-to-source"), ("ip6-rx-urpf-strict", "source-elsewhere")],
    ),
    ("ip6-rx-urpf-loose", "uRPF Drop", &[("ip6-rx-urpf-loose", "no-route-to-source")]),
    (
        "ip4-full-reassembly-feature",
        "reass_fragment_chain_too_long",
        &[("ip4-full-reassembly", "too-many-fragments")],
    ),
    ("ip4-full-reassembly-feature", "reass_malformed_packet", &[("ip4-full-reassembly", "bad-fragment")]),
    (
        "ip6-full-reassembly-feature",
        "reass_fragment_chain_too_long",
        &[("ip6-full-reassembly", "too-many-fragments")],
    ),
    ("ip6-full-reassembly-feature", "reass_overlapping_fragment", &[("ip6-full-reassembly", "overlap")]),
    ("ip6-full-reassembly-feature", "reass_invalid_frag_len", &[("ip6-full-reassembly", "bad-fragment")]),
];

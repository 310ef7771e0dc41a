//! VPP's commands and drop reasons to which this feature has equivalents.

use net::feature::{App, Foreign, NodeReason, Registrar, VppReason};

const FULL4: &str = "ip4-full-reassembly-feature";
const FULL6: &str = "ip6-full-reassembly-feature";

const fn reason(node: &'static str, name: &'static str, counted: &'static [NodeReason]) -> VppReason {
    VppReason { name: (node, name), counted }
}

const REASONS: [VppReason; 5] = [
    reason(FULL4, "reass_fragment_chain_too_long", &[("ip4-full-reassembly", "too-many-fragments")]),
    reason(FULL4, "reass_malformed_packet", &[("ip4-full-reassembly", "bad-fragment")]),
    reason(FULL6, "reass_fragment_chain_too_long", &[("ip6-full-reassembly", "too-many-fragments")]),
    reason(FULL6, "reass_overlapping_fragment", &[("ip6-full-reassembly", "overlap")]),
    reason(FULL6, "reass_invalid_frag_len", &[("ip6-full-reassembly", "bad-fragment")]),
];

pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    r.foreign(&[
        Foreign::use_command(
            "set interface reassembly",
            "set interface feature INTERFACE ip4-sv-reassembly arc ip4-unicast",
        ),
        Foreign::use_command("set ip reassembly", "set ip4-full-reassembly timeout 1"),
    ]);
    r.vpp_reasons(&REASONS);
}

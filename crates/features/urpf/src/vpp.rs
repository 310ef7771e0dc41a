//! VPP's commands and drop reasons to which this feature has equivalents.

use net::feature::{App, Foreign, NodeReason, Registrar, VppReason};

const REASON: &str = "uRPF Drop";

const fn reason(node: &'static str, counted: &'static [NodeReason]) -> VppReason {
    VppReason { name: (node, REASON), counted }
}

const REASONS: [VppReason; 4] = [
    reason(
        "ip4-rx-urpf-strict",
        &[("ip4-rx-urpf-strict", "no-route-to-source"), ("ip4-rx-urpf-strict", "source-elsewhere")],
    ),
    reason("ip4-rx-urpf-loose", &[("ip4-rx-urpf-loose", "no-route-to-source")]),
    reason(
        "ip6-rx-urpf-strict",
        &[("ip6-rx-urpf-strict", "no-route-to-source"), ("ip6-rx-urpf-strict", "source-elsewhere")],
    ),
    reason("ip6-rx-urpf-loose", &[("ip6-rx-urpf-loose", "no-route-to-source")]),
];

pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    r.foreign(&[Foreign::use_command("ip source-check", "set urpf ip4 rx strict INTERFACE")]);
    r.vpp_reasons(&REASONS);
}

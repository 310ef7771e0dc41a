//! Tests of the module `tapv2` of the binary API: what is refused. `tests/tests/api` makes taps.

use vapi::Code;
use vapi::types::interface_index;
use vapi::wire::Array;

use super::api::*;
use crate::testing::{Cli, FEATURES};

fn refused(q: tap_create_v3) -> Code {
    let mut c = Cli::with(FEATURES);
    let before = c.ok("show config");
    let code = c.ask(&q).map(drop).expect_err("a request that is refused");
    assert_eq!(c.ok("show config"), before);
    code
}

#[test]
fn what_a_tap_cannot_have_is_refused() {
    let usual = tap_create_v3::default;
    let flags = |n| tap_create_v3 { tap_flags: tap_flags(n), ..usual() };
    let cases = [
        flags(tap_flags::TAP_API_FLAG_PERSIST.0),
        flags(tap_flags::TAP_API_FLAG_GSO.0 | tap_flags::TAP_API_FLAG_TUN.0),
        flags(1 << 31),
        tap_create_v3 { host_bridge_set: true, host_bridge: "br0".into(), ..usual() },
        tap_create_v3 { host_ip6_prefix_set: true, ..usual() },
        tap_create_v3 { host_ip4_gw_set: true, ..usual() },
        tap_create_v3 { num_rx_queues: 2, ..usual() },
        tap_create_v3 { host_namespace_set: true, host_namespace: "/mnt/ns".into(), ..usual() },
    ];
    for q in cases {
        assert_eq!(refused(q.clone()), Code::UNSUPPORTED, "{q:?}");
    }
}

#[test]
fn values_out_of_range_are_refused() {
    let usual = tap_create_v3::default;
    let long = ip4_prefix { address: vapi::types::ip4_address(Array([10, 0, 0, 1])), len: 33 };
    let cases = [
        tap_create_v3 { rx_ring_sz: 100, ..usual() },
        tap_create_v3 { host_mtu_set: true, host_mtu_size: 1 << 16, ..usual() },
        tap_create_v3 {
            host_ip4_prefix_set: true,
            host_ip4_prefix: ip4_address_with_prefix(long),
            ..usual()
        },
    ];
    for q in cases {
        assert_eq!(refused(q.clone()), Code::INVALID_VALUE, "{q:?}");
    }
    let no_name = tap_create_v3 { host_if_name_set: true, ..usual() };
    assert_eq!(refused(no_name), Code::UNSPECIFIED);
}

#[test]
fn only_taps_are_removed() {
    let mut c = Cli::with(FEATURES);
    let pg0 = crate::api::numbers::number(c.context.system.router.interface_named("pg0").unwrap().index);
    for sw_if_index in [pg0, interface_index(0), interface_index(99)] {
        assert_eq!(c.ask(&tap_delete_v2 { sw_if_index }).map(drop), Err(Code::INVALID_SW_IF_INDEX));
    }
    assert_eq!(c.dump(&sw_interface_tap_v2_dump { sw_if_index: interface_index::NONE }), []);
}

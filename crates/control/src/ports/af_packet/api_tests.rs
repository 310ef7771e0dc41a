//! Tests of the module `af_packet` of the binary API: what is refused. `tests/tests/api` takes interfaces.

use vapi::Code;

use super::api::*;
use crate::testing::{Cli, FEATURES};

#[test]
fn requests_are_refused_with_the_values_of_vpp() {
    let mut c = Cli::with(FEATURES);
    let ethernet = af_packet_create_v3 {
        mode: af_packet_mode::AF_PACKET_API_MODE_ETHERNET,
        host_if_name: "no-such-link".into(),
        ..Default::default()
    };
    let cases = [
        (af_packet_create_v3 { mode: af_packet_mode(3), ..ethernet.clone() }, Code::INVALID_VALUE),
        (
            af_packet_create_v3 { mode: af_packet_mode::AF_PACKET_API_MODE_IP, ..ethernet.clone() },
            Code::UNSUPPORTED,
        ),
        (af_packet_create_v3 { num_tx_queues: 2, ..ethernet.clone() }, Code::UNSUPPORTED),
        (ethernet, Code::INVALID_INTERFACE),
    ];
    for (q, code) in cases {
        assert_eq!(c.ask(&q).map(drop), Err(code), "{q:?}");
    }
    let gone = af_packet_delete { host_if_name: "no-such-link".into() };
    assert_eq!(c.ask(&gone).map(drop), Err(Code::INVALID_INTERFACE));
    assert_eq!(c.dump(&af_packet_dump {}), []);
}

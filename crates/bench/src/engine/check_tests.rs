use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use wire::Mac;
use wire::builder::PacketBuilder;

use super::*;
use crate::engine::stamp::Stamp;

const STAMP: Stamp = Stamp { signature: 0x1234_5678, stream: 3, sequence: 77, ticks: 1 << 40 };

/// Returns templates of all address families and protocols, with and without VLAN tag. Each has `behind` bytes of payload after the
/// tester's stamp.
fn templates(behind: usize) -> Vec<Template> {
    let (a4, b4) = (Ipv4Addr::new(198, 18, 0, 2), Ipv4Addr::new(198, 19, 0, 2));
    let (a6, b6) =
        (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2), Ipv6Addr::new(0x2001, 2, 0, 0x8000, 0, 0, 0, 2));
    let payload: Vec<u8> = (0..LEN + behind).map(|n| if n < LEN { 0 } else { n as u8 }).collect();
    let mut all = Vec::new();
    for ip in [PacketBuilder::ipv4(a4, b4), PacketBuilder::ipv6(a6, b6)] {
        let ip = ip.ethernet(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        for ip in [ip.clone(), ip.vlan(100)] {
            all.push(ip.clone().udp(1024, 7));
            all.push(ip.clone().tcp(1024, 80, 1, 1, wire::tcp::Flags::ACK));
            all.push(ip.echo_request(1, 1));
        }
    }
    all.into_iter().map(|b| Template::fixed(b.payload(&payload).build())).collect()
}

/// Returns the frame of a template as it leaves the tester.
fn sent(template: &Template) -> Vec<u8> {
    let mut frame = template.bytes.clone();
    let place = Place::find(&frame).expect("a place");
    STAMP.write(&mut frame, place);
    frame
}

/// Lowers the time to live as a router does.
fn route(frame: &mut [u8]) {
    let ip = Place::find(frame).expect("a place").ip;
    frame[ip + if frame[ip] >> 4 == 6 { 7 } else { 8 }] -= 1;
    repair(frame);
}

fn check(template: &Template, frame: &[u8]) -> Result<(), Damage> {
    let expected = Expected::new(std::slice::from_ref(template), &[0], 1).expect("room for the mark");
    // Start from the place in the frame before it was forwarded, as the receiver starts from the place in an earlier frame.
    expected.check(0, frame, Place::find(&sent(template)).expect("a place"))
}

proptest! {
    /// A forwarded frame passes the check. A forwarded frame with a changed byte in its IP packet fails, unless the byte is one of the
    /// first four of an IPv6 header: traffic class and flow label may change.
    #[test]
    fn each_changed_byte_is_found(behind in 0usize..1400, at in 0usize..1500, change in 1u8..=255) {
        for template in templates(behind) {
            let mut frame = sent(&template);
            route(&mut frame);
            prop_assert_eq!(check(&template, &frame), Ok(()));
            let ip = Place::find(&frame).expect("a place").ip;
            let at = ip + at % (frame.len() - ip);
            frame[at] ^= change;
            let is_label = frame[ip] >> 4 == 6 && (ip..ip + 4).contains(&at);
            prop_assert!(is_label || check(&template, &frame).is_err(), "byte {} of {}", at, frame.len());
        }
    }

    /// A frame that is longer or shorter than sent fails the check, except for padding up to [`PADDED`] bytes.
    #[test]
    fn each_other_length_is_found(behind in 0usize..300, len in 0usize..500) {
        for template in templates(behind) {
            let mut frame = sent(&template);
            route(&mut frame);
            let was = frame.len();
            frame.resize(len, 0);
            let is_fine = len == was || (len > was && len <= PADDED);
            prop_assert_eq!(check(&template, &frame), if is_fine { Ok(()) } else { Err(Damage::Length) });
        }
    }
}

#[test]
fn a_changed_payload_with_a_right_checksum_is_found() {
    for template in templates(40) {
        let mut frame = sent(&template);
        route(&mut frame);
        let place = Place::find(&frame).expect("a place");
        // Two exchanged words do not change the sum.
        let [a, b] = [place.at + LEN, place.at + LEN + 2];
        (frame[a], frame[b]) = (frame[b], frame[a]);
        assert_eq!(check(&template, &frame), Err(Damage::Payload));
    }
}

#[test]
fn a_time_to_live_that_was_not_lowered_is_found() {
    for template in templates(0) {
        let mut frame = sent(&template);
        assert_eq!(check(&template, &frame), Err(Damage::Ttl));
        route(&mut frame);
        assert_eq!(check(&template, &frame), Ok(()));
        route(&mut frame);
        assert_eq!(check(&template, &frame), Err(Damage::Ttl));
    }
}

#[test]
fn another_address_and_port_are_the_routers_business() {
    let template = &templates(10)[0];
    let from = PacketBuilder::ipv4(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 19, 0, 2));
    let from = from.ethernet(Mac([2; 6]), Mac([4; 6])).ttl(63).udp(40_000, 7);
    let other = Template::fixed(from.payload(&template.bytes[42..]).build());
    assert_eq!(check(template, &sent(&other)), Ok(()));
}

#[test]
fn the_place_of_the_frame_before_does_not_matter() {
    let all = templates(20);
    for (n, template) in all.iter().enumerate() {
        let expected = Expected::new(&all, &(0..12).collect::<Vec<_>>(), 1).expect("room for the mark");
        let mut frame = sent(template);
        route(&mut frame);
        for other in &all {
            let place = Place::find(&other.bytes).expect("a place");
            assert_eq!(expected.check(n, &frame, place), Ok(()));
        }
    }
}

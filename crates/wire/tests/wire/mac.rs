use proptest::prelude::*;
use wire::Mac;

#[test]
fn spellings() {
    let mac = Mac([0x02, 0xfe, 0, 0, 0x0a, 0x01]);
    for text in ["02:fe:00:00:0a:01", "2:FE:0:0:a:1", "02-fe-00-00-0a-01", "02fe.0000.0a01", "2fe.0.a01"] {
        assert_eq!(text.parse(), Ok(mac), "{text}");
    }
    for text in [
        "",
        "02fe00000a01",
        "02:fe:00:00:0a",
        "02:fe:00:00:0a:01:00",
        "02:fe:00:00:0a:",
        "02:fe:00:00:0a:101",
        "02:fe-00:00:0a:01",
        "+2:fe:00:00:0a:01",
        "02:+e:00:00:0a:01",
        "02fe.0000.0a01.0000",
        "02:fe:00:00:0a:0g",
        "02fe.0000.00a01",
        "02fe..0a01",
        "02fe.0000",
        " 02:fe:00:00:0a:01",
    ] {
        assert!(text.parse::<Mac>().is_err(), "{text}");
    }
}

#[test]
fn kinds_of_address() {
    assert!(Mac::BROADCAST.is_broadcast() && Mac::BROADCAST.is_multicast() && !Mac::BROADCAST.is_unicast());
    let group = Mac([1, 0, 0x5e, 0, 0, 1]);
    assert!(group.is_multicast() && !group.is_broadcast() && !group.is_unicast());
    assert!(!Mac::ZERO.is_multicast() && !Mac::ZERO.is_unicast());
}

proptest! {
    #[test]
    fn round_trips(mac in any::<[u8; 6]>()) {
        prop_assert_eq!(Mac(mac).to_string().parse(), Ok(Mac(mac)));
        prop_assert_eq!(Mac::from_u64(Mac(mac).to_u64()), Mac(mac));
        let header = wire::ethernet::EthernetHeader::new(Mac(mac), Mac([0xff; 6]), 0xffff);
        prop_assert_eq!(header.dst_word(), Mac(mac).to_word());
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in "[0-9a-fA-F:.\\-é]{0,24}") {
        if let Ok(mac) = text.parse::<Mac>() {
            prop_assert_eq!(mac.to_string().parse(), Ok(mac));
        }
    }
}

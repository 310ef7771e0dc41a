//! Tests of taps: packets of the kernel's stack are received, and sent packets reach it.

use std::time::Duration;

use buf::{Flags, Frame, Unsent};
use drivers::tap::{self, Config};
use testkit::skip::skipped;
use wire::Mac;
use wire::builder::PacketBuilder;

use crate::cable::Cable;
use crate::lab::{self, attempt, sh};

/// True if taps can be created here; otherwise reports the test as skipped.
fn can_tap() -> bool {
    let can = tap::open(&Config::new("probe0")).is_ok();
    if !can {
        skipped("needs access to /dev/net/tun");
    }
    can
}

#[test]
fn tcp_passes_between_taps_with_and_without_gso() {
    lab::inside("tap::tcp_passes_between_taps_with_and_without_gso", || {
        if !can_tap() {
            return;
        }
        for gso in [true, false] {
            sh("ip netns add left && ip netns add right");
            let config = |host: &str, last| Config {
                host_namespace: Some(host.into()),
                host_ip4: Some(([10, 0, 0, last].into(), 24)),
                gso,
                ..Config::new("tap0")
            };
            let open = |host, last| tap::open(&config(host, last)).unwrap_or_else(|e| panic!("{e}"));
            let cable = Cable::between(open("left", 1), open("right", 2));
            sh("ip netns exec left ping -q -c 3 -i 0.2 -W 1 10.0.0.2");
            sh("ip netns exec left ping -q -c 1 -s 9000 -W 1 10.0.0.2");
            sh("ip netns exec right iperf3 -s -D -1");
            let said = sh("sleep 0.3; ip netns exec left iperf3 -c 10.0.0.2 -t 2 -f g | grep receiver");
            eprintln!("MEASURED tap, gso {gso}, TCP through a cable of two: {}", said.trim());
            assert_eq!(cable.passed.gso.load(std::sync::atomic::Ordering::Relaxed) > 100, gso);
            cable.end();
            // The host's interfaces were removed with the devices.
            assert!(!attempt("ip -n left link show tap0").0);
            sh("ip netns del left; ip netns del right");
        }
    });
}

#[test]
fn a_tap_is_created_as_configured() {
    lab::inside("tap::a_tap_is_created_as_configured", || {
        if !can_tap() {
            return;
        }
        let mac = [2, 0xfe, 1, 2, 3, 4];
        let config = Config {
            host_mac: Some(mac),
            host_ip4: Some(([10, 1, 2, 3].into(), 20)),
            mtu: 2000,
            ..Config::new("uplink")
        };
        let mut device = tap::open(&config).unwrap();
        let shown = sh("ip addr show uplink");
        assert!(shown.contains("02:fe:01:02:03:04") && shown.contains("10.1.2.3/20"), "{shown}");
        assert!(shown.contains("mtu 2000") && shown.contains("NO-CARRIER"), "{shown}");
        assert!(device.mac != mac && device.mac[0] == 2 && device.mtu == 2000);
        device.control.set_admin(true).unwrap();
        device.control.set_mtu(3000).unwrap();
        let shown = sh("ip addr show uplink");
        assert!(shown.contains("mtu 3000") && !shown.contains("NO-CARRIER"), "{shown}");

        let refused = |c: &Config| tap::open(c).err().expect("a refusal").to_string();
        assert!(refused(&config).contains("taken"));
        assert!(refused(&Config::new("a-name-that-is-far-too-long")).contains("1 to 15 characters"));
        let nowhere = Config { host_namespace: Some("nosuch".into()), ..Config::new("tap1") };
        assert!(refused(&nowhere).contains("nosuch"));
    });
}

#[test]
fn tagged_packets_pass_and_a_removed_tap_disappears() {
    lab::inside("tap::tagged_packets_pass_and_a_removed_tap_disappears", || {
        if !can_tap() {
            return;
        }
        // A packet socket at the host's interface acts as the host.
        let mut device = tap::open(&Config { mtu: 9000, ..Config::new("tap0") }).unwrap();
        device.control.set_admin(true).unwrap();
        let mut host = drivers::af_packet::open(&drivers::af_packet::Config::new("tap0")).unwrap();
        let mut cache = lab::cache();
        for size in [10, 1000, 5000] {
            let packet = PacketBuilder::ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
                .ethernet(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]))
                .vlan(9)
                .udp(1, 2)
                .payload(&vec![size as u8; size])
                .build();
            let packets = [packet];
            assert_eq!(lab::send(&mut device, &mut cache, &packets), 0);
            assert!(lab::bytes(lab::receive(&mut host, &mut cache, 1), &mut cache) == packets);
            assert_eq!(lab::send(&mut host, &mut cache, &packets), 0);
            assert!(lab::bytes(lab::receive(&mut device, &mut cache, 1), &mut cache) == packets);
        }
        drop(host);
        sh("ip link set tap0 down");
        let mut frame = lab::frame(&[vec![0; 60]], &mut cache);
        assert_eq!(device.tx[0].send(&mut frame, &mut cache), Err(Unsent::Down));
        frame.free(&mut cache);
        assert!(!device.control.link().carrier);
        sh("ip link del tap0");
        let mut frame = Frame::new();
        assert!(infra::wait::any(&[device.rx[0].fd().unwrap()], Duration::from_secs(1)).unwrap());
        assert!(device.rx[0].poll(&mut frame, &mut cache).is_err());
        let mut frame = lab::frame(&[vec![0; 60]], &mut cache);
        assert_eq!(device.tx[0].send(&mut frame, &mut cache), Err(Unsent::Gone));
        assert!(!frame.any().any(Flags::GSO));
        frame.free(&mut cache);
        assert!(!device.control.link().present);
        lab::no_leak(&cache);
    });
}

//! Tests of kernel interfaces: packets arrive unchanged at the other end of a veth pair.

use std::time::{Duration, Instant};

use buf::{Flags, Frame, Gso, GsoKind, Lost, Unsent};
use drivers::Device;
use drivers::af_packet::{self, Config, Mode, OpenError};
use wire::Mac;
use wire::builder::PacketBuilder;

use crate::cable::Cable;
use crate::lab::{self, attempt, sh};

fn open(config: Config) -> Device {
    let mut device = af_packet::open(&config).unwrap_or_else(|e| panic!("{e}"));
    device.control.set_admin(true).unwrap();
    device
}

fn builder() -> PacketBuilder {
    PacketBuilder::ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
        .ethernet(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]))
}

fn udp(size: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..size - 42).map(|i| (i * 7 + size) as u8).collect();
    builder().udp(1, 2).payload(&payload).build()
}

#[test]
fn packets_of_all_sizes_arrive_unchanged() {
    lab::inside("af_packet::packets_of_all_sizes_arrive_unchanged", || {
        for mode in [Mode::V2, Mode::V3] {
            lab::veth("va", "vb");
            let config = |name| Config { mode, rx_ring: 256, ..Config::new(name) };
            let (mut a, mut b) = (open(config("va")), open(config("vb")));
            let mut cache = lab::cache();
            let mut there_and_back = |sizes: &[usize]| {
                for sizes in sizes.chunks(4) {
                    let packets: Vec<_> = sizes.iter().map(|&s| udp(s)).collect();
                    assert_eq!(lab::send(&mut a, &mut cache, &packets), 0);
                    let there = lab::receive(&mut b, &mut cache, packets.len());
                    assert!(lab::bytes(there, &mut cache) == packets, "{mode:?}: {sizes:?} there");
                    assert_eq!(lab::send(&mut b, &mut cache, &packets), 0);
                    let back = lab::receive(&mut a, &mut cache, packets.len());
                    assert!(lab::bytes(back, &mut cache) == packets, "{mode:?}: {sizes:?} back");
                }
            };
            // The ring wraps around several times. All packet lengths occur.
            there_and_back(&(42..=1514).collect::<Vec<_>>());
            // Larger than the ring's frames, which were sized for 1,500 bytes.
            for end in [&mut a, &mut b] {
                end.control.set_mtu(65_535).unwrap();
            }
            let mut there_and_back = |sizes: &[usize]| {
                for &size in sizes {
                    let packets = [udp(60), udp(size), udp(100)];
                    assert_eq!(lab::send(&mut a, &mut cache, &packets), 0);
                    let there = lab::receive(&mut b, &mut cache, 3);
                    assert!(lab::bytes(there, &mut cache) == packets, "{mode:?}: {size}");
                }
            };
            there_and_back(&[1515, 1600, 1700, 2112, 2113, 4224, 9014, 40_000, 65_549]);
            lab::no_leak(&cache);
            drop((a, b));
            sh("ip link del va");
        }
    });
}

/// A ring for 16 packets loses none of 16 packets that arrive before the first poll. In mode V3, the kernel closes a block for each of
/// them, because they arrive more slowly than its block timeout.
#[test]
fn the_smallest_ring_holds_packets_for_a_late_worker() {
    lab::inside("af_packet::the_smallest_ring_holds_packets_for_a_late_worker", || {
        for mode in [Mode::V2, Mode::V3] {
            lab::veth("va", "vb");
            let config = |name| Config { mode, rx_ring: 16, ..Config::new(name) };
            let (mut a, mut b) = (open(config("va")), open(config("vb")));
            let mut cache = lab::cache();
            let packets: Vec<_> = (0..16).map(|i| udp(60 + i)).collect();
            for packet in &packets {
                assert_eq!(lab::send(&mut a, &mut cache, std::slice::from_ref(packet)), 0);
                std::thread::sleep(Duration::from_millis(3));
            }
            let got = lab::receive(&mut b, &mut cache, packets.len());
            assert_eq!(b.rx[0].take_lost(), Lost::default(), "{mode:?}");
            assert!(lab::bytes(got, &mut cache) == packets, "{mode:?}");
            lab::no_leak(&cache);
            drop((a, b));
            sh("ip link del va");
        }
    });
}

#[test]
fn tags_removed_by_the_kernel_are_restored() {
    lab::inside("af_packet::tags_removed_by_the_kernel_are_restored", || {
        for mode in [Mode::V2, Mode::V3] {
            lab::veth("va", "vb");
            let config = |name| Config { mode, ..Config::new(name) };
            let (mut a, mut b) = (open(config("va")), open(config("vb")));
            for end in [&mut a, &mut b] {
                end.control.set_mtu(9000).unwrap();
            }
            let mut cache = lab::cache();
            let tags: [&[(u16, u16)]; 5] = [
                &[(0x8100, 100)],
                &[(0x8100, 0xe005)],
                &[(0x88a8, 7)],
                &[(0x88a8, 7), (0x8100, 8)],
                &[(0x8100, 1); 2],
            ];
            for tags in tags {
                for payload in [10, 1400, 5000] {
                    let tagged = tags.iter().fold(builder(), |b, &(tpid, tci)| b.tag(tpid, tci));
                    let packets = [tagged.udp(1, 2).payload(&vec![9; payload]).build()];
                    assert_eq!(lab::send(&mut a, &mut cache, &packets), 0);
                    let got = lab::receive(&mut b, &mut cache, 1);
                    assert!(lab::bytes(got, &mut cache) == packets, "{mode:?}: {tags:x?} {payload}");
                }
            }
            lab::no_leak(&cache);
            drop((a, b));
            sh("ip link del va");
        }
    });
}

#[test]
fn offloads_pass_with_and_without_a_tag() {
    lab::inside("af_packet::offloads_pass_with_and_without_a_tag", || {
        lab::veth("va", "vb");
        let (mut a, mut b) = (open(Config::new("va")), open(Config::new("vb")));
        let mut cache = lab::cache();
        for (tag, payload, gso) in [(0, 100, false), (0, 30_000, true), (4, 100, false), (4, 30_000, true)] {
            let tagged = if tag > 0 { builder().vlan(5) } else { builder() };
            let tcp = tagged.tcp(1, 2, 3, 4, wire::tcp::Flags::ACK).payload(&vec![1; payload]);
            let mut frame = lab::frame(&[tcp.partial_checksum().build()], &mut cache);
            let sent = Gso { kind: GsoKind::Tcp4, ecn: true, size: 1400, header_len: 54 + tag };
            let mut p = frame.get(0).unwrap();
            p.set_flags(p.flags() | Flags::CSUM_PARTIAL | if gso { Flags::GSO } else { Flags::NONE });
            (p.cold_mut().csum_start, p.cold_mut().csum_offset) = (34 + tag, 16);
            p.cold_mut().set_gso(sent);
            let flags = p.flags();
            let before: Vec<u8> = p.segments().flatten().copied().collect();
            frame.note(flags);
            a.tx[0].send(&mut frame, &mut cache).unwrap();
            assert!(frame.is_empty());

            let mut frame = lab::receive(&mut b, &mut cache, 1);
            let p = frame.get(0).expect("the packet");
            assert!(p.segments().flatten().copied().collect::<Vec<u8>>() == before);
            assert!(p.flags().any(Flags::CSUM_PARTIAL));
            assert_eq!((p.cold().csum_start, p.cold().csum_offset), (34 + tag, 16));
            assert_eq!(p.flags().any(Flags::GSO).then(|| p.cold().gso().unwrap()), gso.then_some(sent));
            assert!(!gso || frame.any().any(Flags::GSO));
            frame.free(&mut cache);
        }
        lab::no_leak(&cache);
    });
}

#[test]
fn tcp_of_linux_hosts_passes_in_large_packets() {
    lab::inside("af_packet::tcp_of_linux_hosts_passes_in_large_packets", || {
        for mode in [Mode::V2, Mode::V3] {
            lab::host("left", "vl", "10.0.0.1/24");
            lab::host("right", "vr", "10.0.0.2/24");
            let config = |name| Config { mode, ..Config::new(name) };
            let cable = Cable::between(open(config("vl")), open(config("vr")));
            sh("ip netns exec left ping -q -c 3 -i 0.2 -W 1 10.0.0.2");
            sh("ip netns exec left ping -q -c 1 -s 9000 -W 1 10.0.0.2");
            sh("ip netns exec right iperf3 -s -D -1");
            let said = sh("sleep 0.3; ip netns exec left iperf3 -c 10.0.0.2 -t 2 -f g | grep receiver");
            eprintln!("MEASURED af_packet {mode:?}, TCP through a cable of two: {}", said.trim());
            assert!(cable.passed.gso.load(std::sync::atomic::Ordering::Relaxed) > 100);
            assert_eq!(cable.passed.refused.load(std::sync::atomic::Ordering::Relaxed), 0);
            cable.end();
            sh("ip link del vl; ip link del vr; ip netns del left; ip netns del right");
        }
    });
}

#[test]
fn the_kernel_receives_only_from_shared_interfaces() {
    lab::inside("af_packet::the_kernel_receives_only_from_shared_interfaces", || {
        lab::host("peer", "p", "10.0.0.2/24");
        sh("ip addr add 10.0.0.1/24 dev p");
        let ping = || attempt("ip netns exec peer ping -q -c 1 -W 1 10.0.0.1").0;
        let forget = || sh("ip -n peer neigh flush all; ip neigh flush all");
        assert!(ping());
        forget();
        let mut device = open(Config::new("p"));
        assert!(!ping(), "the kernel answered on a port that is not its own");
        let mut cache = lab::cache();
        let arp = lab::receive(&mut device, &mut cache, 1);
        assert_eq!(lab::bytes(arp, &mut cache)[0][12..14], [8, 6]);
        assert!(matches!(af_packet::open(&Config::new("p")), Err(OpenError::InUse(_))));
        drop(device);
        forget();
        assert!(ping(), "the interface was not given back");
        forget();
        let _shared = open(Config { shared: true, ..Config::new("p") });
        assert!(ping());
    });
}

#[test]
fn a_killed_process_leaves_the_interface_to_the_kernel() {
    const NAME: &str = "af_packet::a_killed_process_leaves_the_interface_to_the_kernel";
    /// Environment variable that is set in the process that the test kills.
    const HOLD: &str = "VOLLEY_DRIVERS_HOLD";
    if std::env::var(HOLD).is_ok() {
        let _device = open(Config::new("p"));
        println!("held");
        return std::thread::sleep(Duration::from_secs(30));
    }
    lab::inside(NAME, || {
        lab::host("peer", "p", "10.0.0.2/24");
        sh("ip addr add 10.0.0.1/24 dev p");
        let state = || {
            let words = ["promiscuity", "link/ether", "mtu"];
            let all = sh("ip -d link show p");
            let word =
                |w: &str| all.split_whitespace().skip_while(|x| *x != w).nth(1).unwrap_or("").to_owned();
            words.map(word)
        };
        let before = state();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(HOLD, "1")
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let out = std::io::BufReader::new(child.stdout.take().unwrap());
        assert!(std::io::BufRead::lines(out).any(|l| l.unwrap().contains("held")));
        assert!(!attempt("ip netns exec peer ping -q -c 1 -W 1 10.0.0.1").0 && state() != before);
        child.kill().unwrap();
        child.wait().unwrap();
        sh("ip -n peer neigh flush all");
        // The kernel removes the table a moment after the process has ended.
        let start = Instant::now();
        while !attempt("ip netns exec peer ping -q -c 1 -W 1 10.0.0.1").0 {
            assert!(
                start.elapsed() < Duration::from_secs(5),
                "the kernel does not receive from the interface"
            );
        }
        assert_eq!(state(), before);
    });
}

#[test]
fn unusable_interfaces_are_refused_with_the_reason() {
    lab::inside("af_packet::unusable_interfaces_are_refused_with_the_reason", || {
        lab::veth("va", "vb");
        let refused = |config: Config| af_packet::open(&config).err().expect("a refusal").to_string();
        let nosuch = refused(Config::new("nosuch0"));
        assert!(
            nosuch.contains("no interface is named nosuch0")
                && nosuch.contains("va")
                && nosuch.contains("lo, "),
            "{nosuch}"
        );
        assert_eq!(refused(Config::new("lo")), "lo is not an Ethernet interface");
        assert!(refused(Config { queues: 0, ..Config::new("va") }).contains("1 to 64 queues"));
        sh("ip addr add 10.0.0.1/24 dev va && ip route add default via 10.0.0.2");
        assert!(refused(Config::new("va")).contains("default route"));
        let forced = Config { force: true, ..Config::new("va") };
        drop(open(forced));
        drop(open(Config::new("vb")));
    });
}

#[test]
fn a_closed_interface_is_restored() {
    lab::inside("af_packet::a_closed_interface_is_restored", || {
        sh("ip link add va type veth peer name vb && ip link set vb up");
        // An interface that was never up shows another qdisc name.
        let show = || sh("ip -d link show va").replace("noop", "noqueue");
        let before = show();
        let mut device = open(Config { mac: Some([2, 0, 0, 0, 0, 9]), ..Config::new("va") });
        assert_eq!((device.mac, device.mtu), ([2, 0, 0, 0, 0, 9], 1500));
        device.control.set_mac([2, 0, 0, 0, 0, 8]).unwrap();
        device.control.set_mtu(4000).unwrap();
        let during = sh("ip -d link show va");
        assert!(
            during.contains("mtu 4000") && during.contains("UP") && during.contains("promiscuity 1"),
            "{during}"
        );
        let link = device.control.link();
        assert_eq!((link.present, link.carrier, link.speed_mbps), (true, true, Some(10_000)));
        drop(device);
        assert_eq!(show(), before);
    });
}

#[test]
fn a_removed_interface_is_distinguished_from_a_down_one() {
    lab::inside("af_packet::a_removed_interface_is_distinguished_from_a_down_one", || {
        lab::veth("va", "vb");
        let (mut a, mut b) = (open(Config::new("va")), open(Config::new("vb")));
        let mut cache = lab::cache();
        sh("ip link set vb down");
        // The kernel reports the change a moment later.
        let start = Instant::now();
        while a.control.link().carrier {
            assert!(start.elapsed() < Duration::from_secs(5), "the carrier is still up");
        }
        sh("ip link set vb up; ip link set va down");
        let mut frame = lab::frame(&[udp(60), udp(70)], &mut cache);
        assert_eq!(a.tx[0].send(&mut frame, &mut cache), Err(Unsent::Down), "not reported as a full queue");
        assert_eq!(frame.len(), 2);
        frame.free(&mut cache);
        let mut poll = |device: &mut Device, times: usize| {
            let mut frame = Frame::new();
            let outcome = (0..times).try_for_each(|_| device.rx[0].poll(&mut frame, &mut cache));
            frame.free(&mut cache);
            outcome
        };
        assert_eq!(poll(&mut a, 200), Ok(()));
        // The queue reads the socket error, so it does not keep the worker awake.
        let fd = [a.rx[0].fd().unwrap()];
        assert!(!infra::wait::any(&fd, Duration::from_millis(10)).unwrap());
        let link = a.control.link();
        assert!(link.present && !link.carrier);

        a.control.set_admin(true).unwrap();
        let start = Instant::now();
        while !a.control.link().carrier {
            assert!(start.elapsed() < Duration::from_secs(5), "the carrier is still down");
        }
        assert_eq!(lab::send(&mut b, &mut lab::cache(), &[udp(60)]), 0);
        assert_eq!(lab::receive(&mut a, &mut lab::cache(), 1).len(), 1);

        sh("ip link del va");
        assert!(poll(&mut a, 200).unwrap_err().0.contains("va no longer exists"));
        let mut frame = lab::frame(&[udp(60)], &mut cache);
        assert_eq!(a.tx[0].send(&mut frame, &mut cache), Err(Unsent::Gone));
        assert_eq!(frame.len(), 1);
        frame.free(&mut cache);
        let link = a.control.link();
        assert!(!link.present && !link.carrier);
        lab::no_leak(&cache);

        // A new interface of this name is another device; the name can be opened again.
        drop((a, b));
        lab::veth("va", "vb");
        drop(open(Config::new("va")));
    });
}

#[test]
fn packets_that_overflow_the_ring_are_counted() {
    lab::inside("af_packet::packets_that_overflow_the_ring_are_counted", || {
        lab::veth("va", "vb");
        let (mut a, mut b) = (open(Config::new("va")), open(Config { rx_ring: 64, ..Config::new("vb") }));
        let mut cache = lab::cache();
        let packets: Vec<_> = (0..200).map(|_| udp(60)).collect();
        for _ in 0..3 {
            assert_eq!(lab::send(&mut a, &mut cache, &packets), 0);
            let got = lab::bytes(lab::receive(&mut b, &mut cache, 200), &mut cache).len();
            assert!((64..200).contains(&got));
            assert_eq!(b.rx[0].take_lost(), Lost { missed: 200 - got as u64, unusable: 0 });
        }
        // Without free buffers the packets stay in the ring.
        let mut empty = buf::Pool::new(10).unwrap().cache();
        assert_eq!(lab::send(&mut a, &mut cache, &packets[..20]), 0);
        let first = lab::bytes(lab::receive(&mut b, &mut empty, 20), &mut empty);
        let second = lab::bytes(lab::receive(&mut b, &mut empty, 20), &mut empty);
        assert_eq!((first.len(), second.len()), (10, 10));
        lab::no_leak(&empty);
        lab::no_leak(&cache);
    });
}

#[test]
fn refused_packets_do_not_delay_others() {
    lab::inside("af_packet::refused_packets_do_not_delay_others", || {
        lab::veth("va", "vb");
        let (mut a, mut b) = (open(Config::new("va")), open(Config::new("vb")));
        let mut cache = lab::cache();
        let packets = [udp(60), udp(3000), udp(70), udp(2000), vec![1; 5], udp(80)];
        let mut frame = lab::frame(&packets, &mut cache);
        let mut refused = Vec::new();
        while let Err(e) = a.tx[0].send(&mut frame, &mut cache) {
            assert_eq!(e, Unsent::Refused);
            let mut first = frame.take_front().unwrap();
            refused.push(first.packet().total_len());
            first.free(&mut cache);
        }
        assert_eq!(refused, [3000, 2000, 5]);
        let got: Vec<_> = lab::bytes(lab::receive(&mut b, &mut cache, 3), &mut cache);
        assert_eq!(got.iter().map(Vec::len).collect::<Vec<_>>(), [60, 70, 80]);
        lab::no_leak(&cache);
    });
}

#[test]
fn flows_are_distributed_over_queues_without_duplicates() {
    lab::inside("af_packet::flows_are_distributed_over_queues_without_duplicates", || {
        lab::veth("va", "vb");
        let (mut a, mut b) = (open(Config::new("va")), open(Config { queues: 2, ..Config::new("vb") }));
        let mut cache = lab::cache();
        let flow = |port| builder().udp(port, 2).payload(&[0; 20]).build();
        let packets: Vec<_> = (1000..1200).map(flow).collect();
        assert_eq!(lab::send(&mut a, &mut cache, &packets), 0);
        let counts: Vec<usize> = (0..2)
            .map(|q| {
                let mut frame = Frame::new();
                b.rx[q].poll(&mut frame, &mut cache).unwrap();
                let n = frame.len();
                frame.free(&mut cache);
                n
            })
            .collect();
        assert!(counts.iter().sum::<usize>() == 200 && counts.iter().all(|&n| n > 50), "{counts:?}");
        let mut frame = lab::frame(&packets[..1], &mut cache);
        b.tx[1].send(&mut frame, &mut cache).unwrap();
        assert_eq!(lab::bytes(lab::receive(&mut a, &mut cache, 1), &mut cache), packets[..1]);
    });
}

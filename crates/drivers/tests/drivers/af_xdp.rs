//! Tests of AF_XDP sockets over veth: packets arrive unchanged at the other end, and nothing is left behind.

use std::time::{Duration, Instant};

use buf::{Cache, Flags, Frame, Unsent};
use drivers::Device;
use drivers::af_packet;
use drivers::af_xdp::{self, Attach, Config, Copying};
use testkit::skip::skipped;
use wire::Mac;
use wire::builder::PacketBuilder;

use crate::lab::{self, attempt, sh};

/// Opens a device and sets it up. Returns `None`, after reporting the test as skipped, if this user may not load
/// programs.
fn open(config: &Config, cache: &mut Cache) -> Option<Device> {
    match af_xdp::open(config, cache.pool()) {
        Ok(mut device) => {
            device.control.set_admin(true).unwrap();
            // The kernel has buffers after the first poll.
            let mut frame = Frame::new();
            device.rx.iter_mut().for_each(|queue| queue.poll(&mut frame, cache).unwrap());
            frame.free(cache);
            Some(device)
        }
        Err(e) if e.to_string().contains("CAP_BPF") && !is_root() => {
            skipped(&format!("loading XDP programs needs root: {e}"));
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// True for the machine's root user, but not for root of a user namespace.
fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|map| map.split_whitespace().nth(2) == Some("4294967295"))
}

fn udp(size: usize, n: u16) -> Vec<u8> {
    let payload: Vec<u8> = (0..size - 42).map(|i| (i * 7 + size) as u8).collect();
    PacketBuilder::ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
        .ethernet(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]))
        .udp(n, 2)
        .payload(&payload)
        .build()
}

fn settled(cache: &Cache) {
    lab::no_leak(cache);
    assert_eq!(cache.pool().stats().lent, 0, "the kernel still has buffers");
}

#[test]
fn packets_of_all_sizes_arrive_unchanged() {
    lab::inside("af_xdp::packets_of_all_sizes_arrive_unchanged", || {
        for attach in [Attach::Native, Attach::Generic] {
            lab::veth("va", "vb");
            let mut cache = lab::cache();
            let config = Config { attach: Some(attach), rx_ring: 64, tx_ring: 64, ..Config::new("va") };
            let Some(mut xdp) = open(&config, &mut cache) else { return };
            let mut peer = af_packet::open(&af_packet::Config::new("vb")).unwrap();
            for sizes in (42..=1514).collect::<Vec<_>>().chunks(4) {
                let packets: Vec<_> = sizes.iter().map(|&s| udp(s, 1)).collect();
                assert_eq!(lab::send(&mut xdp, &mut cache, &packets), 0);
                let there = lab::receive(&mut peer, &mut cache, packets.len());
                assert!(lab::bytes(there, &mut cache) == packets, "{attach:?}: {sizes:?} there");
                assert_eq!(lab::send(&mut peer, &mut cache, &packets), 0);
                let back = lab::receive(&mut xdp, &mut cache, packets.len());
                assert!(lab::bytes(back, &mut cache) == packets, "{attach:?}: {sizes:?} back");
            }
            drop((xdp, peer));
            settled(&cache);
            sh("ip link del va");
        }
    });
}

#[test]
fn chained_packets_are_joined_and_too_large_ones_refused() {
    lab::inside("af_xdp::chained_packets_are_joined_and_too_large_ones_refused", || {
        lab::veth("va", "vb");
        sh("ip link set va mtu 2000 && ip link set vb mtu 2000");
        let mut cache = lab::cache();
        let Some(mut xdp) = open(&Config::new("va"), &mut cache) else { return };
        let mut peer = af_packet::open(&af_packet::Config::new("vb")).unwrap();
        let parts = [udp(100, 1), udp(1400, 2), udp(60, 3)];
        let mut frame = lab::frame(&[parts[0].clone(), parts[1].clone(), parts[2].clone()], &mut cache);
        // The third packet's buffer becomes the second buffer of the second packet.
        let third = frame.pop().unwrap();
        let mut second = frame.pop().unwrap();
        second.packet().append(third, &mut cache).ok().unwrap();
        frame.push(second).ok().unwrap();
        assert!(frame.any().any(Flags::CHAINED));
        xdp.tx[0].send(&mut frame, &mut cache).unwrap();
        let there = lab::receive(&mut peer, &mut cache, 2);
        assert_eq!(lab::bytes(there, &mut cache), [parts[0].clone(), parts[1..].concat()]);

        let mut frame = lab::frame(&[udp(60, 1), udp(5000, 1), udp(61, 1)], &mut cache);
        assert_eq!(xdp.tx[0].send(&mut frame, &mut cache), Err(Unsent::Refused));
        frame.take_front().unwrap().free(&mut cache);
        xdp.tx[0].send(&mut frame, &mut cache).unwrap();
        let there = lab::receive(&mut peer, &mut cache, 2);
        assert_eq!(lab::bytes(there, &mut cache), [udp(60, 1), udp(61, 1)]);
        drop((xdp, peer));
        settled(&cache);
    });
}

/// Buffers that are added to the pool later lie outside the memory that the kernel has mapped. Packets in them are copied, and the fill
/// ring gets only mapped buffers.
#[test]
fn a_grown_pool_still_feeds_the_kernel() {
    lab::inside("af_xdp::a_grown_pool_still_feeds_the_kernel", || {
        lab::veth("va", "vb");
        let mut cache = lab::cache();
        let Some(mut xdp) = open(&Config { rx_ring: 256, ..Config::new("va") }, &mut cache) else { return };
        cache.pool().grow(1 << 14).unwrap();
        // From here on, the cache has added buffers.
        let mut frame = lab::frame(&vec![udp(60, 0); 256], &mut cache);
        let mut more = lab::frame(&vec![udp(60, 0); 256], &mut cache);
        frame.free(&mut cache);
        more.free(&mut cache);
        let mut peer = af_packet::open(&af_packet::Config::new("vb")).unwrap();
        for round in 0..20 {
            let packets: Vec<_> = (0..60).map(|n| udp(60 + 20 * n, round)).collect();
            assert_eq!(lab::send(&mut xdp, &mut cache, &packets), 0);
            let there = lab::receive(&mut peer, &mut cache, packets.len());
            assert!(lab::bytes(there, &mut cache) == packets, "round {round} there");
            assert_eq!(lab::send(&mut peer, &mut cache, &packets), 0);
            let back = lab::receive(&mut xdp, &mut cache, packets.len());
            assert!(lab::bytes(back, &mut cache) == packets, "round {round} back");
        }
        drop((xdp, peer));
        settled(&cache);
    });
}

/// Many flows over two queues, with more packets than the rings hold: every packet arrives exactly once.
#[test]
fn every_packet_of_every_queue_arrives_once() {
    lab::inside("af_xdp::every_packet_of_every_queue_arrives_once", || {
        sh("ip link add va numrxqueues 2 numtxqueues 2 type veth peer name vb numrxqueues 2 numtxqueues 2");
        sh("ip link set va up && ip link set vb up");
        let mut cache = lab::cache();
        let config = |name| Config { attach: Some(Attach::Native), ..Config::new(name) };
        let Some(mut a) = open(&config("va"), &mut cache) else { return };
        let Some(mut b) = open(&config("vb"), &mut cache) else { return };
        assert_eq!((a.rx.len(), a.tx.len()), (2, 2));
        let mut seen = vec![0u32; 8000];
        let mut frame = Frame::new();
        let mut collect = |b: &mut Device, cache: &mut Cache| {
            for queue in &mut b.rx {
                queue.poll(&mut frame, cache).unwrap();
                for bytes in lab::bytes(std::mem::take(&mut frame), cache) {
                    seen[usize::from(u16::from_be_bytes([bytes[34], bytes[35]]))] += 1;
                }
            }
        };
        for chunk in (0..8000u16).collect::<Vec<_>>().chunks(200) {
            let packets: Vec<_> = chunk.iter().map(|&n| udp(64, n)).collect();
            let mut frame = lab::frame(&packets, &mut cache);
            let queue = usize::from(chunk[0] / 200) % 2;
            let start = Instant::now();
            while a.tx[queue].send(&mut frame, &mut cache).is_err() {
                assert!(start.elapsed() < Duration::from_secs(2), "{} packets are not sent", frame.len());
                collect(&mut b, &mut cache);
            }
            collect(&mut b, &mut cache);
        }
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(200) {
            collect(&mut b, &mut cache);
        }
        let lost: u64 = b.rx.iter_mut().map(|q| q.take_lost()).map(|l| l.missed + l.unusable).sum();
        assert_eq!(lost, 0);
        assert!(seen.iter().all(|n| *n == 1), "{} of 8000 came", seen.iter().filter(|n| **n == 1).count());
        drop((a, b));
        settled(&cache);
    });
}

#[test]
fn a_closed_interface_is_restored() {
    lab::inside("af_xdp::a_closed_interface_is_restored", || {
        lab::host("h", "va", "10.0.0.2/24");
        sh("ip addr add 10.0.0.1/24 dev va && ping -c 1 -W 1 10.0.0.2");
        sh("ip link set va down");
        let before = sh("ip -o link show va");
        let mut cache = lab::cache();
        let Some(device) = open(&Config::new("va"), &mut cache) else { return };
        assert!(sh("ip -o link show va").contains("xdp"));
        assert!(!attempt("ping -c 1 -W 0.2 10.0.0.2").0, "the kernel's stack receives from the interface");
        drop(device);
        assert_eq!(sh("ip -o link show va"), before);
        settled(&cache);
        sh("ip link set va up && ip addr replace 10.0.0.1/24 dev va && ping -c 1 -W 2 10.0.0.2");
    });
}

/// A closed interface can be opened at once, although the kernel releases the queue only a moment after its socket is closed.
#[test]
fn a_closed_interface_can_be_reopened_at_once() {
    lab::inside("af_xdp::a_closed_interface_can_be_reopened_at_once", || {
        lab::veth("va", "vb");
        let mut cache = lab::cache();
        for _ in 0..5 {
            let Some(device) = open(&Config::new("va"), &mut cache) else { return };
            drop(device);
        }
        settled(&cache);
    });
}

#[test]
fn invalid_configurations_are_refused_with_the_reason() {
    lab::inside("af_xdp::invalid_configurations_are_refused_with_the_reason", || {
        lab::veth("va", "vb");
        let mut cache = lab::cache();
        let Some(mut device) = open(&Config::new("va"), &mut cache) else { return };
        let refused = |config: Config, part: &str| {
            let Err(e) = af_xdp::open(&config, cache.pool()) else { panic!("{config:?} was opened") };
            assert!(e.to_string().contains(part), "{e}");
        };
        refused(Config::new("va"), "already has an XDP program of another process");
        refused(Config::new("nosuch"), "no interface is named nosuch; existing interfaces: lo");
        refused(Config { rx_ring: 100, ..Config::new("vb") }, "ring size 100 is not a power of two");
        refused(Config { queues: Some(9), ..Config::new("vb") }, "has 1 receive queues");
        refused(Config { copying: Copying::Never, ..Config::new("vb") }, "leave out \"zero-copy\"");
        refused(Config::new("lo"), "lo is not an Ethernet interface");
        let e = device.control.set_mtu(9000).unwrap_err();
        assert!(e.to_string().contains("at most 2090 bytes"), "{e}");
        // A device that vanishes ends its queue.
        sh("ip link del va");
        let mut frame = Frame::new();
        let gone = (0..5000).find_map(|_| device.rx[0].poll(&mut frame, &mut cache).err());
        assert!(gone.unwrap().0.contains("va no longer exists"));
        assert!(!device.control.link().present);
        drop(device);
        settled(&cache);
    });
}

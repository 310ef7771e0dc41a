//! The input nodes, `interface-output` and `interface-tx`.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use buf::{Cache, Frame, Gone, Lost, RxQueue, TxCaps, TxQueue, Unsent};
use proptest::prelude::*;
use testkit::harness::{Harness, Out};
use wire::Mac;

use crate::ethernet::Vlans;
use crate::interface::{Interface, InterfaceKind, Kind, RxSlot, TxPort};
use crate::testing::Bench;

pub(super) const PLAIN: TxCaps = TxCaps { gso: false, csum: false };

/// The other end of a test queue: the packets that the device receives and has sent, and the errors of the queue.
#[derive(Default)]
struct Far {
    arriving: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
    room: usize,
    /// The error that the queue returns when it has no room; `None` for [`Unsent::Full`].
    full: Option<Unsent>,
    /// The queue refuses packets that begin with this byte.
    refused: Option<u8>,
    lost: Lost,
    gone: bool,
}

#[derive(Clone, Default)]
pub(super) struct Queue(Arc<Mutex<Far>>, TxCaps);

impl Queue {
    fn new(room: usize, caps: TxCaps) -> Queue {
        Queue(Arc::new(Mutex::new(Far { room, ..Far::default() })), caps)
    }
    fn sent(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.0.lock().unwrap().sent)
    }
}

impl TxQueue for Queue {
    fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Unsent> {
        let mut far = self.0.lock().unwrap();
        if far.gone {
            return Err(Unsent::Gone);
        }
        let takes = |p: &buf::Packet<'_>| Some(p.bytes()[0]) != far.refused;
        let taken: Vec<Vec<u8>> =
            frame.packets().take(far.room).take_while(takes).map(|p| p.bytes().to_vec()).collect();
        let n = taken.len();
        frame.free_front(n, cache);
        far.sent.extend(taken);
        match frame.is_empty() {
            true => Ok(()),
            false if n == far.room => Err(far.full.unwrap_or(Unsent::Full)),
            false => Err(Unsent::Refused),
        }
    }
    fn caps(&self) -> TxCaps {
        self.1
    }
}

impl RxQueue for Queue {
    fn poll(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Gone> {
        let mut far = self.0.lock().unwrap();
        if far.gone {
            return Err(Gone("unplugged".into()));
        }
        while frame.room() > 0
            && let Some(bytes) = far.arriving.pop_front()
        {
            assert_eq!(frame.alloc(cache, 1), 1);
            let last = frame.len() - 1;
            assert!(frame.get(last).unwrap().fill(&bytes));
        }
        Ok(())
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn take_lost(&mut self) -> Lost {
        std::mem::take(&mut self.0.lock().unwrap().lost)
    }
}

fn record(kind: Kind, device: u32, up: bool) -> Interface {
    Interface {
        kind,
        device,
        mac: Mac::ZERO,
        up,
        fib: 0,
        mtu: 1500,
        vlans: Vlans::default(),
        addresses: Vec::new(),
        proxy: false,
        mode: None,
    }
}

/// Adds a device with a transmit queue. Returns the device's index and the queue.
pub(super) fn device(bench: &mut Bench, up: bool, room: usize, caps: TxCaps) -> (u32, Queue) {
    let index = bench.interface(0, None);
    bench.writers.interfaces.set(index, record(Kind::Device, index, up)).unwrap();
    let queue = Queue::new(room, caps);
    bench.writers.ports.set(index, TxPort::new(vec![Box::new(queue.clone())]).unwrap()).unwrap();
    (index, queue)
}

fn harness(bench: &Bench) -> Harness {
    bench.harness(|b, t, _| {
        for node in [drivers::pktgen::INPUT_NODE, drivers::tap::INPUT_NODE] {
            super::install_input(b, t, node);
        }
        super::install(b, t);
    })
}

/// Creates a harness with only `interface-output`; its output is captured.
pub(super) fn output(bench: &Bench) -> Harness {
    bench.harness(|b, t, _| {
        let tables = t.clone();
        b.frame(move |s| super::output::InterfaceOutput::new(&tables, s.worker));
        b.arc("interface-output", "interface-tx", graph::ArcKey::Tx);
    })
}

fn send(h: &mut Harness, node: &str, to: &[u32]) -> Vec<Out> {
    let packets: Vec<Vec<u8>> = (0..to.len()).map(|i| (i as u32).to_be_bytes().to_vec()).collect();
    h.send(node, &packets, |i, p| p.set_tx_if(to[i]))
}

pub(super) fn way(out: &Out) -> &str {
    out.reason.unwrap_or(&out.node)
}

#[test]
fn output_drops_packets_for_unusable_interfaces() {
    let mut bench = Bench::new();
    let (up, _) = device(&mut bench, true, 9, PLAIN);
    let (down, _) = device(&mut bench, false, 9, PLAIN);
    let (no_queue, _) = device(&mut bench, true, 9, PLAIN);
    bench.writers.ports.remove(no_queue);
    let loopback = bench.interface(0, None);
    bench.writers.interfaces.set(loopback, record(Kind::Loopback(None), loopback, true)).unwrap();
    let sub = bench.interface(0, None);
    bench.writers.interfaces.set(sub, record(Kind::SubInterface, up, true)).unwrap();
    let sub_down = bench.interface(0, None);
    bench.writers.interfaces.set(sub_down, record(Kind::SubInterface, up, false)).unwrap();
    let cases = [
        (up, "interface-tx"),
        (down, "interface-down"),
        (no_queue, "interface-down"),
        (loopback, "loopback-output"),
        (sub, "interface-tx"),
        (sub_down, "interface-down"),
        (99, "interface-deleted"),
        (buf::NO_INTERFACE, "interface-deleted"),
    ];
    let mut h = output(&bench);
    for (to, expected) in cases {
        assert_eq!(way(&send(&mut h, "interface-output", &[to])[0]), expected, "{to}");
    }
    let all: Vec<u32> = cases.iter().map(|c| c.0).collect();
    for out in send(&mut h, "interface-output", &all) {
        assert_eq!(way(&out), cases[out.from.unwrap()].1);
    }
    // A sub-interface's packets also count on its device. Drops do not count.
    let tx = |i: u32| bench.tables.counters.tx.read(i);
    assert_eq!((tx(up), tx(sub)), ([4, 16], [2, 8]));
    assert_eq!([down, no_queue, loopback, sub_down].map(tx), [[0, 0]; 4]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// For any order of interfaces and vectors of any length, packets to one interface reach its device in order, and the counters agree
    /// with a simple count. There are sub-interfaces, full queues, and more devices than one round of `interface-tx` takes.
    #[test]
    fn every_packet_reaches_its_queue_in_order(
        to in prop::collection::vec(0usize..60, 1..600),
        rooms in prop::collection::vec(prop_oneof![4 => Just(usize::MAX), 1 => 0usize..5], 40),
    ) {
        let mut bench = Bench::new();
        let devices: Vec<(u32, Queue)> = rooms.iter().map(|&room| device(&mut bench, true, room, PLAIN)).collect();
        let mut interfaces: Vec<u32> = devices.iter().map(|d| d.0).collect();
        for (device, _) in &devices[..20] {
            let sub = bench.interface(0, None);
            bench.writers.interfaces.set(sub, record(Kind::SubInterface, *device, true)).unwrap();
            interfaces.push(sub);
        }
        let device_of = |interface: usize| if interface < 40 { interface } else { interface - 40 };
        let mut h = harness(&bench);
        let by: Vec<u32> = to.iter().map(|&n| interfaces[n]).collect();
        let out = send(&mut h, "interface-output", &by);
        prop_assert!(out.iter().all(|o| o.reason == Some("tx-queue-full")));
        let bytes = |i: usize| (i as u32).to_be_bytes().to_vec();
        for (n, (index, queue)) in devices.iter().enumerate() {
            let of: Vec<usize> = (0..to.len()).filter(|&i| device_of(to[i]) == n).collect();
            // The queue takes this many packets of each vector.
            let mut expected = Vec::new();
            for vector in of.chunk_by(|a, b| a / 256 == b / 256) {
                expected.extend(vector.iter().take(rooms[n]).map(|&i| bytes(i)));
            }
            let full = (of.len() - expected.len()) as u64;
            prop_assert_eq!(queue.sent(), expected);
            prop_assert_eq!(bench.tables.counters.tx_error.read(*index), [full]);
            prop_assert_eq!(bench.tables.counters.tx.read(*index), [of.len() as u64, 4 * of.len() as u64]);
        }
        for (n, sub) in interfaces.iter().enumerate().skip(40) {
            let of = to.iter().filter(|&&t| t == n).count() as u64;
            prop_assert_eq!(bench.tables.counters.tx.read(*sub), [of, 4 * of]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Packets to interfaces of features reach the nodes for their kinds of interface, in order. Packets to devices in the same vector
    /// reach the devices.
    #[test]
    fn packets_to_feature_interfaces_reach_their_nodes(to in prop::collection::vec(0usize..40, 1..300)) {
        let mut bench = Bench::new();
        let kinds = [0, 1].map(|number| InterfaceKind { number, point_to_point: number == 1, name: "kind" });
        let devices: Vec<(u32, Queue)> = (0..20).map(|_| device(&mut bench, true, usize::MAX, PLAIN)).collect();
        let mut all: Vec<(u32, &str)> = devices.iter().map(|d| (d.0, "")).collect();
        for n in 0..20 {
            let index = bench.interface(0, None);
            let record = record(Kind::Feature(kinds[n % 2]), index, true);
            bench.writers.interfaces.set(index, record).unwrap();
            all.push((index, ["even", "odd"][n % 2]));
        }
        let mut h = bench.harness(|b, t, _| {
            super::install_input(b, t, drivers::pktgen::INPUT_NODE);
            super::install(b, t);
            t.interface_kinds.register(b, 0, "even").unwrap();
            t.interface_kinds.register(b, 1, "odd").unwrap();
        });
        let interfaces: Vec<u32> = to.iter().map(|n| all[*n].0).collect();
        let out = send(&mut h, "interface-output", &interfaces);
        for node in ["even", "odd"] {
            let got: Vec<usize> = out.iter().filter(|o| o.node == node).map(|o| o.from.unwrap()).collect();
            let wanted: Vec<usize> = (0..to.len()).filter(|i| all[to[*i]].1 == node).collect();
            prop_assert_eq!(got, wanted);
        }
        prop_assert!(out.iter().all(|o| o.reason.is_none()));
        prop_assert_eq!(out.len(), to.iter().filter(|n| **n >= 20).count());
    }
}

#[test]
fn a_full_queue_drops_the_remaining_packets() {
    for room in [0, 1, 299, 300] {
        let mut bench = Bench::new();
        let (index, queue) = device(&mut bench, true, room, PLAIN);
        let mut h = harness(&bench);
        let out = send(&mut h, "interface-tx", &[index; 200]);
        let sent = room.min(200);
        assert_eq!((queue.sent().len(), out.len()), (sent, 200 - sent));
        assert!(out.iter().all(|o| o.reason == Some("tx-queue-full") && o.from >= Some(sent)));
        assert_eq!(bench.tables.counters.tx_error.read(index), [200 - sent as u64]);
    }
}

/// For each byte of `bytes`, sends a packet that begins with this byte. The packets go to the interfaces in `to` in turn. Returns the
/// position and the reason of each dropped packet.
fn send_bytes(h: &mut Harness, to: &[u32], bytes: &[u8]) -> Vec<(usize, &'static str)> {
    let packets: Vec<[u8; 4]> = bytes.iter().map(|&b| [b; 4]).collect();
    let out = h.send("interface-tx", &packets, |i, p| p.set_tx_if(to[i % to.len()]));
    out.iter().map(|o| (o.from.unwrap(), o.reason.unwrap())).collect()
}

#[test]
fn a_refused_packet_is_dropped_and_the_others_are_sent() {
    let mut bench = Bench::new();
    let (index, queue) = device(&mut bench, true, 99, PLAIN);
    let (other, quiet) = device(&mut bench, true, 99, PLAIN);
    let mut h = harness(&bench);
    queue.0.lock().unwrap().refused = Some(7);
    let firsts = |q: &Queue| q.sent().iter().map(|p| p[0]).collect::<Vec<_>>();
    for (bytes, sent, dropped) in
        [(&[7, 1, 7, 7, 2][..], &[1, 2][..], &[0, 2, 3][..]), (&[1, 7], &[1], &[1]), (&[7, 7], &[], &[0, 1])]
    {
        let dropped: Vec<_> = dropped.iter().map(|&i| (i, "tx-refused")).collect();
        assert_eq!(send_bytes(&mut h, &[index], bytes), dropped, "{bytes:?}");
        assert_eq!(firsts(&queue), sent);
    }
    assert_eq!(bench.tables.counters.tx_error.read(index), [6]);
    // Two devices in one vector.
    assert_eq!(send_bytes(&mut h, &[index, other], &[7, 7, 1, 1]), [(0, "tx-refused")]);
    assert_eq!((firsts(&queue), firsts(&quiet)), (vec![1], vec![7, 1]));
    assert_eq!((bench.tables.counters.tx_error.read(other), quiet.sent().len()), ([0], 0));
}

#[test]
fn packets_for_a_down_link_have_their_own_reason() {
    let mut bench = Bench::new();
    let (index, queue) = device(&mut bench, true, 1, PLAIN);
    let mut h = harness(&bench);
    queue.0.lock().unwrap().full = Some(Unsent::Down);
    assert_eq!(send_bytes(&mut h, &[index], &[1, 2, 3]), [(1, "tx-link-down"), (2, "tx-link-down")]);
    assert_eq!((queue.sent().len(), bench.tables.counters.tx_error.read(index)), (1, [2]));
}

#[test]
fn a_queues_losses_are_counted_before_its_worker_sleeps() {
    let bench = Bench::new();
    let mut h = harness(&bench);
    let queues = [Queue::default(), Queue::default()];
    let slot = |n: usize| {
        Arc::new(RxSlot::new(n as u32, (0, 1), 0, "pg-input", Box::new(queues[n].clone())).unwrap())
    };
    bench.tables.placement.change(|s| s.extend([slot(0), slot(1)]));
    let lost = |n| bench.tables.counters.rx_lost.read(n);
    for round in 1..3 {
        queues[1].0.lock().unwrap().lost = Lost { missed: 5, unusable: 2 };
        // A worker makes at least this many turns without a packet before it sleeps.
        (0..64).for_each(|_| drop(h.turn()));
        assert_eq!((lost(0), lost(1)), ([0, 0], [5 * round, 2 * round]));
        assert_eq!(h.dropped("pg-input", "rx-unusable"), 2 * round);
    }
    bench.tables.counters.clear(1);
    assert_eq!(lost(1), [0, 0]);
}

#[test]
fn packets_for_a_vanished_port_have_their_own_reason() {
    let mut bench = Bench::new();
    let (index, queue) = device(&mut bench, true, 9, PLAIN);
    let mut h = harness(&bench);
    queue.0.lock().unwrap().gone = true;
    let out = send(&mut h, "interface-tx", &[index, index]);
    assert_eq!(out.iter().map(way).collect::<Vec<_>>(), ["tx-no-queue"; 2]);
    assert_eq!(bench.tables.counters.tx_error.read(index), [2]);
    // Without a port, or without an interface.
    bench.writers.ports.remove(index);
    let out = send(&mut h, "interface-tx", &[index, 77, index]);
    assert_eq!(out.iter().map(way).collect::<Vec<_>>(), ["tx-no-queue"; 3]);
}

#[test]
fn inputs_poll_their_queues_in_turn() {
    let bench = Bench::new();
    let mut h = harness(&bench);
    let queues: Vec<Queue> = (0..4).map(|_| Queue::default()).collect();
    // The third queue belongs to another worker, the fourth to another driver.
    let slot = |n: usize| {
        let node = if n == 3 { "tap-input" } else { "pg-input" };
        Arc::new(
            RxSlot::new(n as u32 + 5, (0, 1), usize::from(n == 2), node, Box::new(queues[n].clone()))
                .unwrap(),
        )
    };
    let slots: Vec<Arc<RxSlot>> = (0..4).map(slot).collect();
    bench.tables.placement.change(|s| s.extend(slots.iter().cloned()));
    let arrive = |n: usize, packets: usize| {
        queues[n].0.lock().unwrap().arriving.extend((0..packets).map(|i| vec![n as u8; 20 + i % 2]));
    };
    (0..4).for_each(|n| arrive(n, 300));
    let rx = |n: u32| bench.tables.counters.rx.read(n + 5)[0];
    let out = h.turn();
    assert!(out.iter().all(|o| o.node == "ethernet-input"));
    assert!(out.iter().all(|o| o.record.rx_if == u32::from(o.bytes[0]) + 5));
    assert_eq!([rx(0), rx(1), rx(2), rx(3)], [256, 256, 0, 256], "a vector of each queue a turn");
    assert_eq!(h.turn().len(), 3 * 44);
    assert_eq!(bench.tables.counters.rx.read(5), [300, 300 * 20 + 150]);

    // A device that vanished is recorded and no longer polled; the others are.
    queues[0].0.lock().unwrap().gone = true;
    [0, 1].iter().for_each(|&n| arrive(n, 2));
    assert_eq!(h.turn().len(), 2);
    assert_eq!(slots[0].gone(), Some(Gone("unplugged".into())));
    queues[0].0.lock().unwrap().gone = false;
    assert!(h.turn().is_empty());
    // A removed queue delivers no more packets.
    arrive(1, 2);
    bench.tables.placement.change(|s| s.retain(|s| s.interface != 6));
    assert!(h.turn().is_empty());
}

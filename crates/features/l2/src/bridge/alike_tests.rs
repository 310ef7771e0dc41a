//! Tests vectors of alike and of mixed frames, between ports that rewrite no tags, against plain rules.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use buf::{Cache, Frame, Gone, RxQueue, TxCaps, TxQueue, Unsent};
use drivers::{Device, DeviceControl, Link};
use proptest::prelude::*;
use wire::Mac;

use super::bvi_tests::{BVI, FAR, FAR_MAC, HOST, packet};
use super::tests::{Bridged, station};
use super::{BridgePort, Kind};

/// A device that gives all waiting frames to the router in one vector. What the router sends out of it is forgotten.
#[derive(Clone, Default)]
struct Bulk(Arc<Mutex<VecDeque<Vec<u8>>>>);

impl RxQueue for Bulk {
    fn poll(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Gone> {
        let waiting: Vec<Vec<u8>> = self.0.lock().unwrap().drain(..).collect();
        assert_eq!(frame.alloc(cache, waiting.len()), waiting.len());
        for (n, bytes) in waiting.iter().enumerate() {
            assert!(frame.get(n).unwrap().fill(bytes));
        }
        Ok(())
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl TxQueue for Bulk {
    fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Unsent> {
        frame.free(cache);
        Ok(())
    }
    fn caps(&self) -> TxCaps {
        TxCaps::default()
    }
}

impl DeviceControl for Bulk {
    fn set_admin(&mut self, _: bool) -> io::Result<()> {
        Ok(())
    }
    fn set_mtu(&mut self, _: u16) -> io::Result<()> {
        Ok(())
    }
    fn set_mac(&mut self, _: [u8; 6]) -> io::Result<()> {
        Ok(())
    }
    fn link(&mut self) -> Link {
        Link { present: true, carrier: true, speed_mbps: None }
    }
    fn describe(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl Bulk {
    /// Adds such a device to the router, as a port of the domain 7.
    fn port(router: &mut Bridged) -> Bulk {
        let bulk = Bulk::default();
        let device = Device {
            kind: "test",
            input_node: "pg-input",
            rx: vec![Box::new(bulk.clone())],
            tx: vec![Box::new(bulk.clone())],
            mac: [2, 0, 0, 0, 0xe, 1],
            mtu: 1500,
            control: Box::new(bulk.clone()),
        };
        let index = router.lab.router.add_device("bulk", device).unwrap();
        router.lab.router.set_admin(index, true).unwrap();
        super::join(&mut router.lab.router, index, 7, BridgePort::PLAIN).unwrap();
        bulk
    }

    fn hear(&self, router: &mut Bridged, frames: impl IntoIterator<Item = Vec<u8>>) {
        self.0.lock().unwrap().extend(frames);
        router.lab.run();
    }
}

/// A router with such a port, and the right link as the second port.
fn of_devices() -> (Bridged, Bulk) {
    let mut router = Bridged::new();
    let bulk = Bulk::port(&mut router);
    super::join(&mut router.lab.router, 1, 7, BridgePort::PLAIN).unwrap();
    // Stations 0 and 1 are on the first port, and 2 and 3 on the second. Nobody has heard of station 4. Station 5 is filtered.
    bulk.hear(&mut router, [0, 1].map(|n| frame(n, 4, 60)));
    for n in [2, 3] {
        router.lab.receive(1, 0, frame(n, 4, 60));
    }
    let bridges: &mut super::Bridges = router.lab.router.state_mut().unwrap();
    bridges.set_entry(7, station(5), Kind::Filter, 0).unwrap();
    router.lab.sent(1);
    (router, bulk)
}

fn frame(src: u8, dst: u8, len: usize) -> Vec<u8> {
    let mut frame = [&station(dst).0[..], &station(src).0, &[0x88, 0xb5]].concat();
    frame.resize(len, 7);
    frame
}

/// True if the second port sends a frame that the first one has received.
fn leaves(src: u8, dst: u8, len: usize) -> bool {
    src < 2 && (2..5).contains(&dst) && len <= 1514
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn vectors_are_switched_as_single_frames(
        flow in (0..2u8, 0..6u8),
        others in prop::collection::vec((0..12usize, 0..2u8, 0..6u8, prop::sample::select(vec![60, 300, 1514, 1600])), 0..4),
        length in 1..12usize,
    ) {
        let (mut router, bulk) = of_devices();
        let mut vector = vec![(flow.0, flow.1, 100); length];
        for (at, src, dst, len) in others {
            vector[at % length] = (src, dst, len);
        }
        let frames = (0u8..).zip(&vector).map(|(n, (src, dst, len))| {
            let mut frame = frame(*src, *dst, *len);
            frame[20] = n;
            frame
        });
        bulk.hear(&mut router, frames.collect::<Vec<_>>());
        let sent: Vec<Vec<u8>> =
            router.lab.sent(1).into_iter().filter(|frame| frame[12..14] == [0x88, 0xb5]).collect();
        let mut numbers: Vec<u8> = sent.iter().map(|frame| frame[20]).collect();
        // Frames to unknown stations take another way, but those of a flow keep their order.
        let to = |dst: u8| sent.iter().filter(move |frame| frame[..6] == station(dst).0).map(|frame| frame[20]);
        prop_assert!((0..6).all(|dst| to(dst).is_sorted()));
        numbers.sort_unstable();
        let expected = (0u8..).zip(&vector).filter(|(_, (src, dst, len))| leaves(*src, *dst, *len));
        prop_assert_eq!(numbers, expected.map(|(n, _)| n).collect::<Vec<u8>>());
    }
}

#[test]
fn a_vector_to_the_router_is_routed_whole() {
    let (mut router, bvi) = Bridged::with_bvi(0);
    let bulk = Bulk::port(&mut router);
    let flow = |mac: Mac| packet((station(5), HOST), (mac, FAR), 64);
    // The first frame is learned, the others are alike.
    for vector in [1, 9] {
        let before = router.lab.router.tables().counters.totals(bvi, 0);
        bulk.hear(&mut router, vec![flow(BVI); vector]);
        let sent = packet((net::testing::own_mac(1), HOST), (FAR_MAC, FAR), 63);
        assert_eq!(router.lab.sent(1), vec![sent; vector]);
        let counts = router.lab.router.tables().counters.totals(bvi, 0).since(&before);
        assert_eq!((counts.rx_packets, counts.rx_bytes), (vector as u64, (vector * flow(BVI).len()) as u64));
    }
}

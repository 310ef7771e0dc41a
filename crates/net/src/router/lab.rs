//! A router for tests. The test sends and receives the frames on its links, sets the time, and runs the
//! workers.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use buf::{Cache, Frame, Gone, RxQueue, TxCaps, TxQueue, Unsent};
use drivers::{Device, DeviceControl, Link};
use graph::Worker;
use wire::Mac;

use super::{Install, Parts, Router, Sizes};
use crate::ip::{Address, Prefix6, Source};

/// Nanoseconds per millisecond.
pub const MS: u64 = 1_000_000;
/// Number of workers; each polls one queue of every link.
pub const WORKERS: usize = 2;

/// The frames on a link. Each frame to the router is for one of the receive queues.
#[derive(Default)]
struct OnLink {
    /// True if the device refuses to go up or down.
    refuses: bool,
    to_router: VecDeque<(usize, Vec<u8>)>,
    from_router: Vec<Vec<u8>>,
}

/// The other end of a link.
#[derive(Clone, Default)]
struct Far(Arc<Mutex<OnLink>>);

struct Rx(Far, usize);
struct Tx(Far);
struct Control(Far);

impl RxQueue for Rx {
    fn poll(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Gone> {
        let mut far = self.0.0.lock().unwrap();
        let mine = far.to_router.iter().position(|f| f.0 == self.1).and_then(|at| far.to_router.remove(at));
        if let Some((_, bytes)) = mine
            && frame.alloc(cache, 1) == 1
        {
            assert!(frame.get(0).unwrap().fill(&bytes));
        }
        Ok(())
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl TxQueue for Tx {
    fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Unsent> {
        self.0.0.lock().unwrap().from_router.extend(frame.packets().map(|p| p.bytes().to_vec()));
        frame.free(cache);
        Ok(())
    }
    fn caps(&self) -> TxCaps {
        TxCaps::default()
    }
}

impl DeviceControl for Control {
    fn set_admin(&mut self, _: bool) -> std::io::Result<()> {
        match self.0.0.lock().unwrap().refuses {
            true => Err(std::io::Error::other("refused by the test")),
            false => Ok(()),
        }
    }
    fn set_mtu(&mut self, _: u16) -> std::io::Result<()> {
        Ok(())
    }
    fn set_mac(&mut self, _: [u8; 6]) -> std::io::Result<()> {
        Ok(())
    }
    fn link(&mut self) -> Link {
        Link { present: true, carrier: true, speed_mbps: None }
    }
    fn describe(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// A router with the interfaces 0 and 1, whose time the test sets.
pub struct Lab {
    /// The router.
    pub router: Router,
    /// Its workers.
    pub workers: Vec<Worker>,
    far: Vec<Far>,
    /// The time in nanoseconds of the monotonic clock.
    pub now: u64,
}

/// Returns the Ethernet address of an interface.
pub fn own_mac(interface: u32) -> Mac {
    Mac([2, 0, 0, 0, 0, interface as u8])
}

impl Lab {
    /// Creates a router with two links. `address` returns the address of each interface. The router has already sent its initial
    /// announcements.
    pub fn new(address: impl Fn(u32) -> Address) -> Lab {
        Lab::with(crate::testing::install, address)
    }

    /// Like [`new`](Self::new), with the nodes that `install` adds.
    pub fn with(install: impl Install, address: impl Fn(u32) -> Address) -> Lab {
        let sizes = Sizes { buffers: 2048, workers: WORKERS };
        let Parts { router, workers } = Router::build(install, &sizes).unwrap();
        let mut lab = Lab { router, workers, far: Vec::new(), now: 1_000_000 * MS };
        lab.run();
        for name in ["left", "right"] {
            let far = Far::default();
            let device = Device {
                kind: "test",
                input_node: "pg-input",
                rx: (0..WORKERS).map(|q| Box::new(Rx(far.clone(), q)) as Box<dyn RxQueue>).collect(),
                tx: vec![Box::new(Tx(far.clone()))],
                mac: own_mac(lab.far.len() as u32).0,
                mtu: 1500,
                control: Box::new(Control(far.clone())),
            };
            let index = lab.router.add_device(name, device).unwrap();
            assert_eq!(index as usize, lab.far.len());
            lab.far.push(far);
            lab.router.set_admin(index, true).unwrap();
            lab.router.add_address(index, address(index)).unwrap();
        }
        lab.pass(5000);
        (0..2).for_each(|i| drop(lab.sent(i)));
        lab
    }

    /// Runs one iteration of each worker's loop.
    pub fn turn_workers(&mut self) {
        for worker in &mut self.workers {
            let mut participant = self.router.participant();
            let section = participant.enter();
            worker.turn_at(section.guard(), self.now);
        }
    }

    /// Runs the workers and the main thread alternately, six times each. This suffices for the work of these tests.
    pub fn run(&mut self) {
        for _ in 0..6 {
            self.turn_workers();
            self.router.poll(self.now);
        }
    }

    /// Lets `ms` milliseconds pass, rounded down to hundreds, and runs the router every 100 milliseconds.
    pub fn pass(&mut self, ms: u64) {
        for _ in 0..ms / 100 {
            self.now += 100 * MS;
            self.run();
        }
    }

    /// Adds a frame to a receive queue of an interface, without running the router.
    pub fn put(&mut self, interface: u32, queue: usize, frame: Vec<u8>) {
        self.far[interface as usize].0.lock().unwrap().to_router.push_back((queue, frame));
    }

    /// Adds a frame to a receive queue of an interface, and runs the router.
    pub fn receive(&mut self, interface: u32, queue: usize, frame: Vec<u8>) {
        self.put(interface, queue, frame);
        self.run();
    }

    /// Sets whether the device of an interface refuses to go up or down.
    pub fn refuse(&mut self, interface: u32, refuses: bool) {
        self.far[interface as usize].0.lock().unwrap().refuses = refuses;
    }

    /// Removes the route to the first IPv6 network of an interface without the router's knowledge. A change that withdraws this route then
    /// fails and is undone. Returns the network.
    pub fn break_network6(&mut self, interface: u32) -> Prefix6 {
        let Router { ip6, near, .. } = &mut self.router;
        let network = ip6.connected[&interface].iter().find(|(_, prefix, _)| prefix.len() == 64).unwrap().1;
        ip6.routes.remove(0, network, Source::INTERFACE, near).unwrap();
        network
    }

    /// Returns the frames that were sent on an interface since the last call.
    pub fn sent(&mut self, interface: u32) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.far[interface as usize].0.lock().unwrap().from_router)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.run();
        self.workers.clear();
        self.router.bufs.publish();
        self.router.domain.collect();
        let stats = self.router.pool().stats();
        assert_eq!((stats.used, stats.lost), (0, 0), "buffers leaked or packets lost without a reason");
    }
}

//! Helpers shared by the tests of several features.

use std::any::Any;
use std::cell::RefCell;
use std::net::{Ipv4Addr, Ipv6Addr};

use graph::{Builder, GraphError, Worker};
use infra::quiesce::Domain;
use testkit::harness::Harness;
use wire::Mac;

use crate::ethernet::Vlans;
use crate::interface::{Interface, Kind};
use crate::ip::{Address, OwnAddresses};
use crate::nodes::ip::local::Ip4Local;
use crate::nodes::ip::local6::Ip6Local;
use crate::router::{Hooks, Install, Parts, Router, Sizes};
use crate::setting::Setting;
use crate::tables::{Tables, Writers, tables};

pub use crate::router::lab::{Lab, MS, WORKERS, own_mac};

/// Returns the internet checksum by a simple implementation (RFC 1071 section 4.1). It is 0 for data with a
/// valid checksum.
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Returns the TCP or UDP checksum of an IPv4 packet by a simple implementation. It is 0 for a packet with a valid checksum.
pub fn transport_checksum(l3: &[u8]) -> u16 {
    let header = usize::from(l3[0] & 15) * 4;
    let l4 = &l3[header..];
    let mut all = l3[12..20].to_vec();
    all.extend([0, l3[9]]);
    all.extend((l4.len() as u16).to_be_bytes());
    all.extend(l4);
    checksum(&all)
}

/// Tables for tests, with the interfaces and addresses that the nodes under test read.
pub struct Bench {
    /// The quiescence domain of the tables.
    pub domain: Domain,
    /// The write handles of the tables, as the main thread uses them.
    pub writers: Writers,
    /// The read handles of the tables, as workers use them.
    pub tables: Tables,
    hooks: RefCell<Hooks>,
}

impl Default for Bench {
    fn default() -> Bench {
        let domain = Domain::new();
        let (writers, tables) = tables(&domain).unwrap();
        let hooks = RefCell::new(Hooks::new(&domain, Sizes::default().buffers));
        Bench { domain, writers, tables, hooks }
    }
}

impl Bench {
    /// Creates empty tables.
    pub fn new() -> Bench {
        Bench::default()
    }

    /// Adds an interface in the VRF with index `fib`, and returns its index. If `ip4` is given, the interface has this address with
    /// prefix length 24.
    pub fn interface(&mut self, fib: u16, ip4: Option<Ipv4Addr>) -> u32 {
        self.interface_with(fib, ip4.iter().map(|&address| Address::new(address, 24)).collect())
    }

    /// Adds an interface with these addresses. Returns its index.
    pub fn interface_with(&mut self, fib: u16, addresses: Vec<Address>) -> u32 {
        let index = self.writers.interfaces.reserve().unwrap();
        let record = Interface {
            kind: Kind::Device,
            device: index,
            mac: Mac([2, 0, 0, 0, 0, index as u8]),
            up: true,
            fib,
            mtu: 1500,
            vlans: Vlans::default(),
            proxy: false,
            mode: None,
            addresses,
        };
        self.writers.interfaces.set(index, record).unwrap();
        index
    }

    /// Sets the router's own IPv4 addresses, each with its VRF.
    pub fn own(&mut self, addresses: &[(u16, Ipv4Addr)]) {
        let all = addresses.iter().map(|(fib, address)| (*fib, Address { address: *address, len: 32 }));
        self.writers.ip4.own.set(all.fold(OwnAddresses::default(), |own, (fib, a)| own.with(fib, a, 0)));
    }

    /// Sets the router's own IPv6 addresses, each with its VRF and its interface.
    pub fn own6(&mut self, addresses: &[(u16, Ipv6Addr, u32)]) {
        let all = addresses.iter().map(|&(fib, address, on)| (fib, Address { address, len: 64 }, on));
        self.writers.ip6.own.set(all.fold(OwnAddresses::default(), |own, (fib, a, on)| own.with(fib, a, on)));
    }

    /// Sets the value of a setting for an interface. A feature in the harness must have declared the setting.
    pub fn set<T: Setting>(&self, index: u32, value: T) {
        self.hooks.borrow_mut().settings.column_mut().unwrap().put(index, value).unwrap();
    }

    /// Calls `with` on the state of a feature. A feature in the harness must have declared it.
    pub fn state<T: Any + Send, R>(&self, with: impl FnOnce(&mut T) -> R) -> R {
        with(self.hooks.borrow_mut().state(|_| panic!("no feature declared it")).unwrap())
    }

    /// Returns the counters of a setting.
    pub fn counts<T: Setting>(&self) -> T::Counts {
        self.hooks.borrow_mut().setting::<T>().unwrap().counts
    }

    /// Creates a harness with the nodes that `install` adds.
    pub fn harness(&self, install: impl FnOnce(&mut Builder, &Tables, &mut Hooks)) -> Harness {
        Harness::in_domain(&self.domain, |b| install(b, &self.tables, &mut self.hooks.borrow_mut()))
    }
}

/// Adds the nodes `ip4-local` and `ip6-local`.
pub fn local_nodes(b: &mut Builder, t: &Tables) {
    let (for4, for6) = (t.clone(), t.clone());
    b.frame(move |_| Ok(Ip4Local::new(&for4)));
    b.frame(move |_| Ok(Ip6Local::new(&for6)));
}

/// Adds the nodes that every router has, and the input node of the packet generator.
///
/// # Errors
/// If the graph refuses a node or a connection between nodes.
pub fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    crate::nodes::interface::install_input(b, t, drivers::pktgen::INPUT_NODE);
    crate::install(b, t, hooks)
}

/// Builds a router with one worker. The worker has no thread of its own: the test runs it with [`turn`].
pub fn router() -> (Router, Worker) {
    router_with(install)
}

/// Like [`router`], with the nodes that `install` adds.
pub fn router_with(install: impl Install) -> (Router, Worker) {
    let Parts { router, mut workers } = Router::build(install, &Sizes { buffers: 1024, workers: 1 }).unwrap();
    (router, workers.remove(0))
}

/// Runs one iteration of a worker's loop.
pub fn turn(router: &Router, worker: &mut Worker) {
    let mut participant = router.participant();
    let section = participant.enter();
    worker.turn(section.guard());
}

#[cfg(test)]
pub(crate) use toy::{TOY, install_toy};

/// A feature for tests of feature arcs.
#[cfg(test)]
mod toy {
    use buf::Packet;
    use graph::{Builder, Cx, PacketNode, Verdict, edges, reasons};

    /// The name of the feature, which drops every packet in the arc `ip4-unicast`.
    pub(crate) const TOY: &str = "toy";

    struct Toy;

    edges! { pub enum Next { Continue = "next-feature" } }
    reasons! { pub enum Reason { Kept = "toy", Info, "the toy feature drops every packet"; } }

    impl PacketNode for Toy {
        const NAME: &'static str = TOY;
        type Next = Next;
        type Drop = Reason;

        fn one(&mut self, _: &Cx<'_>, _: &mut Packet<'_>) -> Verdict<Next, Reason> {
            Verdict::Drop(Reason::Kept)
        }
    }

    /// Adds the feature's node, and registers the feature in the arc.
    pub(crate) fn install_toy(b: &mut Builder) {
        b.packet(|_| Ok(Toy));
        b.feature("ip4-unicast", TOY, &[], &[]);
    }
}

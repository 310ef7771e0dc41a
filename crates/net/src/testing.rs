//! What the tests of several features share.

use std::any::Any;
use std::cell::RefCell;
use std::net::{Ipv4Addr, Ipv6Addr};

use graph::{Builder, Worker};
use infra::quiesce::Domain;
use testkit::harness::Harness;
use wire::Mac;

use crate::ethernet::Vlans;
use crate::interface::{Interface, Kind};
use crate::ip::local::Ip4Local;
use crate::ip::local6::Ip6Local;
use crate::ip::{Address, OwnAddresses};
use crate::router::{Hooks, Parts, Router, Sizes};
use crate::setting::Setting;
use crate::tables::{Tables, Writers, tables};

/// The plain form of the internet checksum (RFC 1071 section 4.1): 0 for data that carries its own.
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The checksum of TCP or UDP over IPv4 by the plain form.
pub fn transport_checksum(l3: &[u8]) -> u16 {
    let header = usize::from(l3[0] & 15) * 4;
    let l4 = &l3[header..];
    let mut all = l3[12..20].to_vec();
    all.extend([0, l3[9]]);
    all.extend((l4.len() as u16).to_be_bytes());
    all.extend(l4);
    checksum(&all)
}

/// Tables with the interfaces and addresses that nodes under test read.
pub struct Bench {
    /// Tables are read within its sections.
    pub domain: Domain,
    /// The main thread's side of the tables.
    pub writers: Writers,
    /// The workers' side.
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
    /// Empty tables.
    pub fn new() -> Bench {
        Bench::default()
    }

    /// Adds an interface, with an address on a /24.
    pub fn interface(&mut self, fib: u16, ip4: Option<Ipv4Addr>) -> u32 {
        self.interface_with(fib, ip4.iter().map(|&address| Address::new(address, 24)).collect())
    }

    /// Adds an interface with these addresses.
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

    /// Says which addresses are the router's own.
    pub fn own(&mut self, addresses: &[(u16, Ipv4Addr)]) {
        let all = addresses.iter().map(|(fib, address)| (*fib, Address { address: *address, len: 32 }));
        self.writers.ip4.own.set(all.fold(OwnAddresses::default(), |own, (fib, a)| own.with(fib, a, 0)));
    }

    /// Says which IPv6 addresses are the router's own, on which interface.
    pub fn own6(&mut self, addresses: &[(u16, Ipv6Addr, u32)]) {
        let all = addresses.iter().map(|&(fib, address, on)| (fib, Address { address, len: 64 }, on));
        self.writers.ip6.own.set(all.fold(OwnAddresses::default(), |own, (fib, a, on)| own.with(fib, a, on)));
    }

    /// Gives an interface a setting that a harness has.
    pub fn set<T: Setting>(&self, index: u32, value: T) {
        self.hooks.borrow_mut().settings.column_mut().unwrap().put(index, value).unwrap();
    }

    /// What a feature of the harness keeps for the main thread.
    pub fn state<T: Any + Send, R>(&self, with: impl FnOnce(&mut T) -> R) -> R {
        with(self.hooks.borrow_mut().state(|_| panic!("no feature declared it")).unwrap())
    }

    /// What a setting's feature counted.
    pub fn counts<T: Setting>(&self) -> T::Counts {
        self.hooks.borrow_mut().setting::<T>().unwrap().counts
    }

    /// A harness of what `install` adds.
    pub fn harness(&self, install: impl FnOnce(&mut Builder, &Tables, &mut Hooks)) -> Harness {
        Harness::in_domain(&self.domain, |b| install(b, &self.tables, &mut self.hooks.borrow_mut()))
    }
}

/// Adds the nodes that take what is for the router.
pub fn local_nodes(b: &mut Builder, t: &Tables) {
    let (for4, for6) = (t.clone(), t.clone());
    b.frame(move |_| Ok(Ip4Local::new(&for4)));
    b.frame(move |_| Ok(Ip6Local::new(&for6)));
}

/// A router with one worker, which is turned by hand.
pub fn router() -> (Router, Worker) {
    let Parts { router, mut workers } =
        Router::build(crate::install, &Sizes { buffers: 1024, workers: 1 }).unwrap();
    (router, workers.remove(0))
}

/// One turn of a worker.
pub fn turn(router: &Router, worker: &mut Worker) {
    let mut participant = router.participant();
    let section = participant.enter();
    worker.turn(section.guard());
}

#[cfg(test)]
pub(crate) use toy::{TOY, install_toy};

/// A feature for tests of what features can.
#[cfg(test)]
mod toy {
    use buf::Packet;
    use graph::{Builder, Cx, PacketNode, Verdict, edges, reasons};

    /// The feature, which lets no packet of the arc `ip4-unicast` pass.
    pub(crate) const TOY: &str = "toy";

    struct Toy;

    edges! { pub enum Next { Continue = "next-feature" } }
    reasons! { pub enum Reason { Kept = "toy", Info, "the toy lets no packet pass"; } }

    impl PacketNode for Toy {
        const NAME: &'static str = TOY;
        type Next = Next;
        type Drop = Reason;

        fn one(&mut self, _: &Cx<'_>, _: &mut Packet<'_>) -> Verdict<Next, Reason> {
            Verdict::Drop(Reason::Kept)
        }
    }

    /// Adds it.
    pub(crate) fn install_toy(b: &mut Builder) {
        b.packet(|_| Ok(Toy));
        b.feature("ip4-unicast", TOY, &[], &[]);
    }
}

//! The routes of a benchmark, and the packets sent to them.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use drivers::pktgen::{Field, Mode, Template};
use net::ip::IpPrefix;
use testkit::rib::{self, Random};
use wire::Mac;
use wire::builder::PacketBuilder;

/// Length in bytes of the frame check sequence (FCS), which frames in memory do not have.
const FCS: usize = 4;
/// First destination of the consecutive IPv4 networks.
const FIRST4: u32 = 0x1400_0000;
/// First destination of the IPv6 networks, 2001:db8::/32.
const FIRST6: u128 = 0x2001_0db8 << 96;
/// Offset of the IPv4 destination address in a frame, in bytes.
const DST4: usize = 14 + 16;
/// Offset of the IPv6 destination address in a frame, in bytes.
const DST6: usize = 14 + 24;

/// The routes of a benchmark.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// This number of consecutive /24s, with random destinations in all of them.
    Consecutive4(u32),
    /// One IPv6 /32, with random destinations.
    One6,
    /// This number of consecutive IPv6 prefixes, a quarter each of /48, /64, /112 and /128, with random destinations.
    Mixed6(u32),
    /// The table of a real IPv4 router, with the size of today's full tables; all prefixes are equally likely.
    Real4,
    /// The table of a real IPv6 router, with the size of today's full tables; all prefixes are equally likely.
    Real6,
    /// Both real tables, with three IPv4 packets for each IPv6 packet.
    Both,
}

/// The routes, and the packets sent to them.
#[derive(Default)]
pub struct Load {
    pub prefixes: Vec<IpPrefix>,
    pub templates: Vec<Template>,
}

/// Returns a packet to `dst` whose frame has `size` bytes, including the FCS.
fn packet(dst: IpAddr, size: usize, router: Mac) -> Template {
    let b = match dst {
        IpAddr::V4(dst) => PacketBuilder::ipv4(Ipv4Addr::new(198, 18, 0, 2), dst),
        IpAddr::V6(dst) => PacketBuilder::ipv6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2), dst),
    };
    let b = b.ethernet(Mac([2, 0, 0, 0, 9, 9]), router).udp(1024, 1024);
    let payload = size.saturating_sub(FCS + b.header_len());
    Template::fixed(b.payload(&vec![0; payload]).build())
}

fn random(offset: usize, width: usize, min: u64, max: u64, ip4_checksum: bool) -> Field {
    Field { offset, width, mode: Mode::Random { min, max }, ip4_checksum }
}

impl Load {
    /// Returns the routes of `table`, and the packets sent to them: frames of these sizes to a port with the Ethernet address `router`.
    pub fn new(table: Table, sizes: &[usize], router: Mac) -> Result<Load, Box<dyn Error>> {
        let mut load = Load::default();
        match table {
            Table::Consecutive4(n) => load.consecutive(n, sizes, router),
            Table::One6 => load.one6(sizes, router),
            Table::Mixed6(n) => load.mixed(n, sizes, router),
            Table::Real4 => load.real::<u32>(rib::TODAY.0, sizes, router, 1)?,
            Table::Real6 => load.real::<u128>(rib::TODAY.1, sizes, router, 1)?,
            Table::Both => {
                load.real::<u32>(rib::TODAY.0, sizes, router, 3)?;
                load.real::<u128>(rib::TODAY.1, sizes, router, 1)?;
            }
        }
        Ok(load)
    }

    fn consecutive(&mut self, n: u32, sizes: &[usize], router: Mac) {
        let first = IpPrefix::new(Ipv4Addr::from_bits(FIRST4).into(), 24);
        self.prefixes.extend((0..n).filter_map(|i| first.nth(i)));
        let last = u64::from(FIRST4) + u64::from(n) * 256 - 1;
        self.templates.extend(sizes.iter().map(|size| {
            let mut t = packet(first.address(), *size, router);
            t.fields.push(random(DST4, 4, u64::from(FIRST4), last, true));
            t
        }));
    }

    fn one6(&mut self, sizes: &[usize], router: Mac) {
        let prefix = IpPrefix::new(Ipv6Addr::from_bits(FIRST6).into(), 32);
        self.prefixes.push(prefix);
        self.templates.extend(sizes.iter().map(|size| {
            let mut t = packet(prefix.address(), *size, router);
            t.fields.extend([4, 8, 12].map(|at| random(DST6 + at, 4, 0, u32::MAX.into(), false)));
            t
        }));
    }

    fn mixed(&mut self, n: u32, sizes: &[usize], router: Mac) {
        let each = n / 4;
        for (block, len) in [48u8, 64, 112, 128].into_iter().enumerate() {
            // Each block has its own /32. Its prefixes differ in their last 32 bits, or last 16 bits for a /48.
            let first = FIRST6 + ((block as u128) << 96);
            let network = IpPrefix::new(Ipv6Addr::from_bits(first).into(), len);
            self.prefixes.extend((0..each).filter_map(|i| network.nth(i)));
            let (end, width) = (usize::from(len) / 8, if len == 48 { 2 } else { 4 });
            for size in sizes {
                let mut t = packet(network.address(), *size, router);
                t.fields.push(random(DST6 + end - width, width, 0, u64::from(each) - 1, false));
                let behind = (16 - end).min(8);
                if behind > 0 {
                    t.fields.push(random(
                        DST6 + 16 - behind,
                        behind,
                        0,
                        u64::MAX >> (64 - 8 * behind),
                        false,
                    ));
                }
                self.templates.push(t);
            }
        }
    }

    fn real<A: Address>(
        &mut self,
        n: usize,
        sizes: &[usize],
        router: Mac,
        weight: u32,
    ) -> Result<(), Box<dyn Error>> {
        let (what, prefixes) = rib::real::<A>()?;
        eprint!("{} prefixes {what}, {n} with those of the same kind … ", prefixes.len());
        let mut r = Random::new(5);
        // Leaves out prefixes whose packets a router does not forward: special-purpose and connected networks.
        let usable = |(prefix, _): &(A, u8)| prefix.forwarded();
        let all: Vec<_> = rib::extend(&prefixes, n).into_iter().filter(usable).collect();
        self.prefixes.extend(all.iter().map(|(prefix, len)| IpPrefix::new(prefix.to_ip(), *len)));
        // A longer prefix may cover a destination. The packet then goes to the next hop of that prefix.
        let below =
            |r: &mut Random, p: (A, u8)| Some(rib::below(p, r)).filter(|dst| dst.forwarded()).unwrap_or(p.0);
        let mut destinations: Vec<A> = all.iter().map(|p| below(&mut r, *p)).collect();
        r.shuffle(&mut destinations);
        for (i, size) in sizes.iter().enumerate() {
            let mine = destinations.iter().skip(i).step_by(sizes.len());
            let mut t = packet(destinations[0].to_ip(), *size, router);
            t.weight = weight;
            t.fields = A::destinations(mine.copied());
            self.templates.push(t);
        }
        Ok(())
    }
}

/// An IP address as a number. The variable fields of packets are made from such addresses.
trait Address: rib::Family {
    /// Returns the variable fields that send packets to these destinations, one after the other.
    fn destinations(all: impl Iterator<Item = Self>) -> Vec<Field>;
}

impl Address for u32 {
    fn destinations(all: impl Iterator<Item = u32>) -> Vec<Field> {
        let mode = Mode::List(all.map(u64::from).collect());
        vec![Field { offset: DST4, width: 4, mode, ip4_checksum: true }]
    }
}

impl Address for u128 {
    fn destinations(all: impl Iterator<Item = u128>) -> Vec<Field> {
        let (upper, lower): (Vec<u64>, Vec<u64>) = all.map(|a| ((a >> 64) as u64, a as u64)).unzip();
        let field = |offset, list: Vec<u64>| Field {
            offset,
            width: 8,
            mode: Mode::List(list.into()),
            ip4_checksum: false,
        };
        vec![field(DST6, upper), field(DST6 + 8, lower)]
    }
}

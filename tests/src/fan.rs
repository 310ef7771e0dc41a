//! A router that reads packets from files and writes them into files. No packet is lost outside of the router, however
//! busy the machine is, and each one can be examined.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

use testkit::netns::Lab;
use testkit::rib::Family;
use testkit::router::Router;
use wire::Mac;
use wire::builder::PacketBuilder;

use crate::hop::{HOPS, PORTS, gateway};

/// The router's Ethernet address on all input ports.
const INPUT: Mac = Mac([2, 0, 0, 0, 0, 1]);
/// Source addresses of the packets.
const SENDERS: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(198, 18, 0, 2), Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2));
/// Header of a pcap file: version 2.4, packets of up to 65,535 bytes, Ethernet.
const FILE_HEADER: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1];
/// Length of the header before each packet in a pcap file.
const RECORD_HEADER: usize = 16;
/// Number of packets with the same time stamp.
const BURST: usize = 64;
/// Time limit for a command that changes a whole table.
const LONG: Duration = Duration::from_secs(120);

/// Builds a packet to an address, with a number that identifies it, and a source port.
pub fn frame(to: IpAddr, number: u32, port: u16) -> Vec<u8> {
    let b = match to {
        IpAddr::V4(to) => PacketBuilder::ipv4(SENDERS.0, to),
        IpAddr::V6(to) => PacketBuilder::ipv6(SENDERS.1, to),
    };
    b.ethernet(Mac([2; 6]), INPUT).udp(port, 7).payload(&number.to_be_bytes()).build()
}

/// The output port and the destination Ethernet address of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Way {
    port: u16,
    mac: Mac,
}

impl Way {
    /// Returns the way to the next hop with this number.
    pub fn to<A: Family>(hop: u16) -> Way {
        let [high, low] = hop.to_be_bytes();
        Way { port: hop % PORTS, mac: Mac([2, A::BITS, 0, 0, high, low]) }
    }
}

/// A forwarded packet.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The packet's number.
    pub number: u32,
    /// The output port and the destination Ethernet address.
    pub way: Way,
}

impl Arrival {
    /// Parses a frame. `None` for messages of the router itself.
    fn of(port: u16, frame: &[u8]) -> Option<Arrival> {
        let (link, packet) = frame.split_first_chunk::<14>()?;
        let (source, number) = match link[12] {
            0x08 => (IpAddr::from(<[u8; 4]>::try_from(packet.get(12..16)?).ok()?), packet.get(28..32)?),
            _ => (IpAddr::from(<[u8; 16]>::try_from(packet.get(8..24)?).ok()?), packet.get(48..52)?),
        };
        let ours = source == SENDERS.0 || source == SENDERS.1;
        let number = u32::from_be_bytes(number.try_into().ok()?);
        let mac = Mac(*link.first_chunk()?);
        ours.then_some(Arrival { number, way: Way { port, mac } })
    }
}

/// Packets that arrive at a port of their own.
#[derive(Debug)]
pub struct Input {
    /// The frames, in the order in which they arrive.
    pub frames: Vec<Vec<u8>>,
    /// Packets a second. They arrive in bursts, and the worker sleeps between them.
    pub rate: u32,
    /// How many times the frames arrive.
    pub rounds: u32,
}

/// The router, with all its next hops as static neighbors.
#[derive(Debug)]
pub struct Fan {
    /// The router.
    pub router: Router,
    outputs: Vec<Recorded>,
}

impl Fan {
    /// Starts a router for these packets, which arrive once they are [played](Self::play). `commands` run after the ports are
    /// made. `None` if namespaces are not available (reported as skipped).
    ///
    /// # Panics
    /// When a file cannot be written or read.
    pub fn new(inputs: &[Input], commands: &str) -> Option<Fan> {
        let host = Lab::new()?.host("r");
        let file = |n: u16| host.lab().dir().join(format!("{n}.pcap"));
        let mut script = String::new();
        for n in 0..PORTS {
            script += &format!(
                "create pcap interface pcap{n} tx {} max {}\n\
                 set interface ip address pcap{n} 10.{n}.0.1/16\n\
                 set interface ip address pcap{n} fd00:0:0:{n}::1/64\n\
                 set interface state pcap{n} up\n",
                file(n).display(),
                u64::MAX,
            );
        }
        for n in 0..HOPS {
            script += &format!(
                "set ip neighbor pcap{} {} {}\n",
                n % PORTS,
                gateway::<u32>(n),
                Way::to::<u32>(n).mac
            );
            script += &format!(
                "set ip neighbor pcap{} {} {}\n",
                n % PORTS,
                gateway::<u128>(n),
                Way::to::<u128>(n).mac
            );
        }
        for (n, input) in (PORTS..).zip(inputs) {
            write(&file(n), input).unwrap_or_else(|e| panic!("{}: {e}", file(n).display()));
            script += &format!(
                "create pcap interface pcap{n} rx {} loop {}\n\
                 set interface mac address pcap{n} {INPUT}\n\
                 set interface ip address pcap{n} 10.{n}.0.1/16\n\
                 set interface ip address pcap{n} fd00:0:0:{n}::1/64\n",
                file(n).display(),
                input.rounds,
            );
        }
        let router = Router::start(&host, &(script + commands));
        let outputs = (0..PORTS).map(|n| Recorded::open(&file(n))).collect();
        Some(Fan { router, outputs })
    }

    /// Starts or stops sending the packets of an input.
    pub fn play(&self, input: u16, on: bool) {
        let state = if on { "up" } else { "down" };
        self.router.ctl(&format!("set interface state pcap{} {state}", PORTS + input));
    }

    /// Returns the number of packets of an input that the router has received so far.
    pub fn sent(&self, input: u16) -> u64 {
        self.router.counter(&format!("pcap{}", PORTS + input), "rx packets")
    }

    /// Passes the packets forwarded since the last call to `seen`, and returns their number.
    ///
    /// # Panics
    /// When a file cannot be read.
    pub fn arrived(&mut self, mut seen: impl FnMut(Arrival)) -> u64 {
        let mut count = 0;
        for (port, output) in (0..).zip(&mut self.outputs) {
            output.read(|frame| {
                if let Some(arrival) = Arrival::of(port, frame) {
                    count += 1;
                    seen(arrival);
                }
            });
        }
        count
    }

    /// Runs a command that reads a file, with this text as the file.
    ///
    /// # Panics
    /// When it fails.
    pub fn run(&self, command: &str, text: &str) {
        let path = self.router.socket().with_file_name("text");
        fs::write(&path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        self.router.in_background(&format!("{command} {}", path.display())).finish(LONG).expect_ok();
    }
}

/// A capture that is still being written.
#[derive(Debug)]
struct Recorded {
    file: File,
    /// The beginning of a packet whose rest is not written yet.
    rest: Vec<u8>,
}

impl Recorded {
    fn open(path: &Path) -> Recorded {
        let mut file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        file.read_exact(&mut [0; size_of_val(&FILE_HEADER)])
            .expect("the router writes the header of its files");
        Recorded { file, rest: Vec::new() }
    }

    fn read(&mut self, mut seen: impl FnMut(&[u8])) {
        self.file.read_to_end(&mut self.rest).expect("the router's file can be read");
        let mut rest = &self.rest[..];
        while let Some((header, behind)) = rest.split_first_chunk::<RECORD_HEADER>() {
            let [.., a, b, c, d] = *header;
            let Some((frame, behind)) = behind.split_at_checked(u32::from_le_bytes([a, b, c, d]) as usize)
            else {
                break;
            };
            seen(frame);
            rest = behind;
        }
        let shown = self.rest.len() - rest.len();
        self.rest.drain(..shown);
    }
}

fn write(path: &Path, input: &Input) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    FILE_HEADER.iter().try_for_each(|word| file.write_all(&word.to_le_bytes()))?;
    for (n, frame) in input.frames.iter().enumerate() {
        let us = (n - n % BURST) as u64 * 1_000_000 / u64::from(input.rate);
        let len = frame.len() as u32;
        let header = [(us / 1_000_000) as u32, (us % 1_000_000) as u32, len, len];
        header.iter().try_for_each(|word| file.write_all(&word.to_le_bytes()))?;
        file.write_all(frame)?;
    }
    file.flush()
}

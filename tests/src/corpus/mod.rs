//! A corpus of malformed and odd packets, as a router receives them on a link where any station may send anything. The
//! corpus is generated and always the same.
//!
//! A tester without an IP stack is at both ends. On the router's eth0 it plays the hosts 10.0.0.2 to 10.0.0.240 and
//! 2001:db8::2 to 2001:db8::f0, all with the Ethernet address [`SENDER`]. On eth1 it plays the host 10.0.1.2 and
//! 2001:db8:1::2 with the Ethernet address [`RECEIVER`].

mod ip4;
mod ip6;
mod link;
pub mod tester;

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::Mac;
use wire::builder::PacketBuilder;

pub use tester::{Outcome, Tester};

/// The tester's station on the link of the router's eth0.
pub const SENDER: Mac = Mac([2, 0, 0, 0, 0, 0xa]);
/// The tester's station on the link of the router's eth1.
pub const RECEIVER: Mac = Mac([2, 0, 0, 0, 0, 0xb]);
/// The router's addresses on eth0.
pub const ROUTER: (Mac, Ipv4Addr, Ipv6Addr) =
    (Mac([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 0, 0, 1), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
/// The router's addresses on eth1.
pub const ROUTER_BEHIND: (Mac, Ipv4Addr, Ipv6Addr) =
    (Mac([2, 0, 0, 0, 0, 2]), Ipv4Addr::new(10, 0, 1, 1), Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1));
/// The addresses of the host behind the router.
pub const THERE: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(10, 0, 1, 2), Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2));
/// Number of hosts that send in turn, so that limits of ICMP errors per source have no effect.
pub const SENDERS: u8 = 239;

/// A frame and its kind of oddity.
#[derive(Clone, Debug)]
pub struct Odd {
    /// The kind of oddity, in words.
    pub class: String,
    /// The frame, as it arrives at the router's eth0.
    pub frame: Vec<u8>,
}

/// Collects frames, each from the next host.
#[derive(Default)]
struct Corpus {
    all: Vec<Odd>,
}

impl Corpus {
    /// Returns the number of the host that sends the next packet.
    fn host(&self) -> u8 {
        2 + (self.all.len() % usize::from(SENDERS)) as u8
    }

    fn src4(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, self.host())
    }

    fn src6(&self) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, self.host().into())
    }

    /// Starts an IPv4 packet from the next host.
    fn ip4(&self, dst: Ipv4Addr) -> PacketBuilder {
        let id = self.all.len() as u16;
        PacketBuilder::ipv4(self.src4(), dst).ethernet(SENDER, ROUTER.0).id(id).payload(&[0; 32])
    }

    /// Starts an IPv6 packet from the next host.
    fn ip6(&self, dst: Ipv6Addr) -> PacketBuilder {
        PacketBuilder::ipv6(self.src6(), dst).ethernet(SENDER, ROUTER.0).payload(&[0; 32])
    }

    fn add(&mut self, class: impl Into<String>, frame: Vec<u8>) {
        self.all.push(Odd { class: class.into(), frame });
    }
}

/// Length of an Ethernet header in bytes.
const ETHERNET: usize = 14;

/// Replaces bytes of a packet, counted from the end of its Ethernet header. Checksums stay as they are.
fn patch(mut frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    frame[ETHERNET + at..][..bytes.len()].copy_from_slice(bytes);
    frame
}

/// Replaces bytes like [`patch`] and corrects the checksum of the IPv4 header.
fn patch4(frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = patch(frame, at, bytes);
    wire::ipv4::write_checksum(&mut frame[ETHERNET..]);
    frame
}

/// Returns the whole corpus.
pub fn corpus() -> Vec<Odd> {
    let mut corpus = Corpus::default();
    link::add(&mut corpus);
    ip4::add(&mut corpus);
    ip6::add(&mut corpus);
    corpus.all
}

/// Returns `n` random packets of the [`corpus`] with one to eight bits flipped behind the Ethernet addresses. A quarter of
/// them is also truncated.
pub fn damaged(n: usize) -> Vec<Odd> {
    let all = corpus();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        // Marsaglia's xorshift: the same numbers on every machine.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let odd = (0..n).map(|_| {
        let mut frame = all[random(all.len())].frame.clone();
        for _ in 0..=random(8) {
            let bits = (frame.len() - 12) * 8;
            let bit = random(bits);
            frame[12 + bit / 8] ^= 1 << (bit % 8);
        }
        if random(4) == 0 {
            frame.truncate(ETHERNET + random(frame.len() - ETHERNET + 1));
        }
        Odd { class: "random damage".into(), frame }
    });
    odd.collect()
}

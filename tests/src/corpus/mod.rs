//! A corpus of malformed and odd packets, made by this code and always the same: what a router meets on a link where anybody may send
//! anything.
//!
//! A tester without an IP stack is at both ends: hosts on the router's eth0 have the addresses 10.0.0.2 to 10.0.0.240 and
//! 2001:db8::2 to 2001:db8::f0, all of them [`SENDER`]; the host on eth1 is 10.0.1.2 and 2001:db8:1::2, [`RECEIVER`].

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
/// The host behind the router.
pub const THERE: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(10, 0, 1, 2), Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2));
/// Hosts that packets come from, in turns, so that limits on what one source is told do not matter.
pub const SENDERS: u8 = 239;

/// A frame, and what kind of oddity it has.
#[derive(Clone, Debug)]
pub struct Odd {
    /// What is odd, in words.
    pub class: String,
    /// The frame, as it comes in by the router's eth0.
    pub frame: Vec<u8>,
}

/// Collects frames; each comes from another host than the one before.
#[derive(Default)]
struct Corpus {
    all: Vec<Odd>,
}

impl Corpus {
    /// Number of the host that the next packet comes from.
    fn host(&self) -> u8 {
        2 + (self.all.len() % usize::from(SENDERS)) as u8
    }

    fn src4(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, self.host())
    }

    fn src6(&self) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, self.host().into())
    }

    /// An IPv4 packet from the next host.
    fn ip4(&self, dst: Ipv4Addr) -> PacketBuilder {
        let id = self.all.len() as u16;
        PacketBuilder::ipv4(self.src4(), dst).ethernet(SENDER, ROUTER.0).id(id).payload(&[0; 32])
    }

    /// An IPv6 packet from the next host.
    fn ip6(&self, dst: Ipv6Addr) -> PacketBuilder {
        PacketBuilder::ipv6(self.src6(), dst).ethernet(SENDER, ROUTER.0).payload(&[0; 32])
    }

    fn add(&mut self, class: impl Into<String>, frame: Vec<u8>) {
        self.all.push(Odd { class: class.into(), frame });
    }
}

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// Replaces bytes of a packet behind its Ethernet header, without any regard for checksums.
fn patch(mut frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    frame[ETHERNET + at..][..bytes.len()].copy_from_slice(bytes);
    frame
}

/// As [`patch`], and makes the checksum of the IPv4 header right again.
fn patch4(frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = patch(frame, at, bytes);
    wire::ipv4::write_checksum(&mut frame[ETHERNET..]);
    frame
}

/// Every packet that is odd in a way of its own.
pub fn corpus() -> Vec<Odd> {
    let mut corpus = Corpus::default();
    link::add(&mut corpus);
    ip4::add(&mut corpus);
    ip6::add(&mut corpus);
    corpus.all
}

/// `n` packets of [`corpus`] with one to eight bits flipped, anywhere behind the Ethernet addresses, and some cut off.
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

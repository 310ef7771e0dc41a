//! The tester at both ports of a router, and the outcome of each packet that it sends.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::time::Duration;

use testkit::netns::{Host, Lab};
use wire::builder::PacketBuilder;
use wire::{
    EthernetHeader, IcmpHeader, Icmpv6Header, Ipv4Header, Ipv6Header, Mac, ethertype, icmpv4, icmpv6,
};

use super::{Odd, RECEIVER, ROUTER, ROUTER_BEHIND, SENDER, SENDERS, THERE};

/// Time limit for all packets of a corpus.
const LIMIT: Duration = Duration::from_secs(60);
/// Offset of the ARP operation in a frame.
const ARP_OPERATION: usize = 20;

/// A host without an IP stack. Its devices `in` and `out` are cabled to the router's eth0 and eth1.
#[derive(Debug)]
pub struct Tester {
    host: Host,
}

/// The outcome of a packet: what a router did with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The answers in words, and "forwarded" if the packet was forwarded.
    words: BTreeSet<String>,
    /// Packets that arrived behind the router, without link headers.
    pub forwarded: Vec<Vec<u8>>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.words.is_empty() {
            return f.write_str("silent");
        }
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        f.write_str(&words.join(" and "))
    }
}

impl Tester {
    /// Returns a tester and the namespace of the router, which does not run yet. `None` if namespaces are not available.
    pub fn new() -> Option<(Tester, Host)> {
        let lab = Lab::new()?;
        let (host, r) = (lab.host("tester"), lab.host("r"));
        lab.link((&host, "in"), (&r, "eth0"));
        lab.link((&host, "out"), (&r, "eth1"));
        Some((Tester { host }, r))
    }

    /// Sends all packets, in bursts.
    ///
    /// # Panics
    /// When one cannot be sent.
    pub fn burst(&self, packets: &[Odd]) {
        let frames: Vec<&[u8]> = packets.iter().map(|odd| &odd.frame[..]).collect();
        let sent = self.frames(&frames, "in");
        assert_eq!(sent.trim(), packets.len().to_string());
    }

    /// Sends the packets one by one and returns the outcome of each. A good packet follows each packet. The next packet is sent when the
    /// good packet has arrived and nothing more arrives for `settle`.
    ///
    /// # Panics
    /// When the good packet does not arrive.
    pub fn outcomes(&self, packets: &[&Odd], settle: Duration) -> Vec<Outcome> {
        let good = good();
        let frames: Vec<&[u8]> = packets.iter().map(|odd| &odd.frame[..]).chain([&good[..]]).collect();
        let seen = self.frames(&frames, &format!("in out --settle {}", settle.as_secs_f64()));
        let mut all = vec![Outcome::default(); packets.len()];
        for line in seen.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let &[number, end, hex] = &words[..] else { panic!("unexpected output of frames.py: {line}") };
            let number = number.parse::<usize>().expect("a number");
            let outcome = &mut all[number];
            let frame = from_hex(hex);
            match end {
                "out" => outcome.arrived(&frame),
                _ => outcome.words.extend(answer(&frame, &packets[number].frame)),
            }
        }
        all
    }

    fn frames(&self, frames: &[&[u8]], arguments: &str) -> String {
        let file = self.host.lab().dir().join("frames");
        let lines: Vec<String> = frames.iter().map(|frame| to_hex(frame)).collect();
        fs::write(&file, lines.join("\n")).expect("a file in the lab");
        let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/frames.py");
        self.host.attempt(&format!("python3 {tool} {} {arguments}", file.display()), LIMIT).expect_ok()
    }
}

/// Returns a packet that every router forwards.
pub fn good() -> Vec<u8> {
    let good = PacketBuilder::ipv4("10.0.0.240".parse().expect("an address"), THERE.0);
    good.ethernet(SENDER, ROUTER.0).udp(7, 7).payload(b"a good packet, to be forwarded").build()
}

impl Outcome {
    /// Records a frame that arrived behind the router.
    fn arrived(&mut self, frame: &[u8]) {
        let Some((header, packet)) = EthernetHeader::split(frame) else { return };
        // Messages of the router itself have other destinations.
        if header.dst() == RECEIVER && header.ethertype() != ethertype::ARP {
            self.words.insert("forwarded".into());
            self.forwarded.push(packet.to_vec());
        }
    }
}

/// Describes a frame that came back. `None` if it is not an answer to the frame `sent`.
fn answer(frame: &[u8], sent: &[u8]) -> Option<String> {
    let (header, packet) = EthernetHeader::split(frame)?;
    // Answers to a sender without an address go to all nodes.
    if header.dst() != SENDER && header.dst() != Mac([0x33, 0x33, 0, 0, 0, 1]) {
        return None;
    }
    match header.ethertype() {
        ethertype::ARP => (frame.get(ARP_OPERATION..)?.starts_with(&[0, 2])).then(|| "ARP reply".into()),
        ethertype::IPV4 => {
            let (ip, _) = Ipv4Header::split(packet)?;
            let message = packet.get(ip.header_len()..)?;
            Some(match ip.protocol() {
                6 if is_routers(ip.src().octets()) => "TCP reset".into(),
                1 if !is_about(message, sent, QUOTED) => return None,
                1 => icmp(IcmpHeader::split(message)?.0),
                _ => "sent back".into(),
            })
        }
        ethertype::IPV6 => {
            let (ip, message) = Ipv6Header::split(packet)?;
            match ip.next_header() {
                6 => Some("TCP reset".into()),
                58 if !is_about(message, sent, QUOTED6) => None,
                58 => icmp6(Icmpv6Header::split(message)?.0),
                _ => Some("sent back".into()),
            }
        }
        _ => Some("sent back".into()),
    }
}

/// Position of the addresses in an IPv4 packet that an ICMP error quotes.
const QUOTED: Range<usize> = 12..20;
/// Position of the addresses in an IPv6 packet that an ICMPv6 error quotes.
const QUOTED6: Range<usize> = 8..40;

/// True if a message from the router can be an answer to the frame `sent`: it is no ICMP error, or it quotes the addresses of `sent`. An
/// error that quotes other addresses is about an earlier packet, whose next hop did not answer for seconds.
fn is_about(message: &[u8], sent: &[u8], addresses: Range<usize>) -> bool {
    let reports = if addresses == QUOTED { matches!(message[0], 3 | 5 | 11 | 12) } else { message[0] < 128 };
    let quoted = message.get(IcmpHeader::LEN..).and_then(|quote| quote.get(addresses));
    !reports || quoted.is_some_and(|quoted| sent.windows(quoted.len()).any(|part| part == quoted))
}

fn is_routers(source: [u8; 4]) -> bool {
    [ROUTER.1, ROUTER_BEHIND.1].iter().any(|own| own.octets() == source)
}

fn icmp(h: &IcmpHeader) -> String {
    match h.kind() {
        icmpv4::kind::ECHO_REPLY => "echo reply".into(),
        icmpv4::kind::UNREACHABLE => format!("unreachable {}", h.code()),
        icmpv4::kind::REDIRECT => "redirect".into(),
        icmpv4::kind::TIME_EXCEEDED => "time exceeded".into(),
        icmpv4::kind::PARAMETER_PROBLEM => format!("parameter problem at {}", h.rest() >> 24),
        icmpv4::kind::TIMESTAMP_REPLY => "timestamp reply".into(),
        kind => format!("ICMP {kind}"),
    }
}

fn icmp6(h: &Icmpv6Header) -> Option<String> {
    Some(match h.kind() {
        icmpv6::kind::UNREACHABLE => format!("unreachable {}", h.code()),
        icmpv6::kind::PACKET_TOO_BIG => "packet too big".into(),
        icmpv6::kind::TIME_EXCEEDED => "time exceeded".into(),
        icmpv6::kind::PARAMETER_PROBLEM => format!("parameter problem {} at {}", h.code(), h.rest()),
        icmpv6::kind::ECHO_REPLY => "echo reply".into(),
        icmpv6::kind::NEIGHBOR_ADVERTISEMENT => "advertisement".into(),
        icmpv6::kind::REDIRECT => "redirect".into(),
        // Messages of the router itself.
        _ => return None,
    })
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("a byte in hexadecimal");
    (0..text.len() / 2).map(|i| byte(2 * i)).collect()
}

/// Returns the commands that set up both ports of Volley, with all hosts of the corpus as static neighbors.
pub fn volley() -> String {
    // Incomplete datagrams must not delay the test.
    let mut all = "set ip4-full-reassembly timeout 1\nset ip6-full-reassembly timeout 1\n".to_string();
    for (port, (mac, ip4, ip6)) in [("eth0", ROUTER), ("eth1", ROUTER_BEHIND)] {
        all += &format!("create host-interface name {port}\nset interface mac address host-{port} {mac}\n");
        all += &format!("set interface state host-{port} up\n");
        all += &format!("set interface ip address host-{port} {ip4}/24\n");
        all += &format!("set interface ip address host-{port} {ip6}/64\n");
    }
    neighbors(|port, address, mac| all += &format!("set ip neighbor host-{port} {address} {mac}\n"));
    all
}

/// Sets up Linux in the same way. All else has the kernel's defaults, except that ICMP errors are not limited.
pub fn linux(r: &Host) {
    r.run(
        "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.eth0.rp_filter=0 \
         net.ipv4.conf.eth1.rp_filter=0 net.ipv4.icmp_ratemask=0 net.ipv4.icmp_ratelimit=0 \
         net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.eth0.disable_ipv6=0 net.ipv6.conf.eth1.disable_ipv6=0 \
         net.ipv6.conf.all.forwarding=1 net.ipv6.icmp.ratelimit=0",
    );
    let mut all = String::new();
    for (port, (mac, ip4, ip6)) in [("eth0", ROUTER), ("eth1", ROUTER_BEHIND)] {
        all += &format!("link set {port} down\nlink set {port} address {mac}\nlink set {port} up\n");
        all += &format!("addr add {ip4}/24 broadcast + dev {port}\naddr add {ip6}/64 dev {port} nodad\n");
    }
    neighbors(|port, address, mac| {
        all += &format!("neigh add {address} lladdr {mac} nud permanent dev {port}\n");
    });
    let file = r.lab().dir().join("batch");
    fs::write(&file, all).expect("a file in the lab");
    r.run(&format!("ip -batch {}", file.display()));
}

/// Calls `tell` for each host with the router's port, the host's IP address and its Ethernet address.
fn neighbors(mut tell: impl FnMut(&str, String, Mac)) {
    for n in 2..2 + SENDERS {
        tell("eth0", format!("10.0.0.{n}"), SENDER);
        tell("eth0", format!("2001:db8::{n:x}"), SENDER);
    }
    tell("eth1", THERE.0.to_string(), RECEIVER);
    tell("eth1", THERE.1.to_string(), RECEIVER);
}

//! The description of a stream, in VPP's words:
//!
//! ```text
//! { name x  limit 5  rate 1000  size 64-1500  interface pg0  node ethernet-input  data { PACKET } }
//! ```
//!
//! `size A-B` gives the sizes from A to B one after the other, `size A+B` any of them. A PACKET is one of
//!
//! ```text
//! IP4: MAC -> MAC  UDP: IP -> IP    [ttl N] [tos N]  [UDP: PORT -> PORT]         [PAYLOAD]
//! IP4: MAC -> MAC  TCP: IP -> IP    [ttl N] [tos N]  [TCP: PORT -> PORT [FLAGS]] [PAYLOAD]
//! IP4: MAC -> MAC  ICMP: IP -> IP   [ttl N] [tos N]  [ICMP echo_request]         [PAYLOAD]
//! IP4: MAC -> MAC  NUMBER: IP -> IP [ttl N] [tos N]                              [PAYLOAD]
//! 0x88b5: MAC -> MAC [PAYLOAD]
//! PAYLOAD
//! ```
//!
//! With `node ip4-input` a packet, and its size, begins with the IPv4 header: there is no `IP4: MAC -> MAC` then. It is
//! received with the Ethernet header that a neighbour of the interface would give it.
//!
//! IP addresses and ports may be `A - B`, which counts up from A to B, or `A + B`, which draws at random between
//! them; FLAGS are any of SYN, ACK, FIN, RST, PSH and URG; and a PAYLOAD is `incrementing N` (the bytes 0 to N - 1 again
//! and again) or `hex 0x…`. What is left of the size is zeros.

use std::fmt::Display;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use drivers::pktgen::{Field, Mode, Sizes, Stream, Template};
use wire::builder::PacketBuilder;
use wire::ethernet::ethertype;
use wire::icmpv4::kind;
use wire::tcp::Flags;
use wire::{EthernetHeader, Mac};

use super::words::Words;
use crate::cli::CliError;

/// Where the fields of an IPv4 packet without VLAN tags and options lie, in bytes.
const TOTAL_LEN: usize = 16;
const SRC_IP: usize = 26;
const DST_IP: usize = 30;
const SRC_PORT: usize = 34;
const DST_PORT: usize = 36;
const UDP_LEN: usize = 38;
/// Bytes in front of the IPv4 header, and of the transport header.
const L3: usize = 14;
const L4: usize = 34;
/// Who sends the packets that are described without an Ethernet header.
const NEIGHBOUR: Mac = Mac([2, 0, 0, 0, 0, 1]);
/// Bytes of a packet when nothing is said of its size, or that it needs more.
const SIZE: usize = 64;

/// A description as it was read: the stream, and the interface that it is for.
pub(super) struct Description {
    pub(super) stream: Stream,
    pub(super) interface: String,
    /// Whether the packets are for `ip4-input`: the destination in their Ethernet header is then still to be filled in.
    pub(super) ip4: bool,
}

/// What a packet begins with.
enum Head {
    Ip4(PacketBuilder),
    Raw(Vec<u8>),
}

/// The first header that is described.
#[derive(Clone, Copy, PartialEq)]
enum Begin {
    Ethernet,
    Ip4,
}

/// What is behind the headers.
enum Payload {
    Zeros,
    Incrementing(usize),
    Bytes(Vec<u8>),
}

/// What `data { … }` says.
struct Packet {
    head: Head,
    /// What it begins with, unless that is the payload.
    begin: Option<Begin>,
    fields: Vec<Field>,
    /// Whether the transport header has a length, and a checksum.
    udp: bool,
    checksum: bool,
    payload: Payload,
}

impl Payload {
    /// Bytes that were given, as far as they say how many there are.
    fn len(&self) -> usize {
        if let Payload::Bytes(bytes) = self { bytes.len() } else { 0 }
    }

    fn fill(&self, len: usize) -> Vec<u8> {
        match self {
            Payload::Zeros => vec![0; len],
            Payload::Incrementing(n) => (0..len).map(|i| (i % n) as u8).collect(),
            Payload::Bytes(bytes) => bytes.iter().copied().chain(std::iter::repeat(0)).take(len).collect(),
        }
    }
}

/// Reads the description of a stream.
///
/// # Errors
/// The first word that does not fit, and what would.
pub(super) fn read(text: &str) -> Result<Description, CliError> {
    let mut w = Words::new(text);
    let mut stream = Stream::default();
    let (mut size, mut interface, mut packet) = (None, String::from("pg0"), None);
    let mut ip4 = false;
    w.expect("{")?;
    loop {
        match w.next() {
            Some("}") => break,
            Some("name") => stream.name = w.need("a name")?,
            Some("limit") => stream.limit = Some(w.need("a number of packets")?).filter(|n| *n > 0),
            Some("rate") => stream.rate_pps = Some(w.need("packets a second")?),
            Some("maxframe") => stream.vector = w.need("packets a vector")?,
            Some("size") => {
                let (least, to) = w.varying::<usize>("a size such as 64-1500")?;
                size = Some(match to {
                    None => (least..=least, Sizes::Increasing),
                    Some((most, true)) => (least..=most, Sizes::Random),
                    Some((most, false)) => (least..=most, Sizes::Increasing),
                });
            }
            Some("interface") => interface = w.need("an interface")?,
            Some("node") => {
                ip4 = match w.next() {
                    Some("ethernet-input") => false,
                    Some("ip4-input") => true,
                    other => return Err(w.unexpected("ethernet-input or ip4-input", other)),
                }
            }
            Some("data") => packet = Some(read_packet(&mut w)?),
            other => {
                let expected = "name, limit, rate, maxframe, size, interface, node or data";
                return Err(w.unexpected(expected, other));
            }
        }
    }
    if let Some(more) = w.next() {
        return Err(w.unexpected("nothing behind the last }", Some(more)));
    }
    let Some(mut packet) = packet else { return Err(CliError::new("the stream has no data { … }")) };
    match (ip4, packet.begin) {
        (true, Some(Begin::Ethernet)) => {
            return Err(CliError::new(
                "packets for ip4-input begin with their IPv4 header: leave out \"IP4: MAC -> MAC\", or say \"node \
                 ethernet-input\"",
            ));
        }
        (false, Some(Begin::Ip4)) => {
            return Err(CliError::new(
                "packets for ethernet-input begin with \"IP4: MAC -> MAC\"; those without are for \"node ip4-input\"",
            ));
        }
        (true, None) => {
            packet.head = Head::Raw(EthernetHeader::new(Mac::ZERO, NEIGHBOUR, ethertype::IPV4).0.to_vec())
        }
        _ => {}
    }
    stream.templates = vec![packet.template(size, if ip4 { L3 } else { 0 })?];
    Ok(Description { stream, interface, ip4 })
}

impl Packet {
    /// Bytes of all headers.
    fn headers(&self) -> usize {
        match &self.head {
            Head::Ip4(builder) => builder.header_len(),
            Head::Raw(bytes) => bytes.len(),
        }
    }

    /// The template; the sizes are without the first `unsaid` bytes.
    fn template(
        mut self,
        size: Option<(RangeInclusive<usize>, Sizes)>,
        unsaid: usize,
    ) -> Result<Template, CliError> {
        let headers = self.headers();
        // A frame that is given byte by byte is as long as it is.
        let own = match (&self.head, &self.payload) {
            (Head::Raw(_), Payload::Bytes(bytes)) => headers + bytes.len(),
            _ => SIZE.max(headers + self.payload.len()),
        };
        let (size, sizes) = size.unwrap_or((own - unsaid..=own - unsaid, Sizes::Increasing));
        let (least, most) = (*size.start(), *size.end());
        let shortest = headers.max(L3) - unsaid;
        if least < shortest || least > most {
            return Err(CliError::new(format!(
                "the size {least}-{most} cannot be: a packet like this has at least {shortest} bytes, and the \
                 first size is not larger than the second"
            )));
        }
        let (least, most) = (least.saturating_add(unsaid), most.saturating_add(unsaid));
        let size = least..=most;
        if least < most && matches!(self.head, Head::Ip4(_)) {
            self.fields.push(field(TOTAL_LEN, 2, Mode::Size { less: L3 }, true));
            if self.udp {
                self.fields.push(field(UDP_LEN, 2, Mode::Size { less: L4 }, false));
            }
        }
        let payload = self.payload.fill(most.saturating_sub(headers));
        let bytes = match self.head {
            Head::Ip4(builder) => builder.payload(&payload).build(),
            Head::Raw(bytes) => [bytes, payload].concat(),
        };
        // What does not vary has its checksum already.
        let l4_checksum = self.checksum && !self.fields.is_empty();
        Ok(Template { size, sizes, l4_checksum, fields: self.fields, ..Template::fixed(bytes) })
    }
}

fn field(offset: usize, width: usize, mode: Mode, ip4_checksum: bool) -> Field {
    Field { offset, width, mode, ip4_checksum }
}

/// A value that may vary, and how if it does.
fn value<T: FromStr + Copy + Into<u64> + Display>(
    w: &mut Words<'_>,
    what: &str,
) -> Result<(T, Option<Mode>), CliError> {
    let (from, to) = w.varying::<T>(what)?;
    let Some((to, random)) = to else { return Ok((from, None)) };
    let (min, max) = (from.into(), to.into());
    if min > max {
        return Err(CliError::new(format!("{from} is more than {to}: a range begins with the least")));
    }
    let mode = if random { Mode::Random { min, max } } else { Mode::Increment { min, max, step: 1 } };
    Ok((from, Some(mode)))
}

/// An IPv4 address as a number.
#[derive(Clone, Copy)]
struct Ip(Ipv4Addr);

impl FromStr for Ip {
    type Err = std::net::AddrParseError;
    fn from_str(text: &str) -> Result<Ip, Self::Err> {
        text.parse().map(Ip)
    }
}
impl Display for Ip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
impl From<Ip> for u64 {
    fn from(ip: Ip) -> u64 {
        ip.0.to_bits().into()
    }
}

fn read_packet(w: &mut Words<'_>) -> Result<Packet, CliError> {
    w.expect("{")?;
    let mut packet = Packet {
        head: Head::Raw(Vec::new()),
        begin: None,
        fields: Vec::new(),
        udp: false,
        checksum: false,
        payload: Payload::Zeros,
    };
    let label = w.peek().and_then(|word| word.strip_suffix(':'));
    let of_ip4 = |label: &str| {
        matches!(label, "UDP" | "TCP" | "ICMP") || number(label).is_some_and(|n| n <= u8::MAX.into())
    };
    if label.is_some_and(of_ip4) {
        packet.begin = Some(Begin::Ip4);
        read_ip4(w, &mut packet, NEIGHBOUR, Mac::ZERO)?;
    } else if let Some(label) = label {
        w.next();
        packet.begin = Some(Begin::Ethernet);
        let kind = match label {
            "IP4" => Some(ethertype::IPV4),
            "ARP" => Some(ethertype::ARP),
            "IP6" => Some(ethertype::IPV6),
            _ => number(label).filter(|n| *n >= ethertype::MIN),
        };
        let Some(kind) = kind else {
            return Err(w.unexpected("a type such as \"IP4:\" or \"0x88b5:\"", Some(label)));
        };
        let src: Mac = w.need("an Ethernet address")?;
        w.expect("->")?;
        let dst: Mac = w.need("an Ethernet address")?;
        packet.head = Head::Raw(EthernetHeader::new(dst, src, kind).0.to_vec());
        if label == "IP4" && w.peek().is_some_and(|word| word.ends_with(':')) {
            read_ip4(w, &mut packet, src, dst)?;
        }
    }
    packet.payload = read_payload(w)?;
    if let (Head::Raw(head), Payload::Zeros) = (&packet.head, &packet.payload)
        && head.is_empty()
    {
        let word = w.next();
        return Err(w.unexpected("a packet such as \"IP4: …\", or \"hex 0x…\"", word));
    }
    w.expect("}")?;
    Ok(packet)
}

/// A number, decimal or `0x…`.
fn number(text: &str) -> Option<u16> {
    match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn read_ip4(w: &mut Words<'_>, packet: &mut Packet, src_mac: Mac, dst_mac: Mac) -> Result<(), CliError> {
    let label = w.next().unwrap_or_default();
    let name = label.strip_suffix(':').unwrap_or(label);
    let (src, src_mode) = value::<Ip>(w, "an IPv4 address")?;
    w.expect("->")?;
    let (dst, dst_mode) = value::<Ip>(w, "an IPv4 address")?;
    let mut builder = PacketBuilder::ipv4(src.0, dst.0).ethernet(src_mac, dst_mac);
    let mut varying = vec![(SRC_IP, 4, src_mode, true), (DST_IP, 4, dst_mode, true)];
    while let Some(word @ ("ttl" | "tos")) = w.peek() {
        w.next();
        let n = w.need("a number of 0 to 255")?;
        builder = if word == "ttl" { builder.ttl(n) } else { builder.tos(n) };
    }
    builder = match name {
        "UDP" | "TCP" => {
            let mut ports = (1024, 1024);
            if w.peek() == Some(label) {
                w.next();
                let (src, src_mode) = value::<u16>(w, "a port")?;
                w.expect("->")?;
                let (dst, dst_mode) = value::<u16>(w, "a port")?;
                ports = (src, dst);
                varying.extend([(SRC_PORT, 2, src_mode, false), (DST_PORT, 2, dst_mode, false)]);
            }
            packet.checksum = true;
            packet.udp = name == "UDP";
            match packet.udp {
                true => builder.udp(ports.0, ports.1),
                false => builder.tcp(ports.0, ports.1, 0, 0, read_flags(w)),
            }
        }
        "ICMP" => {
            let mut message = kind::ECHO_REQUEST;
            if w.peek() == Some("ICMP") {
                w.next();
                message = match w.next() {
                    Some("echo_request") => kind::ECHO_REQUEST,
                    Some("echo_reply") => kind::ECHO_REPLY,
                    other => return Err(w.unexpected("echo_request or echo_reply", other)),
                };
            }
            packet.checksum = true;
            builder.icmp(message, 0, 1)
        }
        _ => match number(name).and_then(|n| u8::try_from(n).ok()) {
            Some(protocol) => builder.protocol(protocol),
            None => {
                return Err(w.unexpected("\"UDP:\", \"TCP:\", \"ICMP:\" or a protocol's number", Some(label)));
            }
        },
    };
    packet.head = Head::Ip4(builder);
    let modes = varying.into_iter().filter_map(|(at, width, mode, ip)| Some(field(at, width, mode?, ip)));
    packet.fields = modes.collect();
    Ok(())
}

fn read_flags(w: &mut Words<'_>) -> Flags {
    let known = [
        ("SYN", Flags::SYN),
        ("ACK", Flags::ACK),
        ("FIN", Flags::FIN),
        ("RST", Flags::RST),
        ("PSH", Flags::PSH),
        ("URG", Flags::URG),
    ];
    let mut flags = Flags::default();
    while let Some((_, flag)) = known.iter().find(|(name, _)| w.peek() == Some(name)) {
        w.next();
        flags = flags.with(*flag);
    }
    flags
}

fn read_payload(w: &mut Words<'_>) -> Result<Payload, CliError> {
    match w.peek() {
        Some("incrementing") => {
            w.next();
            match w.need("a number of bytes")? {
                0 => Err(CliError::new("incrementing 0 has no byte to repeat: at least 1")),
                n => Ok(Payload::Incrementing(n)),
            }
        }
        Some("hex") => {
            w.next();
            let word: String = w.need("bytes such as 0x0102")?;
            let bytes = word.strip_prefix("0x").and_then(hex).filter(|b| !b.is_empty());
            bytes
                .map(Payload::Bytes)
                .ok_or_else(|| w.unexpected("pairs of digits such as 0x0102", Some(&word)))
        }
        _ => Ok(Payload::Zeros),
    }
}

/// Bytes from pairs of hexadecimal digits.
fn hex(digits: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = digits.chars().map(|c| Some(c.to_digit(16)? as u8)).collect();
    let digits = digits.filter(|d| d.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

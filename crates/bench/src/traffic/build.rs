//! Builds the frames of a direction from the description of traffic.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use drivers::pktgen::{self, Template};
use infra::hash::mix64;
use wire::Mac;
use wire::builder::PacketBuilder;

use super::describe::{Family, Field, Flow, How, Kind, Load, Mark, Protocol, Traffic, Vary};
use crate::engine::{run, sender, stamp};

/// Length of the frame check sequence in bytes; frames in memory do not contain it.
pub(super) const FCS: usize = 4;
/// Maximum number of values in a permutation.
const PERMUTED: u64 = 1 << 24;

/// The two ends of a direction, with the addresses in its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Ethernet address of the tester's sending port.
    pub source_mac: Mac,
    /// Destination Ethernet address: that of the router's port on the link or, behind a bridge, that of the tester's other port.
    pub destination_mac: Mac,
    /// Source and destination in IPv4.
    pub ipv4: (Ipv4Addr, Ipv4Addr),
    /// Source and destination in IPv6.
    pub ipv6: (Ipv6Addr, Ipv6Addr),
    /// True for the return direction: the source and destination addresses of the traffic's description are exchanged.
    pub reverse: bool,
}

impl Ends {
    /// Returns the ends with the RFCs' addresses: host 2 of each half of 198.18.0.0/15 (RFC 2544 appendix C.2.2) and of 2001:2::/48 (RFC
    /// 5180 section 8). `reverse` exchanges source and destination.
    pub fn rfc(source_mac: Mac, destination_mac: Mac, reverse: bool) -> Ends {
        let mut ipv4 = (Ipv4Addr::new(198, 18, 0, 2), Ipv4Addr::new(198, 19, 0, 2));
        let mut ipv6 =
            (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2), Ipv6Addr::new(0x2001, 2, 0, 0x8000, 0, 0, 0, 2));
        if reverse {
            (ipv4, ipv6) = ((ipv4.1, ipv4.0), (ipv6.1, ipv6.0));
        }
        Ends { source_mac, destination_mac, ipv4, ipv6, reverse }
    }
}

/// An error in a description of traffic; names the flow and the kind of frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Fault {}

impl Traffic {
    /// Builds the flows of a direction.
    ///
    /// # Errors
    /// If there are no flows, or if there is a flow without frames, an impossible frame, or an invalid load.
    pub fn flows(&self, ends: &Ends) -> Result<Vec<run::Flow>, Fault> {
        if self.flows.is_empty() {
            return Err(Fault("flows: none given: add one".into()));
        }
        let build = |(n, flow): (usize, &Flow)| {
            let named = |what| Fault(format!("flows {} ({}): {what}", n + 1, flow.name));
            flow.build(self.seed, ends).map_err(named)
        };
        self.flows.iter().enumerate().map(build).collect()
    }
}

impl Flow {
    fn build(&self, seed: u64, ends: &Ends) -> Result<run::Flow, String> {
        let rate = match self.load {
            Load::Share(share) if !(share > 0.0 && share <= 1.0) => {
                return Err(format!("load: a share must be above 0 and at most 1, is {share}"));
            }
            Load::Fps(fps) if !(fps > 0.0 && fps.is_finite()) => {
                return Err(format!(
                    "load: the rate must be a finite number above 0, is {fps} frames per second"
                ));
            }
            Load::Share(share) => run::Rate::Share(share),
            Load::Fps(fps) => run::Rate::Fixed(fps),
        };
        if self.frames.is_empty() {
            return Err("frames: none given: add a kind of frame".into());
        }
        let mode = match self.mark {
            Mark::Stamped => sender::Mode::Stamped,
            Mark::Flood => sender::Mode::Flood,
        };
        let build = |(i, kind): (usize, &Kind)| {
            kind.build(mix64(seed ^ i as u64), ends).map_err(|what| format!("frames {}: {what}", i + 1))
        };
        let templates = self.frames.iter().enumerate().map(build).collect::<Result<_, _>>()?;
        Ok(run::Flow { templates, rate, mode })
    }
}

impl Kind {
    /// Returns source and destination of this kind of frame in a direction.
    fn addresses(&self, ends: &Ends) -> Result<(IpAddr, IpAddr), String> {
        let (a, b) = match self.family {
            Family::Ipv4 => (ends.ipv4.0.into(), ends.ipv4.1.into()),
            Family::Ipv6 => (IpAddr::from(ends.ipv6.0), ends.ipv6.1.into()),
        };
        let own =
            if ends.reverse { (self.destination, self.source) } else { (self.source, self.destination) };
        let (a, b) = (own.0.unwrap_or(a), own.1.unwrap_or(b));
        match [a, b].iter().find(|ip| ip.is_ipv4() != (self.family == Family::Ipv4)) {
            Some(other) => Err(format!("{other} is not an address of the frame's family")),
            None => Ok((a, b)),
        }
    }

    /// Builds the frame without its payload.
    fn headers(&self, ends: &Ends) -> Result<PacketBuilder, String> {
        let mut b = match self.addresses(ends)? {
            (IpAddr::V4(a), IpAddr::V4(b)) => PacketBuilder::ipv4(a, b),
            (IpAddr::V6(a), IpAddr::V6(b)) => PacketBuilder::ipv6(a, b),
            (a, b) => return Err(format!("{a} and {b} belong to different address families")),
        };
        b = b.ethernet(ends.source_mac, ends.destination_mac);
        if let Some(vlan) = self.vlan {
            if !(1..=4094).contains(&vlan) {
                return Err(format!("a VLAN number must be from 1 to 4094, is {vlan}"));
            }
            b = b.vlan(vlan);
        }
        Ok(match self.protocol {
            Protocol::Udp => b.udp(self.source_port, self.destination_port),
            Protocol::Tcp => b.tcp(self.source_port, self.destination_port, 0, 0, wire::tcp::Flags::ACK),
            Protocol::Icmp => b.echo_request(self.source_port, self.destination_port),
        })
    }

    /// Returns the size of the smallest frame of this kind that has room for the tester's stamp, in bytes with frame check sequence: at
    /// least 64.
    pub fn least_size(&self, ends: &Ends) -> Result<usize, String> {
        Ok((self.headers(ends)?.header_len() + stamp::LEN + FCS).max(64))
    }

    fn build(&self, seed: u64, ends: &Ends) -> Result<Template, String> {
        let least = self.least_size(ends)?;
        let most = buf::layout::DATA_ROOM + FCS;
        if self.size < least || self.size > most {
            return Err(format!(
                "frame size {} is out of range: this kind of frame has {least} to {most} bytes",
                self.size
            ));
        }
        if self.weight == 0 {
            return Err("weight is 0, so the frame is never sent: remove it, or set at least 1".into());
        }
        let headers = self.headers(ends)?;
        let payload = self.size - FCS - headers.header_len();
        let bytes = headers.payload(&vec![0; payload]).build();
        let vary = |(i, vary): (usize, &Vary)| {
            self.vary(vary, mix64(seed ^ (i as u64) << 32), &bytes)
                .map_err(|what| format!("vary {}: {what}", i + 1))
        };
        let fields = self.vary.iter().enumerate().map(vary).collect::<Result<_, _>>()?;
        Ok(Template { fields, weight: self.weight, ..Template::fixed(bytes) })
    }

    /// Returns the offset and length of a field in the frame, in bytes.
    fn place(&self, field: Field) -> Result<(usize, usize), String> {
        let network = if self.vlan.is_some() { 18 } else { 14 };
        let is_v6 = self.family == Family::Ipv6;
        let transport = network + if is_v6 { 40 } else { 20 };
        // In an ICMP echo, identifier and sequence number are 4 bytes into the header, after type, code and checksum.
        let ports = if self.protocol == Protocol::Icmp { transport + 4 } else { transport };
        Ok(match field {
            Field::DestinationMac => (2, 4),
            Field::SourceMac => (8, 4),
            Field::Vlan if self.vlan.is_none() => return Err("this kind of frame has no VLAN".into()),
            Field::Vlan => (14, 2),
            Field::Source if is_v6 => (network + 16, 8),
            Field::Source => (network + 12, 4),
            Field::Destination if is_v6 => (network + 32, 8),
            Field::Destination => (network + 16, 4),
            Field::SourceNetwork | Field::DestinationNetwork if !is_v6 => {
                return Err("an IPv4 address has no upper 64 bits: vary \"source\" or \"destination\"".into());
            }
            Field::SourceNetwork => (network + 8, 8),
            Field::DestinationNetwork => (network + 24, 8),
            Field::SourcePort => (ports, 2),
            Field::DestinationPort => (ports + 2, 2),
        })
    }

    fn vary(&self, vary: &Vary, seed: u64, bytes: &[u8]) -> Result<pktgen::Field, String> {
        let (offset, width) = self.place(vary.field)?;
        let is_address = matches!(
            vary.field,
            Field::Source | Field::Destination | Field::SourceNetwork | Field::DestinationNetwork
        );
        let own = bytes.get(offset..offset + width).unwrap_or_default();
        let own = own.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        let base = if is_address { own } else { 0 };
        let top = u64::MAX >> (64 - 8 * width);
        let too_much = || format!("{} to {} is not a range that fits in {width} bytes", vary.min, vary.max);
        let add = |value: u64| base.checked_add(value).filter(|v| *v <= top).ok_or_else(too_much);
        let (min, max) = (add(vary.min)?, add(vary.max)?);
        if min > max || vary.step == 0 {
            return Err(too_much());
        }
        let mode = match vary.how {
            How::Increment => pktgen::Mode::Increment { min, max, step: vary.step },
            How::Random if vary.step == 1 => pktgen::Mode::Random { min, max },
            How::Random | How::Permutation => pktgen::Mode::List(permuted(min, max, vary.step, seed)?.into()),
        };
        let ip4_checksum = self.family == Family::Ipv4 && is_address;
        Ok(pktgen::Field { offset, width, mode, ip4_checksum })
    }
}

/// Returns the values from `min` to `max` in steps of `step`, in pseudorandom order. Returns an error if there are more than [`PERMUTED`].
fn permuted(min: u64, max: u64, step: u64, seed: u64) -> Result<Vec<u64>, String> {
    let count = (max - min) / step + 1;
    if count > PERMUTED {
        return Err(format!("a permutation has at most {PERMUTED} values, {count} given"));
    }
    let mut values: Vec<u64> = (0..count).map(|n| min + n * step).collect();
    for i in (1..values.len()).rev() {
        let j = (u128::from(mix64(seed.wrapping_add(i as u64))) * (i as u128 + 1)) >> 64;
        values.swap(i, j as usize);
    }
    Ok(values)
}

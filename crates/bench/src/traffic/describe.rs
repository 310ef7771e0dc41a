//! The description of traffic.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::build::Fault;

/// The traffic in one direction. The other direction has the same traffic, with source and destination exchanged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Traffic {
    /// Name in reports.
    pub name: String,
    /// Seed of all random values; given in reports.
    #[serde(default = "one")]
    pub seed: u64,
    /// The flows, at least one.
    pub flows: Vec<Flow>,
}

fn one() -> u64 {
    1
}

impl Traffic {
    /// Returns the traffic with `size` bytes for frames that have no size of their own.
    pub fn sized(&self, size: usize) -> Traffic {
        let mut sized = self.clone();
        let kinds = sized.flows.iter_mut().flat_map(|flow| &mut flow.frames);
        kinds.filter(|kind| kind.size == 0).for_each(|kind| kind.size = size);
        sized
    }

    /// Formats the traffic as TOML, as written in a campaign.
    ///
    /// # Errors
    /// If it cannot be serialized.
    pub fn toml(&self) -> Result<String, Fault> {
        let text = toml::to_string(&BTreeMap::from([("traffic", [self])]));
        text.map_err(|e| Fault(format!("traffic {}: {e}", self.name)))
    }

    /// True if at least one flow has frames that carry their sending times.
    pub fn is_stamped(&self) -> bool {
        self.flows.iter().any(|flow| flow.mark == Mark::Stamped)
    }

    /// Returns the mean frame size in bytes, over the flows whose rate is a share of the load. `None` if no flow has such a rate, or if
    /// the frames of any flow get their size from the campaign.
    pub fn own_size(&self) -> Option<usize> {
        let mut kinds = self.flows.iter().flat_map(|flow| &flow.frames);
        if kinds.any(|kind| kind.size == 0) {
            return None;
        }
        let share = |flow: &Flow| if let Load::Share(share) = flow.load { share } else { 0.0 };
        let (mut bytes, mut weight) = (0.0, 0.0);
        for flow in &self.flows {
            let all: u32 = flow.frames.iter().map(|kind| kind.weight).sum();
            let sum: f64 = flow.frames.iter().map(|kind| kind.size as f64 * f64::from(kind.weight)).sum();
            if all > 0 {
                bytes += share(flow) * sum / f64::from(all);
                weight += share(flow);
            }
        }
        (weight > 0.0).then(|| (bytes / weight).round() as usize)
    }
}

/// A mix of frames with its own rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Flow {
    /// Name in reports, such as `test`, `background` or `latency`.
    pub name: String,
    /// The rate.
    #[serde(default)]
    pub load: Load,
    /// The data that the tester writes into the flow's frames.
    #[serde(default)]
    pub mark: Mark,
    /// The kinds of frames, at least one.
    pub frames: Vec<Kind>,
}

/// The rate of a flow of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// A share of the trial's load in frames, above 0 and at most 1.
    Share(f64),
    /// A fixed number of frames per second, independent of the load.
    Fps(f64),
}

impl Default for Load {
    fn default() -> Load {
        Load::Share(1.0)
    }
}

/// The data that the tester writes into each frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// Each frame carries its number and time.
    #[default]
    Stamped,
    /// Each frame carries its number, but no time: delays are not measured.
    Flood,
}

/// A kind of frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Kind {
    /// Size in bytes with the frame check sequence, as in the RFCs; 0 for the test's size.
    #[serde(default)]
    pub size: usize,
    /// Frequency relative to the flow's other kinds of frames.
    #[serde(default = "once")]
    pub weight: u32,
    /// The network layer.
    pub family: Family,
    /// The transport.
    #[serde(default)]
    pub protocol: Protocol,
    /// VLAN number, 1 to 4094; `None` for untagged frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// Source address; by default that of the direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// Destination address; by default that of the direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<IpAddr>,
    /// The source port.
    #[serde(default = "source_port")]
    pub source_port: u16,
    /// The destination port.
    #[serde(default = "destination_port")]
    pub destination_port: u16,
    /// The fields that vary from frame to frame.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vary: Vec<Vary>,
}

fn once() -> u32 {
    1
}

/// A port from the dynamic range.
fn source_port() -> u16 {
    49152
}

/// The discard port: hosts do not answer (RFC 863).
fn destination_port() -> u16 {
    9
}

impl Kind {
    /// Makes a UDP frame without varying fields.
    pub fn udp(family: Family, size: usize) -> Kind {
        Kind {
            size,
            weight: 1,
            family,
            protocol: Protocol::Udp,
            vlan: None,
            source: None,
            destination: None,
            source_port: source_port(),
            destination_port: destination_port(),
            vary: Vec::new(),
        }
    }
}

/// The network layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// The transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// UDP datagrams.
    #[default]
    Udp,
    /// TCP segments without a connection.
    Tcp,
    /// ICMP echo requests.
    Icmp,
}

/// A field that varies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Vary {
    /// The field.
    pub field: Field,
    /// The order of the field's values.
    #[serde(default)]
    pub how: How,
    /// Minimum value. For IP addresses, an offset that is added to the frame's address.
    #[serde(default)]
    pub min: u64,
    /// Maximum value. For IP addresses, an offset as in `min`.
    pub max: u64,
    /// Distance between values.
    #[serde(default = "step")]
    pub step: u64,
}

fn step() -> u64 {
    1
}

/// The order of a varying field's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// Ascending in steps, cyclically.
    Increment,
    /// Random values, reproducible with the same seed. With a step other than 1, the same as `Permutation`.
    #[default]
    Random,
    /// Each value once in pseudorandom order, cyclically.
    Permutation,
}

/// The fields that can vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Field {
    /// The last four bytes of the source Ethernet address.
    SourceMac,
    /// The last four bytes of the destination Ethernet address, for testing bridges.
    DestinationMac,
    /// The VLAN number; only for frames with a VLAN.
    Vlan,
    /// The source address; in IPv6 its last 64 bits.
    Source,
    /// The destination address; in IPv6 its last 64 bits.
    Destination,
    /// The first 64 bits of an IPv6 source address.
    SourceNetwork,
    /// The first 64 bits of an IPv6 destination address.
    DestinationNetwork,
    /// The source port; in an echo request the identifier.
    SourcePort,
    /// The destination port; in an echo request the sequence number.
    DestinationPort,
}

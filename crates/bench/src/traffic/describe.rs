//! The description of traffic.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::build::Fault;

/// What is sent in one direction; the other direction has the same, with its ends exchanged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Traffic {
    /// Its name in reports.
    pub name: String,
    /// Start of everything random; a report says it.
    #[serde(default = "one")]
    pub seed: u64,
    /// At least one.
    pub flows: Vec<Flow>,
}

fn one() -> u64 {
    1
}

impl Traffic {
    /// The same with frames of `size` bytes where they have none of their own.
    pub fn sized(&self, size: usize) -> Traffic {
        let mut sized = self.clone();
        let kinds = sized.flows.iter_mut().flat_map(|flow| &mut flow.frames);
        kinds.filter(|kind| kind.size == 0).for_each(|kind| kind.size = size);
        sized
    }

    /// As a campaign has it.
    ///
    /// # Errors
    /// When it cannot be written so.
    pub fn toml(&self) -> Result<String, Fault> {
        let text = toml::to_string(&BTreeMap::from([("traffic", [self])]));
        text.map_err(|e| Fault(format!("traffic {}: {e}", self.name)))
    }

    /// Whether frames of some flow have numbers and times.
    pub fn is_stamped(&self) -> bool {
        self.flows.iter().any(|flow| flow.mark == Mark::Stamped)
    }

    /// The mean size of its frames, in bytes, if all have sizes of their own; flows of a fixed rate do not count.
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

/// A mix of frames with a rate of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Flow {
    /// Its name in reports, as `test`, `background`, `latency`.
    pub name: String,
    /// How fast.
    #[serde(default)]
    pub load: Load,
    /// How its frames are marked.
    #[serde(default)]
    pub mark: Mark,
    /// At least one.
    pub frames: Vec<Kind>,
}

/// How fast a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// A share of the trial's load in frames, 0 to 1.
    Share(f64),
    /// So many frames a second, whatever the load is.
    Fps(f64),
}

impl Default for Load {
    fn default() -> Load {
        Load::Share(1.0)
    }
}

/// How frames are marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// Each has its number and its time.
    #[default]
    Stamped,
    /// They are only counted.
    Flood,
}

/// A kind of frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Kind {
    /// Bytes with the frame check sequence, as the RFCs count; 0 for the size of the test.
    #[serde(default)]
    pub size: usize,
    /// How often it comes, in relation to the flow's other kinds.
    #[serde(default = "once")]
    pub weight: u32,
    /// The network layer.
    pub family: Family,
    /// The transport.
    #[serde(default)]
    pub protocol: Protocol,
    /// The tag of a VLAN, 1 to 4094.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// The source, if not the direction's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// The destination, if not the direction's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<IpAddr>,
    /// The source port.
    #[serde(default = "source_port")]
    pub source_port: u16,
    /// The destination port.
    #[serde(default = "destination_port")]
    pub destination_port: u16,
    /// What is another one in each frame.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vary: Vec<Vary>,
}

fn once() -> u32 {
    1
}

/// Any of those that are nobody's.
fn source_port() -> u16 {
    49152
}

/// Discard, of which nobody answers (RFC 863).
fn destination_port() -> u16 {
    9
}

impl Kind {
    /// A frame of UDP that does not vary.
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
    /// Version 4.
    Ipv4,
    /// Version 6.
    Ipv6,
}

/// The transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Datagrams.
    #[default]
    Udp,
    /// Segments of no connection.
    Tcp,
    /// Echo requests.
    Icmp,
}

/// A field that varies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Vary {
    /// Which one.
    pub field: Field,
    /// From one frame to the next.
    #[serde(default)]
    pub how: How,
    /// The least value. Of addresses, what is added to the kind's own.
    #[serde(default)]
    pub min: u64,
    /// The greatest value.
    pub max: u64,
    /// From one value to the next.
    #[serde(default = "step")]
    pub step: u64,
}

fn step() -> u64 {
    1
}

/// How a field goes from one frame to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// Up in steps, and from the start again.
    Increment,
    /// Any value, the same ones each time that the seed is the same.
    #[default]
    Random,
    /// Each value once, in an order that looks random, and from the start again.
    Permutation,
}

/// The fields that can vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Field {
    /// The last four bytes of the source's Ethernet address.
    SourceMac,
    /// The last four bytes of the destination's Ethernet address: for a bridge.
    DestinationMac,
    /// The VLAN's number; the kind has to have one.
    Vlan,
    /// The source address, in IPv6 its last 64 bits.
    Source,
    /// The destination address, in IPv6 its last 64 bits.
    Destination,
    /// The first 64 bits of an IPv6 source.
    SourceNetwork,
    /// The first 64 bits of an IPv6 destination.
    DestinationNetwork,
    /// The source port; of an echo, its identifier.
    SourcePort,
    /// The destination port; of an echo, its sequence number.
    DestinationPort,
}

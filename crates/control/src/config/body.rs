//! Fields of every interface.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::LazyLock;

use model::schema::{Form, Parsed, Row, Schema, block, number, optional, pairs, parsed, truth};
use model::yaml::{self, Content, Node, Reader, Text};
use net::ip::Address;
use net::tables::MAX_INTERFACES;
use wire::Mac;

use super::advertisement::advertisement;
use super::interface::Unread;
use super::receive::receive;
use crate::intent::{Catalog, Interface, Spec};

/// The MTUs that an interface may have, bytes.
pub(crate) const MTUS: std::ops::RangeInclusive<u16> = wire::ipv4::MIN_MTU..=u16::MAX;

/// What is said of an interface itself. What lies on it are objects of their own: [`elsewhere`].
pub(super) fn body() -> &'static Schema<Interface> {
    static SCHEMA: LazyLock<Schema<Interface>> = LazyLock::new(|| {
        let usual = Interface { up: true, ..Interface::new(Spec::by(Unread)) };
        Schema::new(usual)
            .field(
                "description",
                Description,
                |i| i.description.clone(),
                |i, text| i.description = text,
                "What it is for (`show interface description`).",
            )
            .field("index", Index, |i| i.index, |i, index| i.index = index, "Its number (`sw_if_index`).")
            .field(
                "state",
                pairs(&[(true, "up"), (false, "down")]),
                |i| i.up,
                |i, up| i.up = up,
                "Whether it is up. A sub-interface is as its device, if nothing is said.",
            )
            .field(
                "mtu",
                optional(number(MTUS).unit("bytes")),
                |i| i.mtu,
                |i, mtu| i.mtu = mtu,
                "The largest network packet, where that is not the device's own.",
            )
            .field("mac", optional(mac()), |i| i.mac, |i, mac| i.mac = mac, "The Ethernet address, where that is not the device's own.")
            .field("table", number(0..=u16::MAX), |i| i.table, |i, table| i.table = table, "The VRF: 0, or one in `tables`.")
            .field(
                "receive",
                block(receive),
                |i| i.receive.clone(),
                |i, receive| i.receive = receive,
                "How packets are received.",
            )
            .field(
                "ip6",
                truth(),
                |i| i.ip6,
                |i, on| i.ip6 = on,
                "IPv6 is spoken even without an IPv6 address in `addresses`, with the link-local address that follows from the Ethernet \
                 address. A link-local address in `addresses` takes its place.",
            )
            .field(
                "proxy-arp",
                truth(),
                |i| i.proxy,
                |i, on| i.proxy = on,
                "It answers for hosts that are reached by other interfaces, whoever asks (ARP, and Neighbor Discovery if IPv6 is spoken).",
            )
            .field(
                "router-advertisement",
                optional(block(advertisement)),
                |i| i.advertisement.as_deref().map(|says| (says.clone(), i.ra_suppressed)),
                |i, advice| {
                    if let Some((says, suppressed)) = advice {
                        (i.advertisement, i.ra_suppressed) = (Some(Box::new(says)), suppressed);
                    }
                },
                "What hosts on the link are told of the router (`{}`: what is usual). They are told nothing, if nothing is said.",
            )
            .later(&["lcp", "l2xc", "mpls", "sflow", "acls"])
    });
    &SCHEMA
}

/// Fields of an interface that are objects of their own, or say what it is made of.
pub(super) fn elsewhere(catalog: &Catalog) -> Vec<Row> {
    fn row(name: &str, values: &str, help: impl Into<Cow<'static, str>>) -> Row {
        Row { name: name.into(), values: values.into(), usual: String::new(), help: help.into() }
    }
    let mut rows = vec![
        row(
            "addresses",
            "a list of addresses with their lengths",
            "The first of each family is its primary one.",
        ),
        row(
            "unnumbered",
            "an interface's name",
            "An interface in the same VRF whose addresses it uses, in place of `addresses`.",
        ),
        row("neighbors", "Ethernet addresses by IP address", "Static neighbours."),
        row("features", "lists of features by arc", "The features that are on."),
        row(
            "sub-interfaces",
            "maps by number",
            "Interfaces of VLANs, each with its `encapsulation`; without that, the number is the VLAN.",
        ),
        row(
            "device-type",
            "`af-packet`, `af-xdp`",
            "Of `host-NAME` and `xdp-NAME`: which they are without a word.",
        ),
    ];
    for kind in catalog.interfaces() {
        rows.extend(
            kind.field.map(|field| row(field, "a map", format!("Of `{}`: {}.", kind.named, kind.what))),
        );
    }
    rows
}

/// An Ethernet address.
pub(crate) fn mac() -> Parsed<Mac> {
    parsed(
        "an Ethernet address",
        &["02:fe:00:00:00:01"],
        |text| {
            text.parse().map_err(|_| format!("\"{text}\" is not an Ethernet address as 02:fe:00:00:00:01"))
        },
        |mac| yaml::mac(*mac),
    )
}

/// An address with the length of its network.
pub(crate) fn address(text: &str) -> Result<Address, String> {
    let (address, len) = text.split_once('/').unwrap_or((text, ""));
    match (address.parse::<IpAddr>(), len.parse::<u8>()) {
        // One form of each, so that whoever looks for an address finds it.
        (Ok(ip), Ok(_)) if ip.to_string() != address => Err(format!("\"{text}\" is written {ip}/{len}")),
        (Ok(address), Ok(len)) => Ok(Address::new(address, len)),
        _ => Err(format!("\"{text}\" is not an address with its length as 192.0.2.1/24 or 2001:db8::1/64")),
    }
}

/// A text in quotes; an empty one is none.
pub(crate) struct Description;

impl Form for Description {
    type Value = Option<String>;

    fn read(&self, r: &mut Reader, node: &Node) -> Option<Option<String>> {
        match &node.content {
            Content::Text(text) if text.is_empty() => Some(None),
            _ => r.text(node).map(|text| Some(text.to_string())),
        }
    }

    fn line(&self, text: &Option<String>) -> String {
        text.as_ref().map_or("\"\"".into(), |text| serde_json::Value::from(text.as_str()).to_string())
    }

    fn values(&self) -> String {
        "a line of at most 255 characters".into()
    }

    fn usual(&self, _: &Option<String>) -> String {
        String::new()
    }

    fn examples(&self) -> Vec<Option<String>> {
        vec![Some("the uplink".into())]
    }
}

/// The index of an interface, which is written where indices are.
struct Index;

impl Form for Index {
    type Value = Option<u32>;

    fn read(&self, r: &mut Reader, node: &Node) -> Option<Option<u32>> {
        r.number(node, 0..=MAX_INTERFACES - 1).map(Some)
    }

    fn line(&self, index: &Option<u32>) -> String {
        index.map(|index| index.to_string()).unwrap_or_default()
    }

    fn write(&self, t: &mut Text<'_>, name: &str, index: &Option<u32>) {
        t.field(name, index.filter(|_| t.indices()));
    }

    fn values(&self) -> String {
        format!("0 to {}", MAX_INTERFACES - 1)
    }

    fn examples(&self) -> Vec<Option<u32>> {
        vec![Some(0), Some(MAX_INTERFACES - 1)]
    }
}

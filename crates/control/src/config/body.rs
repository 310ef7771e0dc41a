//! The fields common to all interfaces.

use std::iter;
use std::net::IpAddr;
use std::sync::LazyLock;

use model::schema::{Form, Parsed, Row, Schema, block, number, optional, pairs, parsed, truth};
use model::yaml::{self, Content, Node, Reader, Text};
use net::ip::Address;
use net::tables::MAX_INTERFACES;
use serde_json::json;
use wire::Mac;

use super::beside::{BEHIND_SETTINGS, Beside, LENDER};
use super::interface::Unread;
use super::receive::receive;
use crate::intent::Interface;
use crate::system::{Catalog, Spec};

/// The field of an interface's sub-interfaces.
pub(super) const SUBS: &str = "sub-interfaces";
/// The valid MTUs of an interface, in bytes.
pub(crate) const MTUS: std::ops::RangeInclusive<u16> = wire::ipv4::MIN_MTU..=u16::MAX;

/// Returns the fields of an interface itself. Objects on the interface are separate: see [`beside`].
pub(crate) fn body() -> &'static Schema<Interface> {
    static SCHEMA: LazyLock<Schema<Interface>> = LazyLock::new(|| {
        let usual = Interface { up: true, ..Interface::new(Spec::by(Unread)) };
        Schema::new(usual)
            .field(
                "description",
                Description,
                |i| i.description.clone(),
                |i, text| i.description = text,
                "A description (`show interface description`).",
            )
            .field("index", Index, |i| i.index, |i, index| i.index = index, "The index (`sw_if_index`).")
            .field(
                "state",
                pairs(&[(true, "up"), (false, "down")]),
                |i| i.up,
                |i, up| i.up = up,
                "The administrative state. The default of a sub-interface is the state of its device.",
            )
            .field(
                "mtu",
                optional(number(MTUS).unit("bytes")),
                |i| i.mtu,
                |i, mtu| i.mtu = mtu,
                "The MTU; by default the device's own.",
            )
            .field("mac", optional(mac()), |i| i.mac, |i, mac| i.mac = mac, "The Ethernet address; by default the device's own.")
            .field("table", number(0..=u32::MAX), |i| i.table, |i, table| i.table = table, "The VRF: 0, or one in `tables`.")
            .field(
                "receive",
                block(receive),
                |i| i.receive.clone(),
                |i, receive| i.receive = receive,
                "The polling of receive queues.",
            )
            .field(
                "ip6",
                truth(),
                |i| i.ip6,
                |i, on| i.ip6 = on,
                "Enables IPv6 without an IPv6 address in `addresses`. The link-local address is derived from the Ethernet address, \
                 unless `addresses` has one.",
            )
            .field(
                "proxy-arp",
                truth(),
                |i| i.proxy,
                |i, on| i.proxy = on,
                "Answers ARP requests for hosts behind other interfaces; also Neighbor Discovery, if IPv6 is enabled.",
            )
            .later(&["lcp", "l2xc", "mpls", "sflow", "acls"])
    });
    &SCHEMA
}

/// Returns the rows of the reference documentation for the separate objects that any interface has in its entry.
pub(super) fn beside() -> impl Iterator<Item = Row> {
    iter::once(&LENDER).chain(BEHIND_SETTINGS).map(Beside::row)
}

/// Returns the rows of the reference documentation for the fields that only devices have: sub-interfaces, and the options of their types.
pub(super) fn of_devices(catalog: &Catalog) -> Vec<Row> {
    let mut rows = vec![Row::new(
        SUBS,
        "maps by number",
        "VLAN interfaces, each with its `encapsulation`; by default the number is the VLAN.",
        json!({ "type": "object" }),
    )];
    let types = catalog.interfaces().iter().filter_map(|kind| Some((kind.device_type?, kind)));
    let (words, names): (Vec<_>, Vec<_>) =
        types.map(|(word, kind)| (word, format!("`{}`", kind.named))).unzip();
    let help = format!("Optional for {}; it must match the name.", names.join(" and "));
    let values: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    rows.push(Row::new("device-type", values.join(", "), help, json!({ "enum": words })));
    for kind in catalog.interfaces() {
        let help = || format!("Options of `{}` ({}).", kind.named, kind.what);
        rows.extend(kind.field.map(|field| Row::new(field, "a map", help(), json!({ "type": "object" }))));
    }
    rows
}

/// Returns the form of an Ethernet address: how it is read, written and documented.
pub(crate) fn mac() -> Parsed<Mac> {
    parsed(
        "an Ethernet address",
        &["02:fe:00:00:00:01"],
        |text| {
            text.parse()
                .map_err(|_| format!("\"{text}\" is not an Ethernet address such as 02:fe:00:00:00:01"))
        },
        |mac| yaml::mac(*mac),
    )
}

/// Parses an address with prefix length.
pub(crate) fn address(text: &str) -> Result<Address, String> {
    let (address, len) = text.split_once('/').unwrap_or((text, ""));
    match (address.parse::<IpAddr>(), len.parse::<u8>()) {
        // Only the canonical form is valid, so that addresses can be searched for.
        (Ok(ip), Ok(_)) if ip.to_string() != address => Err(format!("write \"{text}\" as {ip}/{len}")),
        (Ok(address), Ok(len)) => Ok(Address::new(address, len)),
        _ => Err(format!(
            "\"{text}\" is not an address with prefix length, such as 192.0.2.1/24 or 2001:db8::1/64"
        )),
    }
}

/// The form of a description: a text in quotes. An empty text means no description.
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

/// The form of an interface's index. An index is written only if the text is to include indices.
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

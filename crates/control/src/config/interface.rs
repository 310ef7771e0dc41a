//! Interfaces with their sub-interfaces, loopbacks and taps.

use std::net::IpAddr;

use drivers::{af_packet, af_xdp, memif};
use model::schema::Form;
use model::yaml::{At, Fields, Node, Reader};
use net::ethernet::Tags;
use net::ip::Address;

use super::Reading;
use super::body::{Description, address, body, mac};
use super::ports::{self, Tap};
use crate::intent::{Addresses, FeatureOn, Interface, MemifSocket, Neighbor, Spec, Unnumbered, VLANS};

/// `interfaces`: devices by name, those of `taps` included.
pub(super) fn interfaces(reading: &mut Reading<'_>, node: &Node) {
    for (name, at, node) in reading.r.entries(node) {
        let key = Interface::key(name);
        let mut fields = reading.r.fields(node);
        let spec = match reading.tree.remove(&key) {
            // From `taps`, which was read before.
            Some(tap) => tap.get::<Interface>().cloned().map(|tap| (tap.spec, tap.mtu, tap.description)),
            None => spec(&mut reading.r, name, at, &mut fields).map(|spec| (spec, None, None)),
        };
        let subs = fields.take("sub-interfaces");
        // The rest is read even if nothing can come of it: every fault is to be named.
        let (spec, host_mtu, description) = spec.unwrap_or((Spec::Generator(0), None, None));
        if matches!(spec, Spec::Tap(..)) {
            reading.places.remove(&key);
        }
        let mut interface = Interface::new(spec);
        interface.up = true;
        read_body(reading, name, &mut fields, &mut interface);
        interface.description = interface.description.or(description);
        match (host_mtu, interface.mtu) {
            (Some(host), Some(own)) if host != own => reading.r.fault(
                at,
                format!("{name} has an MTU of {own}, and its host's end {host}: they are of one cable"),
            ),
            _ => interface.mtu = interface.mtu.or(host_mtu),
        }
        fields.end(&mut reading.r);
        if let Some(subs) = subs {
            sub_interfaces(reading, name, &interface, subs);
        }
        reading.set(at, key, interface);
    }
}

/// What an interface of this name is made of.
fn spec(r: &mut Reader, name: &str, at: At, fields: &mut Fields<'_>) -> Option<Spec> {
    let kind = fields
        .take("device-type")
        .and_then(|n| r.word(n, &["af-packet", "af-xdp", "dpdk"]).map(|word| (n.at, word)));
    let options = fields.take("af-packet");
    let xdp_options = fields.take("af-xdp");
    if let Some(host) = name.strip_prefix("xdp-").filter(|host| !host.is_empty()) {
        if let Some((at, word @ ("dpdk" | "af-packet"))) = kind {
            r.fault(
                at,
                format!("{name} is a Linux interface by AF_XDP: its device-type is af-xdp, not {word}"),
            );
        }
        let mut config = af_xdp::Config::new(host);
        if let Some(node) = xdp_options {
            ports::af_xdp().read_over(r, node.at, node, &mut config);
        }
        return Some(Spec::Xdp(config));
    }
    if let Some(host) = name.strip_prefix("host-").filter(|host| !host.is_empty()) {
        if let Some((at, "dpdk" | "af-xdp")) = kind {
            r.fault(
                at,
                format!(
                    "{name} is a Linux interface: its device-type is af-packet (by AF_XDP it is xdp-{host})"
                ),
            );
        }
        let mut config = af_packet::Config::new(host);
        if let Some(node) = options {
            ports::af_packet().read_over(r, node.at, node, &mut config);
        }
        return Some(Spec::Host(config));
    }
    if let Some((socket, id)) = memif_numbers(name) {
        let Some(node) = fields.take("memif") else {
            r.fault(at, format!("{name} needs a \"memif\" with its \"role\", master or slave"));
            return None;
        };
        let mut config = memif::Config::new(socket, id, memif::Role::Client);
        ports::memif().read_over(r, node.at, node, &mut config);
        return Some(Spec::Memif(config));
    }
    if let Some(number) = number_of(name, "pg") {
        return Some(Spec::Generator(number));
    }
    if let Some(number) = number_of(name, "pcap") {
        let Some(node) = fields.take("pcap") else {
            r.fault(at, format!("{name} needs a \"pcap\" with a file to replay (rx), or to record (tx)"));
            return None;
        };
        let files = ports::files().read(r, node.at, node).unwrap_or_default();
        return Some(Spec::Pcap(number, files.config(number)));
    }
    let elsewhere = match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "tap" => "there is no such tap in \"taps\"".to_string(),
        "loop" => "loopbacks belong into \"loopbacks\"".to_string(),
        "BondEthernet" => "bonding is not supported yet".to_string(),
        "vxlan_tunnel" => "VXLAN is not supported yet".to_string(),
        _ => "no driver makes it. A Linux interface NAME is host-NAME here, or xdp-NAME, shared memory memifSOCKET/ID, a packet \
              generator pg0, pg1, …"
            .to_string(),
    };
    r.fault(at, format!("{name}: {elsewhere}"));
    None
}

/// The socket and the number of an interface that is named memifSOCKET/ID.
fn memif_numbers(name: &str) -> Option<(u32, u32)> {
    let (socket, id) = name.split_once('/')?;
    Some((number_of(socket, "memif")?, number_of(id, "")?))
}

/// `memif-sockets`: files by number.
pub(super) fn memif_sockets(reading: &mut Reading<'_>, node: &Node) {
    for (id, at, node) in reading.r.entries(node) {
        let Some(number) = number_of(id, "") else {
            reading.r.fault(at, "memif sockets have numbers, 1 and up");
            continue;
        };
        if let Some(path) = reading.r.text(node) {
            let path = std::path::PathBuf::from(path);
            reading.set(at, MemifSocket::key(number), MemifSocket(path));
        }
    }
}

/// The number behind a prefix, without leading zeros.
fn number_of<T: std::str::FromStr + std::fmt::Display>(name: &str, prefix: &str) -> Option<T> {
    let number: T = name.strip_prefix(prefix)?.parse().ok()?;
    (format!("{prefix}{number}") == name).then_some(number)
}

/// `loopbacks`: by the name loopN.
pub(super) fn loopbacks(reading: &mut Reading<'_>, node: &Node) {
    for (name, at, node) in reading.r.entries(node) {
        let Some(number) = number_of(name, "loop") else {
            reading.r.fault(at, "loopbacks are named loop0, loop1, …");
            reading.lost.interfaces = true;
            continue;
        };
        let mut fields = reading.r.fields(node);
        let mut interface = Interface::new(Spec::Loopback(number));
        interface.up = true;
        read_body(reading, name, &mut fields, &mut interface);
        fields.end(&mut reading.r);
        reading.set(at, Interface::key(name), interface);
    }
}

/// `taps`: by the name tapN. What is set on the router's end stands in `interfaces`.
pub(super) fn taps(reading: &mut Reading<'_>, node: &Node) {
    for (name, at, node) in reading.r.entries(node) {
        let Some(number) = number_of(name, "tap") else {
            reading.r.fault(at, "taps are named tap0, tap1, …");
            reading.lost.interfaces = true;
            continue;
        };
        let r = &mut reading.r;
        let mut fields = r.fields(node);
        let description = fields.take("description").and_then(|node| Description.read(r, node)).flatten();
        for name in ["rx-ring-size", "tx-ring-size"] {
            // A tap has no rings here: packets are copied one by one, as many as there are.
            let size = fields.take(name).and_then(|n| Some((n.at, r.number(n, 8..=32_768u32)?)));
            if let Some((at, size)) = size.filter(|(_, size)| !size.is_power_of_two()) {
                r.fault(at, format!("{size} is no power of two"));
            }
        }
        let mut tap = Tap::new(name);
        tap.config.gso = fields.take("gso").and_then(|n| r.truth(n)).unwrap_or(true);
        match fields.take("host") {
            None => r.fault(at, format!("{name} needs a \"host\" with the \"name\" of its other end")),
            Some(node) => ports::tap_host().read_over(r, node.at, node, &mut tap),
        }
        fields.end(r);
        let mut interface = Interface::new(Spec::Tap(number, tap.config));
        (interface.up, interface.mtu, interface.description) = (true, tap.mtu, description);
        reading.set(at, Interface::key(name), interface);
    }
}

/// What may be said of every interface, and what lies on it: addresses, neighbours, features.
fn read_body(reading: &mut Reading<'_>, name: &str, fields: &mut Fields<'_>, interface: &mut Interface) {
    let r = &mut reading.r;
    let faulty = body().read_into(r, fields, interface);
    interface.attached = reading.catalog.read(r, fields);
    let unnumbered = fields.take("unnumbered").and_then(|n| Some((n.at, r.text(n)?.to_string())));
    if let Some(node) = fields.take("addresses") {
        let list: Vec<Address> = r.list(node).iter().filter_map(|n| parsed(r, n, address)).collect();
        // Without its VRF nobody can say what an address clashes with.
        if !list.is_empty() && !faulty.contains(&"table") {
            reading.set(node.at, Addresses::key(name), Addresses(list));
        }
    }
    if let Some((at, lender)) = unnumbered {
        reading.set(at, Unnumbered::key(name), Unnumbered(lender));
    }
    if let Some(node) = fields.take("neighbors") {
        for (ip, at, node) in reading.r.entries(node) {
            let Ok(ip) = ip.parse::<IpAddr>() else {
                reading.r.fault(at, format!("\"{ip}\" is not an IP address"));
                continue;
            };
            if let Some(mac) = mac().read(&mut reading.r, node) {
                reading.set(at, Neighbor::key(name, ip), Neighbor { mac });
            }
        }
    }
    if let Some(node) = fields.take("features") {
        for (arc, _, node) in reading.r.entries(node) {
            for feature in reading.r.list(node) {
                if let Some(text) = reading.r.text(feature).map(str::to_string) {
                    reading.set(feature.at, FeatureOn::key(name, arc, &text), FeatureOn);
                }
            }
        }
    }
}

/// `sub-interfaces` of a device, by number.
fn sub_interfaces(reading: &mut Reading<'_>, parent: &str, over: &Interface, node: &Node) {
    // VLAN and MTU of those with one tag, for those with the same tag and one more.
    let mut one_tag: Vec<(bool, u16, Option<u16>)> = Vec::new();
    let mut two_tags: Vec<(At, String, Tags, Option<u16>)> = Vec::new();
    for (id, at, node) in reading.r.entries(node) {
        let name = format!("{parent}.{id}");
        let Some(id) = id.parse::<u32>().ok().filter(|n| *n > 0 && n.to_string() == id) else {
            reading.r.fault(at, format!("\"{id}\" is no number of a sub-interface, 1 to {}", u32::MAX));
            reading.lost.interfaces = true;
            continue;
        };
        let mut fields = reading.r.fields(node);
        let tags = match fields.take("encapsulation") {
            Some(node) => encapsulation(&mut reading.r, node),
            None => tags_of(&mut reading.r, at, id),
        };
        let Some(tags) = tags else {
            reading.lost.interfaces = true;
            continue;
        };
        let mut interface = Interface::new(Spec::Sub { parent: parent.into(), id, tags });
        interface.up = over.up;
        read_body(reading, &name, &mut fields, &mut interface);
        if interface.up && !over.up {
            reading.r.fault(at, format!("{name} cannot be up while {parent} is down"));
        }
        fields.end(&mut reading.r);
        within(&mut reading.r, at, &name, interface.mtu, parent, over.mtu);
        match tags.inner {
            None => one_tag.push((tags.outer_service, tags.outer, interface.mtu)),
            Some(_) => two_tags.push((at, name.clone(), tags, interface.mtu)),
        }
        reading.set(at, Interface::sub_key(&name), interface);
    }
    for (at, name, tags, mtu) in two_tags {
        let outer =
            one_tag.iter().find(|(service, vlan, _)| (*service, *vlan) == (tags.outer_service, tags.outer));
        if let Some((_, vlan, limit)) = outer {
            within(&mut reading.r, at, &name, mtu, &format!("the sub-interface of VLAN {vlan}"), *limit);
        }
    }
}

/// What carries a sub-interface must take packets as large as it does.
fn within(r: &mut Reader, at: At, name: &str, mtu: Option<u16>, over: &str, limit: Option<u16>) {
    if let (Some(mtu), Some(limit)) = (mtu, limit)
        && mtu > limit
    {
        r.fault(at, format!("{name} has an MTU of {mtu}, and {over}, which carries it, only {limit}"));
    }
}

/// The tag of a sub-interface that says nothing of it.
fn tags_of(r: &mut Reader, at: At, id: u32) -> Option<Tags> {
    match u16::try_from(id).ok().filter(|vlan| VLANS.contains(vlan)) {
        Some(outer) => Some(Tags { outer_service: false, outer, inner: None }),
        None => {
            r.fault(at, format!("{id} is no VLAN: this sub-interface needs an \"encapsulation\""));
            None
        }
    }
}

fn encapsulation(r: &mut Reader, node: &Node) -> Option<Tags> {
    let mut fields = r.fields(node);
    let mut vlan = |name| fields.take(name).map(|n| r.number(n, VLANS));
    let (dot1q, dot1ad, inner) = (vlan("dot1q"), vlan("dot1ad"), vlan("inner-dot1q"));
    if let Some(exact) = fields.take("exact-match")
        && r.truth(exact) == Some(false)
    {
        r.fault(
            exact.at,
            "sub-interfaces match their tags exactly: others are for bridging, which there is not yet",
        );
    }
    fields.end(r);
    let outer = match (dot1q, dot1ad) {
        (Some(vlan), None) => (false, vlan?),
        (None, Some(vlan)) => (true, vlan?),
        _ => {
            r.fault(node.at, "one outer tag is needed: dot1q or dot1ad");
            return None;
        }
    };
    let inner = match inner {
        Some(vlan) => Some(vlan?),
        None => None,
    };
    Some(Tags { outer_service: outer.0, outer: outer.1, inner })
}

/// What a text says.
fn parsed<T>(r: &mut Reader, node: &Node, parse: fn(&str) -> Result<T, String>) -> Option<T> {
    parse(r.text(node)?).map_err(|why| r.fault(node.at, why)).ok()
}

//! Interfaces with their sub-interfaces, loopbacks and taps.

use std::net::{IpAddr, Ipv4Addr};

use drivers::pcap::{self, Speed};
use drivers::{af_packet, af_xdp, memif, tap};
use net::ethernet::Tags;
use net::ip::Address;
use net::tables::MAX_INTERFACES;
use wire::Mac;

use super::Reading;
use crate::intent::{
    Addresses, FeatureOn, Interface, MOST_QUEUES, MemifSocket, Neighbor, Spec, Unnumbered, VLANS,
};
use model::yaml::{At, Content, Fields, NOT_YET, Node, Reader};

/// The MTUs that an interface may have, bytes.
const MTUS: std::ops::RangeInclusive<u16> = wire::ipv4::MIN_MTU..=u16::MAX;

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
        let state = state(&mut reading.r, &mut fields);
        // The rest is read even if nothing can come of it: every fault is to be named.
        let (spec, host_mtu, description) = spec.unwrap_or((Spec::Generator(0), None, None));
        if matches!(spec, Spec::Tap(..)) {
            reading.places.remove(&key);
        }
        let mut interface = Interface::new(spec);
        interface.up = state.unwrap_or(true);
        body(reading, name, &mut fields, &mut interface);
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
        return Some(Spec::Xdp(xdp(r, host, xdp_options)));
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
            let mut fields = r.fields(node);
            let mode = fields.take("mode").and_then(|n| r.word(n, &["v2", "v3"]));
            config.mode = if mode == Some("v3") { af_packet::Mode::V3 } else { af_packet::Mode::V2 };
            config.shared = fields.take("shared").and_then(|n| r.truth(n)).unwrap_or(false);
            config.force = fields.take("force").and_then(|n| r.truth(n)).unwrap_or(false);
            fields.end(r);
        }
        return Some(Spec::Host(config));
    }
    if let Some((socket, id)) = memif_numbers(name) {
        return memif_spec(r, fields, name, at, (socket, id)).map(Spec::Memif);
    }
    if let Some(number) = number_of(name, "pg") {
        return Some(Spec::Generator(number));
    }
    if let Some(number) = number_of(name, "pcap") {
        let Some(node) = fields.take("pcap") else {
            r.fault(at, format!("{name} needs a \"pcap\" with a file to replay (rx), or to record (tx)"));
            return None;
        };
        return Some(Spec::Pcap(number, pcap(r, node, number)));
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

/// `pcap` of a device of files.
fn pcap(r: &mut Reader, node: &Node, number: u16) -> pcap::Config {
    let mut fields = r.fields(node);
    let mut config = pcap::Config::new(number);
    let rate = fields.take("rate").and_then(|n| r.number(n, 1..=u32::MAX));
    let full = fields.take("full-speed").and_then(|n| r.truth(n)).unwrap_or(false);
    let rounds = fields.take("loop").map(|n| match r.text(n) {
        Some("forever") => None,
        _ => r.number(n, 1..=u32::MAX),
    });
    let most = fields.take("max").and_then(|n| r.number(n, 0..=u64::MAX));
    if let Some(file) = fields.take("rx").and_then(|n| r.text(n)) {
        let speed = match (rate, full) {
            (Some(pps), _) => Speed::Rate(pps),
            (None, true) => Speed::Full,
            (None, false) => Speed::Own,
        };
        config.replay = Some(pcap::Replay { file: file.into(), speed, rounds: rounds.unwrap_or(Some(1)) });
    } else if rate.is_some() || full || rounds.is_some() {
        r.fault(node.at, "rate, full-speed and loop are of a file that is replayed: \"rx\"");
    }
    if rate.is_some() && full {
        r.fault(node.at, "a file is replayed at a rate or at full speed, not both");
    }
    if let Some(file) = fields.take("tx").and_then(|n| r.text(n)) {
        config.record = Some(pcap::Record { file: file.into(), most: most.unwrap_or(pcap::PACKETS) });
    } else if most.is_some() {
        r.fault(node.at, "max is of a file that is recorded: \"tx\"");
    }
    fields.end(r);
    if config.replay.is_none() && config.record.is_none() {
        r.fault(node.at, "it has no file: \"rx\" to replay one, \"tx\" to record one, or both");
    }
    for path in [config.replay.as_ref().map(|r| &r.file), config.record.as_ref().map(|r| &r.file)]
        .into_iter()
        .flatten()
    {
        if path.is_relative() {
            r.fault(node.at, format!("{}: a file is named by its whole path, from / on", path.display()));
        }
    }
    config
}

/// `af-xdp`: how a Linux interface is taken that way.
fn xdp(r: &mut Reader, host: &str, options: Option<&Node>) -> af_xdp::Config {
    let mut config = af_xdp::Config::new(host);
    let Some(node) = options else { return config };
    let mut fields = r.fields(node);
    config.queues = fields.take("queues").and_then(|n| r.number(n, 1..=MOST_QUEUES));
    let mut ring = |name, usual| {
        let size = fields.take(name).and_then(|n| Some((n.at, r.number(n, 64..=32_768u32)?)));
        match size {
            Some((at, size)) if !size.is_power_of_two() => {
                r.fault(at, format!("{size} is no power of two"));
                usual
            }
            size => size.map_or(usual, |(_, size)| size),
        }
    };
    config.rx_ring = ring("rx-ring-size", config.rx_ring);
    config.tx_ring = ring("tx-ring-size", config.tx_ring);
    config.attach = match fields.take("mode").and_then(|n| r.word(n, &["native", "generic"])) {
        Some("native") => Some(af_xdp::Attach::Native),
        Some(_) => Some(af_xdp::Attach::Generic),
        None => None,
    };
    config.copying = match fields.take("zero-copy").and_then(|n| r.truth(n)) {
        Some(true) => af_xdp::Copying::Never,
        Some(false) => af_xdp::Copying::Always,
        None => af_xdp::Copying::IfNeeded,
    };
    config.force = fields.take("force").and_then(|n| r.truth(n)).unwrap_or(false);
    fields.end(r);
    config
}

/// The socket and the number of an interface that is named memifSOCKET/ID.
fn memif_numbers(name: &str) -> Option<(u32, u32)> {
    let (socket, id) = name.split_once('/')?;
    Some((number_of(socket, "memif")?, number_of(id, "")?))
}

/// What a memif interface is made of.
fn memif_spec(
    r: &mut Reader,
    fields: &mut Fields<'_>,
    name: &str,
    at: At,
    (socket, id): (u32, u32),
) -> Option<memif::Config> {
    let Some(node) = fields.take("memif") else {
        r.fault(at, format!("{name} needs a \"memif\" with its \"role\", master or slave"));
        return None;
    };
    let mut fields = r.fields(node);
    let role = match fields.take("role") {
        None => {
            r.fault(node.at, "its \"role\" is needed, master or slave");
            None
        }
        Some(role) => r.word(role, &["master", "slave"]),
    };
    let role = if role == Some("master") { memif::Role::Server } else { memif::Role::Client };
    let mut config = memif::Config::new(socket, id, role);
    let mut queues = |r: &mut Reader, name| fields.take(name).and_then(|n| r.number(n, 1..=u16::MAX));
    config.rx_queues = queues(r, "rx-queues").map_or(config.rx_queues, usize::from);
    config.tx_queues = queues(r, "tx-queues").map_or(config.tx_queues, usize::from);
    config.ring_size = queues(r, "ring-size").unwrap_or(config.ring_size);
    let size = fields.take("buffer-size").and_then(|n| r.number(n, 1..=u32::MAX));
    config.buffer_size = size.unwrap_or(config.buffer_size);
    config.trusted = fields.take("trusted").and_then(|n| r.truth(n)).unwrap_or(false);
    if let Some(node) = fields.take("secret")
        && let Some(text) = r.text(node)
    {
        match memif::Secret::new(text) {
            Ok(secret) => config.secret = Some(secret),
            Err(e) => r.fault(node.at, e),
        }
    }
    fields.end(r);
    Some(config)
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
        interface.up = state(&mut reading.r, &mut fields).unwrap_or(true);
        body(reading, name, &mut fields, &mut interface);
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
        let description = description(r, &mut fields);
        for name in ["rx-ring-size", "tx-ring-size"] {
            // A tap has no rings here: packets are copied one by one, as many as there are.
            let size = fields.take(name).and_then(|n| Some((n.at, r.number(n, 8..=32_768u32)?)));
            if let Some((at, size)) = size.filter(|(_, size)| !size.is_power_of_two()) {
                r.fault(at, format!("{size} is no power of two"));
            }
        }
        let mut config = tap::Config::new(name);
        config.gso = fields.take("gso").and_then(|n| r.truth(n)).unwrap_or(true);
        let mut mtu = None;
        match fields.take("host") {
            None => r.fault(at, format!("{name} needs a \"host\" with the \"name\" of its other end")),
            Some(node) => mtu = host(r, node, &mut config),
        }
        fields.end(r);
        let mut interface = Interface::new(Spec::Tap(number, config));
        (interface.up, interface.mtu, interface.description) = (true, mtu, description);
        reading.set(at, Interface::key(name), interface);
    }
}

/// The host's end of a tap; gives its MTU.
fn host(r: &mut Reader, node: &Node, config: &mut tap::Config) -> Option<u16> {
    let mut fields = r.fields(node);
    match fields.take("name") {
        None => r.fault(node.at, "the host's end needs a \"name\""),
        Some(name) => {
            if let Some(text) = r.text(name) {
                config.host_name = text.to_string();
            }
        }
    }
    config.host_mac = fields.take("mac").and_then(|n| mac(r, n)).map(|m| m.0);
    config.host_namespace = fields.take("namespace").and_then(|n| r.text(n)).map(Into::into);
    if let Some(node) = fields.take("address")
        && let Some(a) = address(r, node)
    {
        config.host_ip4 = a.of::<Ipv4Addr>().map(|a| (a.address, a.len));
        if config.host_ip4.is_none() {
            r.fault(node.at, format!("{a} is no IPv4 address, which the host's end can be given"));
        }
    }
    let mtu = fields.take("mtu").and_then(|n| r.number(n, MTUS));
    for name in ["bridge", "bridge-create", "namespace-create"] {
        fields.refuse(r, name, NOT_YET);
    }
    fields.end(r);
    mtu
}

/// What may be said of every interface, and what lies on it: addresses, neighbours, features.
fn body(reading: &mut Reading<'_>, name: &str, fields: &mut Fields<'_>, interface: &mut Interface) {
    let r = &mut reading.r;
    interface.description = description(r, fields);
    interface.index = fields.take("index").and_then(|n| r.number(n, 0..=MAX_INTERFACES - 1));
    interface.mtu = fields.take("mtu").and_then(|n| r.number(n, MTUS));
    interface.mac = fields.take("mac").and_then(|n| mac(r, n));
    interface.receive = super::receive::read(r, fields);
    interface.attached = reading.catalog.read(r, fields);
    interface.proxy = fields.take("proxy-arp").and_then(|n| r.truth(n)).unwrap_or(false);
    if let Some((says, suppressed)) =
        fields.take("router-advertisement").and_then(|n| super::advertisement::read(r, n))
    {
        (interface.advertisement, interface.ra_suppressed) = (Some(Box::new(says)), suppressed);
    }
    let unnumbered = fields.take("unnumbered").and_then(|n| Some((n.at, r.text(n)?.to_string())));
    interface.ip6 = fields.take("ip6").and_then(|n| r.truth(n)).unwrap_or(false);
    let table = fields.take("table").map(|n| r.number(n, 0..=u16::MAX));
    interface.table = table.flatten().unwrap_or(0);
    for name in ["lcp", "l2xc", "mpls", "sflow", "acls"] {
        fields.refuse(r, name, NOT_YET);
    }
    if let Some(node) = fields.take("addresses") {
        let list: Vec<Address> = r.list(node).iter().filter_map(|n| address(r, n)).collect();
        // Without its VRF nobody can say what an address clashes with.
        if !list.is_empty() && table != Some(None) {
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
            if let Some(mac) = mac(&mut reading.r, node) {
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
        let up = state(&mut reading.r, &mut fields);
        interface.up = up.unwrap_or(over.up);
        if up == Some(true) && !over.up {
            reading.r.fault(at, format!("{name} cannot be up while {parent} is down"));
        }
        body(reading, &name, &mut fields, &mut interface);
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

fn state(r: &mut Reader, fields: &mut Fields<'_>) -> Option<bool> {
    fields.take("state").and_then(|n| r.word(n, &["up", "down"])).map(|word| word == "up")
}

/// What an interface is for; an empty text is none.
fn description(r: &mut Reader, fields: &mut Fields<'_>) -> Option<String> {
    let node = fields.take("description")?;
    match &node.content {
        Content::Text(text) if text.is_empty() => None,
        _ => r.text(node).map(str::to_string),
    }
}

fn mac(r: &mut Reader, node: &Node) -> Option<Mac> {
    r.parsed(node, "an Ethernet address as 02:fe:00:00:00:01")
}

/// An address with the length of its network.
fn address(r: &mut Reader, node: &Node) -> Option<Address> {
    let text = r.text(node)?;
    let (address, len) = text.split_once('/').unwrap_or((text, ""));
    match (address.parse::<IpAddr>(), len.parse::<u8>()) {
        // One form of each, so that whoever looks for an address finds it.
        (Ok(ip), Ok(_)) if ip.to_string() != address => {
            r.fault(node.at, format!("\"{text}\" is written {ip}/{len}"));
            None
        }
        (Ok(address), Ok(len)) => Some(Address::new(address, len)),
        _ => {
            r.fault(
                node.at,
                format!("\"{text}\" is not an address with its length as 192.0.2.1/24 or 2001:db8::1/64"),
            );
            None
        }
    }
}

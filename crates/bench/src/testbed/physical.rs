//! Ports of this machine, cabled to a router that is another machine.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use buf::{Frame, Pool};
use serde_json::Value;
use wire::Mac;
use wire::arp::{ArpPacket, Operation};
use wire::builder::arp_frame;
use wire::ethernet::ethertype;

use super::lab::run;
use super::link::Link;
use crate::engine::run::Port;
use crate::trial::Failure;

/// How often a router is asked for its Ethernet address, and how long it may take to answer.
const ASK: (u32, Duration) = (5, Duration::from_millis(500));

/// Whether a port is one of hardware, and its Ethernet address. Nothing is touched.
///
/// # Errors
/// When it is not there, or the machine needs it: it has a default route, an address, a bridge that it belongs to, or interfaces on it.
pub(super) fn inspect(name: &str) -> Result<(bool, Mac), Failure> {
    let json = |words: &[&str]| {
        let text = run(&[&["ip", "-json"], words].concat())?;
        serde_json::from_str::<Value>(if text.trim().is_empty() { "[]" } else { &text })
            .map_err(|e| Failure(format!("ip {}: {e}", words.join(" "))))
    };
    let port = json(&["address", "show", "dev", name])?;
    let mut defaults = Vec::new();
    for family in ["-4", "-6"] {
        let routes = json(&[family, "route", "show", "default"])?;
        defaults.extend(routes.as_array().into_iter().flatten().flat_map(devices));
    }
    let session = std::env::var("SSH_CONNECTION").ok();
    let session = session.as_deref().and_then(|s| s.split_whitespace().nth(2)?.parse().ok());
    let place = Path::new("/sys/class/net").join(name);
    let above = above(&place).map_err(|e| Failure(format!("{}: {e}", place.display())))?;
    let mac = judge(name, &port[0], &defaults, session, &above).map_err(Failure)?;
    Ok((place.join("device").exists(), mac))
}

/// The interfaces that are on a port, such as VLANs, or that it belongs to (Linux, `Documentation/ABI/testing/sysfs-class-net`,
/// `upper_*`).
fn above(place: &Path) -> std::io::Result<Vec<String>> {
    let mut all = Vec::new();
    for entry in place.read_dir()? {
        all.extend(
            entry?.file_name().to_str().and_then(|name| name.strip_prefix("upper_")).map(str::to_owned),
        );
    }
    Ok(all)
}

/// The devices of a route: one, or one for each next hop.
fn devices(route: &Value) -> Vec<String> {
    let hops = route["nexthops"].as_array().into_iter().flatten();
    hops.chain([route]).filter_map(|hop| hop["dev"].as_str().map(str::to_owned)).collect()
}

/// The Ethernet address of a port that nobody needs; else why it may not be taken. `session` is the address by which somebody is logged
/// in, `above` are the interfaces on it.
fn judge(
    name: &str,
    port: &Value,
    defaults: &[String],
    session: Option<IpAddr>,
    above: &[String],
) -> Result<Mac, String> {
    let addresses = port["addr_info"].as_array().into_iter().flatten();
    // Every port that is up has a link-local one.
    let own = addresses.filter(|a| a["scope"] != "link").filter_map(|a| a["local"].as_str());
    let own: Vec<&str> = own.collect();
    if own.iter().any(|a| session.is_some() && a.parse().ok() == session) {
        return Err("you are logged in by this port: the tester does not take it".into());
    }
    if defaults.iter().any(|d| d == name) {
        return Err("a default route leaves by this port: the tester does not take it".into());
    }
    if let Some(address) = own.first() {
        return Err(format!(
            "it has the address {address}, so the machine uses it: remove the address if it does not"
        ));
    }
    if let Some(master) = port["master"].as_str() {
        return Err(format!("it belongs to {master}: remove it from there first"));
    }
    // Addresses and routes may be there.
    if let Some(above) = above.first() {
        return Err(format!("{above} is on it, so the machine uses it: remove that if it does not"));
    }
    port["address"].as_str().and_then(|mac| mac.parse().ok()).ok_or_else(|| "it is no Ethernet port".into())
}

/// Asks for the router's Ethernet address on each link (RFC 826), and writes it there.
///
/// # Errors
/// When nobody answers.
pub(super) fn resolve(links: &mut [Link; 2], ports: &mut [Port], pool: &Pool) -> Result<(), Failure> {
    for (link, port) in links.iter_mut().zip(ports) {
        let ([IpAddr::V4(own), _], IpAddr::V4(router)) = (link.hosts(), link.ipv4.0.addr()) else { continue };
        let question = ArpPacket::request(link.tester_mac, own, router);
        let question = arp_frame(link.tester_mac, Mac::BROADCAST, &question);
        let answer = (0..ASK.0).find_map(|_| ask(port, &question, router.into(), pool));
        link.router_mac = answer.ok_or_else(|| {
            Failure(format!(
                "{}: nobody answers for {router}: cable the port to the router, give the router that address, or say its Ethernet \
                 address (router-macs)",
                link.tester
            ))
        })?;
    }
    Ok(())
}

fn ask(port: &mut Port, question: &[u8], router: IpAddr, pool: &Pool) -> Option<Mac> {
    let (mut frame, mut cache) = (Box::new(Frame::new()), pool.cache());
    port.answer(question, &mut frame, &mut cache);
    let (begin, mut found) = (Instant::now(), None);
    while found.is_none() && begin.elapsed() < ASK.1 {
        port.rx.poll(&mut frame, &mut cache).ok()?;
        frame.packets().for_each(|p| found = found.or_else(|| answer(p.bytes(), router)));
        frame.free(&mut cache);
    }
    found
}

/// Whose Ethernet address this frame says.
fn answer(frame: &[u8], router: IpAddr) -> Option<Mac> {
    if frame.get(12..14)? != ethertype::ARP.to_be_bytes() {
        return None;
    }
    let (arp, _) = ArpPacket::split(frame.get(14..)?)?;
    let says = arp.check() == Ok(Operation::Reply) && IpAddr::V4(arp.sender_ip()) == router;
    says.then(|| arp.sender_mac())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_port_that_somebody_needs_is_not_taken() {
        let own = json!([{"local": "192.0.2.7", "scope": "global"}, {"local": "fe80::1", "scope": "link"}]);
        let port = |more: Value| {
            let mut port = json!({"ifname": "eth1", "address": "02:00:00:00:00:07"});
            for (key, value) in more.as_object().into_iter().flatten() {
                port[key] = value.clone();
            }
            port
        };
        let session = "192.0.2.7".parse().ok();
        let default = ["eth1".to_owned()];
        let cases = [
            (port(json!({"addr_info": own})), &[][..], session, "you are logged in by this port"),
            (port(json!({"addr_info": own})), &default, None, "a default route leaves by this port"),
            (port(json!({})), &default, None, "a default route leaves by this port"),
            (port(json!({"addr_info": own})), &[], None, "it has the address 192.0.2.7"),
            (port(json!({"master": "br0"})), &[], None, "it belongs to br0"),
            (json!({"address": "00:00"}), &[], None, "it is no Ethernet port"),
            (Value::Null, &[], None, "it is no Ethernet port"),
        ];
        for (port, defaults, session, why) in cases {
            let said = judge("eth1", &port, defaults, session, &[]).err().unwrap_or_default();
            assert!(said.contains(why), "{said}\nand not: {why}");
        }
        let free = port(json!({"addr_info": [{"local": "fe80::1", "scope": "link"}]}));
        let of = |above: &[String]| judge("eth1", &free, &["eth0".into()], session, above);
        assert_eq!(of(&[]), Ok(Mac([2, 0, 0, 0, 0, 7])));
        assert!(of(&["eth1.5".into()]).is_err_and(|why| why.starts_with("eth1.5 is on it")));
    }

    #[test]
    fn what_is_on_a_port_is_found_by_its_links() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        assert_eq!(above(dir.path())?, [""; 0]);
        for name in ["upper_eth1.5", "lower_eth9", "address"] {
            std::fs::write(dir.path().join(name), "")?;
        }
        assert_eq!(above(dir.path())?, ["eth1.5"]);
        assert!(above(&dir.path().join("gone")).is_err());
        Ok(())
    }

    #[test]
    fn all_next_hops_of_a_route_count() {
        let route = json!({"dst": "default", "nexthops": [{"dev": "eth0"}, {"dev": "eth1"}]});
        assert_eq!(devices(&route), ["eth0", "eth1"]);
        assert_eq!(devices(&json!({"dst": "default", "dev": "eth2"})), ["eth2"]);
    }

    #[test]
    fn an_answer_is_of_the_router_that_was_asked() {
        let (router, tester) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        let question = ArpPacket::request(tester, [198, 18, 0, 2].into(), [198, 18, 0, 1].into());
        let ip = IpAddr::from([198, 18, 0, 1]);
        let reply = arp_frame(router, tester, &question.reply(router));
        assert_eq!(answer(&reply, ip), Some(router));
        assert_eq!(answer(&reply, [198, 18, 0, 9].into()), None);
        assert_eq!(answer(&arp_frame(tester, Mac::BROADCAST, &question), ip), None);
        assert_eq!(answer(&reply[..20], ip), None);
    }
}

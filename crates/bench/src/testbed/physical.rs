//! Ports of this machine, cabled to a router on another machine.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use buf::{Frame, Pool};
use wire::Mac;
use wire::arp::{ArpPacket, Operation};
use wire::builder::arp_frame;
use wire::ethernet::ethertype;

use super::link::Link;
use super::way_in::Known;
use crate::engine::run::Port;
use crate::trial::Failure;

/// Number of ARP requests for a router's Ethernet address, and the wait for each answer.
const ASK: (u32, Duration) = (5, Duration::from_millis(500));

/// Returns true if a port is hardware, and the port's Ethernet address. Changes nothing.
///
/// # Errors
/// If there is no such port, or the machine needs it.
pub(super) fn inspect(known: &Known, name: &str) -> Result<(bool, Mac), Failure> {
    let place = Path::new("/sys/class/net").join(name);
    let above = above(&place).map_err(|e| Failure(format!("{}: {e}", place.display())))?;
    let mac = known.judge(name, &above).map_err(Failure)?;
    Ok((place.join("device").exists(), mac))
}

/// Returns the rate of a hardware port in 10⁹ bits per second, if its driver reports one (Linux,
/// `Documentation/ABI/testing/sysfs-class-net`, `speed`). Without a link, drivers report none. Rates of virtual ports
/// are meaningless, and ignored.
pub(super) fn gbit(name: &str) -> Option<f64> {
    rate(&Path::new("/sys/class/net").join(name))
}

fn rate(place: &Path) -> Option<f64> {
    let mbit = std::fs::read_to_string(place.join("speed")).ok().filter(|_| place.join("device").exists())?;
    mbit.trim().parse().ok().filter(|mbit| *mbit > 0.0).map(|mbit: f64| mbit / 1e3)
}

/// Returns a port's upper interfaces: those on top of it, such as VLANs, and those it belongs to, such as a bridge
/// (Linux, `Documentation/ABI/testing/sysfs-class-net`, `upper_*`).
fn above(place: &Path) -> std::io::Result<Vec<String>> {
    let mut all = Vec::new();
    for entry in place.read_dir()? {
        all.extend(
            entry?.file_name().to_str().and_then(|name| name.strip_prefix("upper_")).map(str::to_owned),
        );
    }
    Ok(all)
}

/// Resolves the router's Ethernet address on each link by ARP (RFC 826), and stores it in the link.
///
/// # Errors
/// If the router does not answer.
pub(super) fn resolve(links: &mut [Link; 2], ports: &mut [Port], pool: &Pool) -> Result<(), Failure> {
    for (link, port) in links.iter_mut().zip(ports) {
        let ([IpAddr::V4(own), _], IpAddr::V4(router)) = (link.hosts(), link.ipv4.0.addr()) else { continue };
        let question = ArpPacket::request(link.tester_mac, own, router);
        let question = arp_frame(link.tester_mac, Mac::BROADCAST, &question);
        let answer = (0..ASK.0).find_map(|_| ask(port, &question, router.into(), pool));
        link.router_mac = answer.ok_or_else(|| {
            Failure(format!(
                "{}: no ARP reply from {router}: cable the port to the router, give the router that address, or set its Ethernet address \
                 (router-macs)",
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

/// Returns the router's Ethernet address if this frame is its ARP reply; otherwise `None`.
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
    use super::*;

    #[test]
    fn interfaces_above_a_port_are_found_by_its_links() -> std::io::Result<()> {
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
    fn rates_are_known_only_for_hardware_with_a_link() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let said = |speed: &str| std::fs::write(dir.path().join("speed"), speed).map(|()| rate(dir.path()));
        assert_eq!((rate(dir.path()), said("10000\n")?), (None, None));
        std::fs::create_dir(dir.path().join("device"))?;
        assert_eq!((said("-1\n")?, said("")?, said("2500\n")?), (None, None, Some(2.5)));
        Ok(())
    }

    #[test]
    fn only_answers_of_the_requested_router_count() {
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

//! Tests of router advertisements in a whole router between two links. The test sends and receives the frames on the links.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use graph::{Builder, GraphError};
use net::Tables;
use net::ethernet::Tags;
use net::ip::{Address, Prefix6};
use net::nd::Standing;
use net::router::Hooks;
use net::testing::{Lab, MS, own_mac};
use wire::nd::{self, Message, NdOption, NdOptions, PrefixInformation};
use wire::{EthernetHeader, Ipv6Header, Mac, ethertype, ipv6, protocol};

use crate::advertisement::{Advertisement, PrefixAdvice};
use crate::links::{Advertised, advertised_prefixes};

const A_MAC: Mac = Mac([2, 0, 0, 0, 0xa, 2]);

fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    net::testing::install(b, t, hooks)?;
    crate::install(hooks)
}

fn own(interface: u32) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, interface as u16 + 1, 0, 0, 0, 1)
}

fn link_local(interface: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(ipv6::link_local(own_mac(interface)))
}

fn lab() -> Lab {
    Lab::with(install, |index| Address::new(own(index), 64))
}

/// Sets the advertisement of the first interface.
fn set(lab: &mut Lab, says: Option<Advertisement>) {
    lab.router.set(0, Advertised(says.map(Arc::new))).unwrap();
}

/// Lets the first interface receive a router solicitation.
fn solicit(lab: &mut Lab, (mac, from): (Mac, Ipv6Addr)) {
    let to = Ipv6Addr::from_bits(ipv6::ALL_ROUTERS);
    let header = EthernetHeader::new(ipv6::multicast_mac(ipv6::ALL_ROUTERS), mac, ethertype::IPV6);
    let packet = nd::build(from, to, &Message::RouterSolicitation, &[]);
    lab.receive(0, 0, [&header.as_bytes()[..], &packet].concat());
}

fn message(frame: &[u8]) -> (EthernetHeader, Ipv6Header, Message, NdOptions<'_>) {
    let (header, rest) = EthernetHeader::split(frame).unwrap();
    assert_eq!(header.ethertype(), ethertype::IPV6, "{frame:02x?}");
    let (ip, rest) = Ipv6Header::split(rest).unwrap();
    let (message, options) = nd::parse(ip, rest).unwrap();
    (*header, *ip, message, options)
}

#[test]
fn the_router_advertises_itself_only_if_enabled() {
    let mut lab = lab();
    let ask = |lab: &mut Lab| {
        solicit(lab, (A_MAC, Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9)));
        lab.pass(4000);
        lab.sent(0)
    };
    assert_eq!(ask(&mut lab).len(), 0);
    set(&mut lab, Some(Advertisement::default()));
    lab.pass(4000);
    let first = lab.sent(0);
    let (header, ip, said, options) = message(&first[0]);
    let all = ipv6::ALL_NODES;
    assert_eq!((header.dst(), ip.src(), ip.dst().to_bits()), (ipv6::multicast_mac(all), link_local(0), all));
    let Message::RouterAdvertisement(ra) = said else { panic!("{said:?}") };
    assert_eq!((ra.lifetime, ra.hop_limit, ra.managed), (1800, 64, false));
    let prefixes: Vec<_> =
        options.filter_map(|o| if let NdOption::Prefix(p) = o { Some(p) } else { None }).collect();
    assert_eq!(prefixes.len(), 1);
    assert_eq!(
        (prefixes[0].prefix, prefixes[0].len, prefixes[0].autonomous),
        (Prefix6::new(own(0), 64).address(), 64, true)
    );
    assert_eq!(ask(&mut lab).len(), 1);
    // Another interface of this router on the same link does not count as a host.
    solicit(&mut lab, (own_mac(1), link_local(1)));
    lab.pass(4000);
    assert_eq!(lab.sent(0).len(), 0);
    set(&mut lab, None);
    lab.pass(20_000);
    let last = lab.sent(0);
    assert_eq!(last.len(), 3);
    assert!(matches!(message(&last[0]).2, Message::RouterAdvertisement(ra) if ra.lifetime == 0));
    assert_eq!(ask(&mut lab).len(), 0);
}

/// Returns the lifetime and the prefixes of each router advertisement among `frames`.
fn advertised(frames: &[Vec<u8>]) -> Vec<(u16, Vec<PrefixInformation>)> {
    // Multicast listener reports are not Neighbor Discovery messages, and have an extra header in front.
    let said = frames.iter().filter(|frame| frame[20] == protocol::ICMPV6).filter_map(|frame| {
        let (_, _, Message::RouterAdvertisement(ra), options) = message(frame) else { return None };
        let prefix = |o| if let NdOption::Prefix(p) = o { Some(p) } else { None };
        Some((ra.lifetime, options.filter_map(prefix).collect()))
    });
    said.collect()
}

#[test]
fn rfc4861_6_2_1_prefixes_are_advertised_as_configured() {
    let mut lab = lab();
    let network = Prefix6::new(own(0), 64);
    let other = |n: u128| Prefix6::new(Ipv6Addr::from_bits(0xfd << 120 | n << 64), 64);
    let mut says = Advertisement::default();
    let short = PrefixAdvice { valid: 60, preferred: 0, autonomous: false, ..PrefixAdvice::default() };
    says.prefixes = [(network, short), (other(1), PrefixAdvice { on_link: false, ..short })].into();
    says.prefixes.insert(other(2), PrefixAdvice { advertised: false, ..short });
    set(&mut lab, Some(says.clone()));
    lab.pass(1000);
    let [(1800, told)] = &advertised(&lab.sent(0))[..] else { panic!("one advertisement") };
    let [own, foreign] = told[..] else { panic!("{told:?}") };
    assert_eq!((own.prefix, own.valid, own.preferred), (network.address(), 60, 0));
    assert_eq!((own.on_link, own.autonomous, foreign.on_link), (true, false, false));
    assert_eq!(foreign.prefix, other(1).address());
    assert_eq!(*told, advertised_prefixes(&lab.router, lab.router.interface(0).unwrap()));
    // If the prefixes do not fit in one packet, several are sent, each within the minimum MTU.
    says.prefixes = (0..70).map(|n| (other(n), short)).collect();
    set(&mut lab, Some(says));
    lab.pass(4000);
    let frames = lab.sent(0);
    let all = advertised(&frames);
    assert_eq!(all.iter().map(|(_, told)| told.len()).collect::<Vec<_>>(), [37, 34]);
    assert!(all.iter().all(|(lifetime, _)| *lifetime == 1800));
    assert!(frames.iter().all(|frame| frame.len() <= 14 + 1280));
}

#[test]
fn rfc4861_6_2_5_a_stopping_link_sends_a_final_advertisement() {
    let mut lab = lab();
    set(&mut lab, Some(Advertisement::default()));
    lab.pass(4000);
    assert_eq!(advertised(&lab.sent(0)).len(), 1);
    lab.router.prepare_to_stop();
    // The final advertisement is already sent: the main thread does not wait for workers, however busy they are.
    let (last, other) = (lab.sent(0), lab.sent(1));
    assert!(matches!(advertised(&last)[..], [(0, _)]), "one, at once, regardless of the last one's time");
    assert_eq!(advertised(&other), []);
    lab.pass(60_000);
    assert_eq!(lab.sent(0).len(), 0);
    // The router advertises itself again when the link is back.
    lab.router.set_admin(0, false).unwrap();
    lab.router.set_admin(0, true).unwrap();
    lab.pass(10_000);
    assert!(matches!(advertised(&lab.sent(0))[..], [(1800, _), ..]), "as soon as it has a source address");
    // The router also advertises itself again when IPv6 is enabled again.
    lab.pass(20_000);
    lab.sent(0);
    lab.router.remove_address(0, Address::new(own(0), 64)).unwrap();
    lab.run();
    assert!(matches!(advertised(&lab.sent(0))[..], [(0, _)]));
    lab.router.set_ip6(0, true).unwrap();
    lab.pass(10_000);
    assert!(matches!(advertised(&lab.sent(0))[..], [(1800, _), ..]));
    lab.router.set_ip6(0, false).unwrap();
    lab.run();
    assert!(matches!(advertised(&lab.sent(0))[..], [(0, _)]));
    lab.router.add_address(0, Address::new(own(0), 64)).unwrap();
    lab.pass(60_000);
    lab.sent(0);
    // Setting the same again causes no advertisement.
    set(&mut lab, None);
    lab.pass(20_000);
    assert_eq!(advertised(&lab.sent(0)).len(), 3);
    lab.router.prepare_to_stop();
    lab.run();
    assert_eq!(lab.sent(0).len(), 0);
}

/// After a failed change, the router advertises itself again, although it already sent a final advertisement.
#[test]
fn a_failed_change_keeps_the_router_advertising() {
    let mut lab = lab();
    set(&mut lab, Some(Advertisement::default()));
    lab.pass(60_000);
    lab.sent(0);
    // The route derived from the address is missing, so removing the address fails.
    let (network, address) = (Prefix6::new(own(0), 64), Address::new(own(0), 64));
    assert_eq!(lab.break_network6(0), network);
    lab.router.remove_address(0, address).unwrap_err();
    assert!(lab.router.interface(0).unwrap().addresses.contains(&address));
    let routed = |lab: &Lab| lab.router.routes::<Ipv6Addr>().exact(0, network).next().is_some();
    assert!(routed(&lab), "the routes of the address are back");
    lab.pass(20_000);
    let told = advertised(&lab.sent(0));
    assert!(matches!(told[..], [(0, _), (1800, _), ..]), "{told:?}");
    assert_eq!(lab.router.interface(0).unwrap().standing(own(0)), Some(Standing::Unique));
    // The same when IPv6 is disabled.
    lab.router.set_ip6(0, true).unwrap();
    lab.router.remove_address(0, address).unwrap();
    lab.pass(60_000);
    lab.sent(0);
    lab.break_network6(0);
    lab.router.set_ip6(0, false).unwrap_err();
    assert!(lab.router.interface(0).unwrap().ip6);
    lab.pass(20_000);
    let told = advertised(&lab.sent(0));
    assert!(matches!(told[..], [(0, _), (1800, _), ..]), "{told:?}");
    // The same when the interface is set down.
    lab.pass(60_000);
    lab.sent(0);
    lab.refuse(0, true);
    lab.router.set_admin(0, false).unwrap_err();
    lab.refuse(0, false);
    lab.pass(20_000);
    let told = advertised(&lab.sent(0));
    assert!(matches!(told[..], [(0, _), (1800, _), ..]), "{told:?}");
}

/// A change that does not concern IPv6 does not end the advertisements.
#[test]
fn the_loss_of_ipv4_ends_no_advertisements() {
    let mut lab = lab();
    let address = Address::new(Ipv4Addr::new(10, 0, 0, 1), 24);
    lab.router.add_address(0, address).unwrap();
    set(&mut lab, Some(Advertisement::default()));
    lab.pass(60_000);
    lab.sent(0);
    lab.router.remove_address(0, address).unwrap();
    lab.pass(20_000);
    let told = advertised(&lab.sent(0));
    assert!(!told.is_empty() && told.iter().all(|(lifetime, _)| *lifetime == 1800), "{told:?}");
}

/// Interfaces without hosts, such as loopbacks, send no advertisements. After advertisements are disabled, the final advertisements still
/// have the last settings.
#[test]
fn only_links_with_hosts_get_advertisements() {
    let mut lab = lab();
    let loopback = lab.router.add_loopback("loop0", Mac([2, 0, 0, 0, 0, 9])).unwrap();
    lab.router.set_admin(loopback, true).unwrap();
    lab.router.set_ip6(loopback, true).unwrap();
    let says = Arc::new(Advertisement::default());
    lab.router.set(loopback, Advertised(Some(says.clone()))).unwrap();
    lab.router.poll(lab.now);
    let soon = |lab: &Lab| lab.router.next_timeout().is_some_and(|at| at <= lab.now + 500 * MS);
    assert!(!soon(&lab), "nothing is due");
    let says = Advertisement { managed: true, ..Advertisement::default() };
    set(&mut lab, Some(says));
    lab.router.poll(lab.now);
    assert!(soon(&lab), "the first one is due");
    lab.pass(1000);
    lab.sent(0);
    set(&mut lab, None);
    lab.pass(10_000);
    let frames = lab.sent(0);
    let last = frames.iter().map(|frame| message(frame).2).collect::<Vec<_>>();
    assert_eq!(last.len(), 3);
    assert!(
        last.iter().all(|m| matches!(m, Message::RouterAdvertisement(ra) if ra.lifetime == 0 && ra.managed))
    );
}

/// Removing a device also removes its sub-interfaces. The router reports each sub-interface as leaving twice: with the device, and alone.
/// The final advertisement is still sent only once.
#[test]
fn removing_a_device_ends_advertisements_of_sub_interfaces_once() {
    let mut lab = lab();
    let tags = Tags { outer_service: false, outer: 7, inner: None };
    let sub = lab.router.add_subinterface("left.7", 0, tags).unwrap();
    lab.router.set_admin(sub, true).unwrap();
    lab.router.set_ip6(sub, true).unwrap();
    lab.router.set(sub, Advertised(Some(Arc::default()))).unwrap();
    lab.pass(60_000);
    let tagged = |frames: &[Vec<u8>]| -> Vec<u16> {
        let of_sub = frames.iter().filter(|f| f[12..16] == [0x81, 0, 0, 7]);
        let untagged = of_sub.map(|f| [&f[..12], &f[16..]].concat());
        advertised(&untagged.collect::<Vec<_>>()).into_iter().map(|(lifetime, _)| lifetime).collect()
    };
    let told = tagged(&lab.sent(0));
    assert!(told.len() >= 3 && told.iter().all(|lifetime| *lifetime == 1800), "{told:?}");
    lab.router.remove_interface(0).unwrap();
    lab.run();
    assert_eq!(tagged(&lab.sent(0)), [0]);
    // Another interface with the same index has no settings.
    assert_eq!(lab.router.setting::<Advertised>(sub), Advertised::default());
}

#[test]
fn solicitations_are_used_on_advertising_interfaces() {
    let mut lab = lab();
    let counted = |lab: &Lab| {
        let all = lab.router.graph().stats().dropped();
        let used = all.iter().find(|d| d.reason.name == "not-advertising");
        used.map_or(0, |d| d.packets)
    };
    let host = (A_MAC, "fe80::2".parse().unwrap());
    solicit(&mut lab, host);
    assert_eq!(counted(&lab), 1);
    set(&mut lab, Some(Advertisement::default()));
    lab.pass(1000);
    solicit(&mut lab, host);
    assert_eq!((counted(&lab), lab.router.accounts().unaccounted()), (1, 0));
}

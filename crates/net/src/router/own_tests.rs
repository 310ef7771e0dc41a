//! Tests of the router's own addresses that workers use, when an interface with addresses is removed or moves to another VRF.

use wire::Mac;
use wire::builder::PacketBuilder;

use super::lab::{Lab, own_mac};
use super::*;
use crate::ip::{Address, IpPrefix, Path};
use crate::nd::Standing;

const A_MAC: Mac = Mac([2, 0, 0, 0, 0xa, 2]);

/// A family with test addresses. `at` returns address `n` in an interface's network.
trait OnLink: Routed {
    fn at(interface: u32, n: u8) -> Self;
    /// Returns a frame with a ping from host 2 on the first link.
    fn ping(to: Self, from: Self) -> Vec<u8>;
}

impl OnLink for Ipv4Addr {
    fn at(interface: u32, n: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, interface as u8 + 1, n)
    }

    fn ping(to: Ipv4Addr, from: Ipv4Addr) -> Vec<u8> {
        PacketBuilder::ipv4(from, to).ethernet(A_MAC, own_mac(0)).echo_request(7, 1).build()
    }
}

impl OnLink for Ipv6Addr {
    fn at(interface: u32, n: u8) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, interface as u16 + 1, 0, 0, 0, n.into())
    }

    fn ping(to: Ipv6Addr, from: Ipv6Addr) -> Vec<u8> {
        PacketBuilder::ipv6(from, to).ethernet(A_MAC, own_mac(0)).echo_request(7, 1).build()
    }
}

/// Sends a ping from a host on the first link. Returns whether it is answered, and the reasons of drops.
fn ping<A: OnLink>(lab: &mut Lab, to: A, from: A) -> (bool, Vec<&'static str>) {
    let drops = |lab: &Lab| lab.router.graph().stats().dropped();
    let before = drops(lab);
    lab.sent(0);
    lab.receive(0, 0, A::ping(to, from));
    let now = drops(lab).into_iter().zip(before).filter(|(now, before)| now.packets > before.packets);
    let reasons = now.map(|(now, _)| now.reason.name).collect();
    let answers = lab.sent(0);
    (answers.iter().any(|frame| frame.len() == A::ping(to, from).len()), reasons)
}

/// Returns whether workers treat an address as the router's own in a VRF, and the address they send from by default.
fn own<A: OnLink>(lab: &Lab, fib: u16, address: A) -> (bool, Option<A>) {
    let mut participant = lab.router.participant();
    let section = participant.enter();
    let own = lab.router.tables().of::<A>().own.get(section.guard());
    assert_eq!(own.contains(fib, address.to_bits()), own.forbids_source(fib, address.to_bits()));
    (own.contains(fib, address.to_bits()), own.first(fib))
}

fn lab<A: OnLink>() -> Lab {
    let mut lab = Lab::new(|index| Address::new(A::at(index, 1), if A::HAS_BROADCAST { 24 } else { 64 }));
    lab.router.add_neighbor(0, A::at(0, 2), A_MAC, true).unwrap();
    lab.run();
    let (here, there) = (A::at(0, 1), A::at(1, 1));
    assert_eq!(own(&lab, 0, there), (true, Some(here)));
    assert!(ping(&mut lab, there, A::at(0, 2)).0);
    // No other station may send from the router's address `there`. A host on the other link may send from its own address.
    assert_eq!(ping(&mut lab, here, there), (false, vec!["own-source"]));
    lab
}

/// Checks that the router no longer uses the address that it had on the second link.
fn is_nobodys<A: OnLink>(lab: &mut Lab) {
    assert_eq!(own(lab, 0, A::at(1, 1)), (false, Some(A::at(0, 1))));
    assert!(!ping(lab, A::at(1, 1), A::at(0, 2)).0);
    for from in [1, 9] {
        let (answered, dropped) = ping(lab, A::at(0, 1), A::at(1, from));
        assert!(!answered && !dropped.contains(&"own-source"), "{dropped:?}");
    }
    assert!(ping(lab, A::at(0, 1), A::at(0, 2)).0, "the other interface keeps its address");
}

fn goes_with_its_interface<A: OnLink>() {
    let mut lab = lab::<A>();
    lab.router.remove_interface(1).unwrap();
    lab.run();
    is_nobodys::<A>(&mut lab);
}

#[test]
fn addresses_of_a_removed_interface_are_not_own() {
    goes_with_its_interface::<Ipv4Addr>();
    goes_with_its_interface::<Ipv6Addr>();
}

fn goes_to_another_vrf<A: OnLink>() {
    let mut lab = lab::<A>();
    let address = lab.router.interface(1).unwrap().addresses[0];
    let fib = lab.router.add_table(5).unwrap();
    lab.router.remove_address(1, address).unwrap();
    lab.router.set_table(1, 5).unwrap();
    lab.router.add_address(1, address).unwrap();
    lab.pass(5000);
    is_nobodys::<A>(&mut lab);
    assert_eq!(own(&lab, fib, A::at(1, 1)), (true, Some(A::at(1, 1))));
    assert!(!own(&lab, fib, A::at(0, 1)).0);
}

#[test]
fn an_address_moved_to_another_vrf_is_own_only_there() {
    goes_to_another_vrf::<Ipv4Addr>();
    goes_to_another_vrf::<Ipv6Addr>();
}

/// A link-local address cannot be removed before its interface moves to another VRF, so it moves with the interface.
#[test]
fn a_link_local_address_moves_to_another_vrf_with_its_interface() {
    let mut lab = lab::<Ipv4Addr>();
    lab.router.remove_address(1, Address::new(Ipv4Addr::at(1, 1), 24)).unwrap();
    lab.router.set_ip6(1, true).unwrap();
    lab.pass(5000);
    let info = lab.router.interface(1).unwrap();
    let address = info.link_local().unwrap();
    assert_eq!(info.standing(address), Some(Standing::Unique));
    let scoped = Ipv6Addr::from_bits(<Ipv6Addr as crate::ip::Packets>::scoped(address.to_bits(), 1));
    assert!(own(&lab, 0, scoped).0);
    let fib = lab.router.add_table(5).unwrap();
    lab.router.set_table(1, 5).unwrap();
    lab.run();
    assert_eq!((own(&lab, 0, scoped).0, own(&lab, fib, scoped).0), (false, true));
}

/// Sends a ping that arrives on the first link. Returns the reasons of drops unless it is forwarded to the second link.
fn forwarded(lab: &mut Lab, from: Ipv4Addr, to: Ipv4Addr) -> Result<(), Vec<&'static str>> {
    lab.sent(1);
    let (_, reasons) = ping(lab, to, from);
    if lab.sent(1).is_empty() { Err(reasons) } else { Ok(()) }
}

/// The default route is not used for IPv4 link-local addresses (RFC 3927 section 7). Connected networks and other configured routes are.
#[test]
fn ipv4_link_local_is_forwarded_only_by_configured_routes() {
    let mut lab = lab::<Ipv4Addr>();
    let (host, there) = (Ipv4Addr::at(0, 2), Ipv4Addr::at(1, 2));
    let (here, far) = (Ipv4Addr::new(169, 254, 5, 2), Ipv4Addr::new(169, 254, 6, 2));
    lab.router.add_neighbor(1, there, Mac([2, 0, 0, 0, 0xb, 2]), true).unwrap();
    let via = Path::Via { next_hop: there.into(), interface: None };
    lab.router.add_route(0, "0.0.0.0/0".parse::<IpPrefix>().unwrap(), via).unwrap();
    assert_eq!(forwarded(&mut lab, host, Ipv4Addr::new(198, 51, 100, 1)), Ok(()));
    assert_eq!(forwarded(&mut lab, host, far), Err(vec!["blackhole"]));
    assert_eq!(forwarded(&mut lab, far, there), Err(vec!["link-local-source"]));
    // A link with such addresses, and a route.
    lab.router.add_address(0, Address::new(Ipv4Addr::new(169, 254, 5, 1), 30)).unwrap();
    lab.pass(5000);
    assert_eq!(forwarded(&mut lab, here, there), Ok(()));
    assert_eq!(ping(&mut lab, Ipv4Addr::new(169, 254, 5, 1), here).1, Vec::<&str>::new());
    assert_eq!(forwarded(&mut lab, far, there), Err(vec!["link-local-source"]));
    lab.router.add_route(0, "169.254.6.0/24".parse::<IpPrefix>().unwrap(), via).unwrap();
    assert_eq!(forwarded(&mut lab, host, far), Ok(()));
    assert_eq!(forwarded(&mut lab, far, there), Ok(()));
    // A route to another VRF leads where that VRF's routes lead.
    lab.router.remove_route(0, "169.254.6.0/24".parse::<IpPrefix>().unwrap()).unwrap();
    let fib = lab.router.add_table(5).unwrap();
    lab.router.add_route(0, "169.254.6.0/24".parse::<IpPrefix>().unwrap(), Path::Table(fib)).unwrap();
    assert_eq!(forwarded(&mut lab, far, there), Err(vec!["link-local-source"]));
    lab.router.add_route(fib, "169.254.6.0/24".parse::<IpPrefix>().unwrap(), via).unwrap();
    assert_eq!(
        forwarded(&mut lab, far, there),
        Err(vec!["link-local-source"]),
        "the next hop is in the other VRF"
    );
    lab.router
        .add_route(
            fib,
            "169.254.6.0/24".parse::<IpPrefix>().unwrap(),
            Path::Via { next_hop: there.into(), interface: Some(1) },
        )
        .unwrap();
    assert_eq!(forwarded(&mut lab, far, there), Ok(()));
}

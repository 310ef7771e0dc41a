//! Tests of the events of interfaces and of Neighbor Discovery, as a feature sees them in a router between two links.

use std::net::{Ipv4Addr, Ipv6Addr};

use graph::{Builder, GraphError};
use wire::nd::{self, Message};
use wire::{EthernetHeader, Mac, ethertype, ipv6};

use super::events::{Change, Loss};
use super::lab::{Lab, own_mac};
use super::{Hooks, Router};
use crate::Tables;
use crate::ethernet::Tags;
use crate::ip::Address;
use crate::setting::{Setting, Switch};
use crate::testing;

/// A call of one of the test feature's callbacks, with its arguments.
#[derive(Clone, Debug, PartialEq)]
enum Event {
    Is(u32, Change),
    Leaves(Vec<u32>, Loss),
    Heard(u32, Message),
    Set(u32, Level),
}

use Event::{Heard, Is, Leaves, Set};

#[derive(Default)]
struct Seen(Vec<Event>);

/// A setting without counters. A level above 9 is refused.
#[derive(Clone, Debug, Default, PartialEq)]
struct Level(u32);

impl Setting for Level {
    type Counts = ();
    const COUNTED: &'static str = "/feature/level";

    fn switches(&self) -> Vec<Switch> {
        let unknown = Switch { arc: "ip4-unicast", feature: "nobodys", on: true };
        (self.0 > 9).then_some(unknown).into_iter().collect()
    }
}

fn see(router: &mut Router, event: Event) {
    router.state_mut::<Seen>().unwrap().0.push(event);
}

fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    crate::testing::install(b, t, hooks)?;
    testing::install_toy(b);
    hooks.state(|_| Ok(Seen::default()))?;
    hooks.setting::<Level>()?;
    hooks.on_change(|router, index, change| see(router, Is(index, change)));
    hooks.on_leaving(|router, interfaces, loss| {
        see(router, Leaves(interfaces.to_vec(), loss));
        let frame = |index: &u32| (*index, farewell(*index));
        assert!(router.send_at_once(interfaces.iter().map(frame).collect::<Vec<_>>()));
    });
    hooks.on_discovery(|router, heard| {
        see(router, Heard(heard.interface, heard.message));
        heard.interface == 1
    });
    hooks.on_set::<Level>(|router, index, before| see(router, Set(index, before.clone())));
    Ok(())
}

/// Returns the last frame that the test feature sends on an interface, before the interface loses its link or address.
fn farewell(index: u32) -> Vec<u8> {
    let header = EthernetHeader::new(Mac::BROADCAST, own_mac(index), 0x88cc);
    [&header.as_bytes()[..], &[index as u8; 46]].concat()
}

fn own(interface: u32) -> Address {
    Address::new(Ipv6Addr::new(0x2001, 0xdb8, 0, interface as u16 + 1, 0, 0, 0, 1), 64)
}

fn link_local(interface: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(ipv6::link_local(own_mac(interface)))
}

fn seen(lab: &mut Lab) -> Vec<Event> {
    std::mem::take(&mut lab.router.state_mut::<Seen>().unwrap().0)
}

fn lab() -> Lab {
    Lab::with(install, own)
}

#[test]
fn features_follow_each_change_of_an_interface() {
    let mut lab = lab();
    let start = |index| [Is(index, Change::Up), Is(index, Change::Changed)];
    let all = seen(&mut lab);
    assert_eq!(all[..4], [start(0), start(1)].concat());
    for index in 0..2 {
        let unique: Vec<_> = all[4..].iter().filter(|e| matches!(e, Is(i, _) if *i == index)).collect();
        let (own, link_local) = (own(index).of().unwrap().address, link_local(index));
        for address in [own, link_local] {
            assert!(unique.contains(&&Is(index, Change::Unique(address))), "{all:?}");
        }
        assert_eq!(unique.len(), 2);
    }
    let r = &mut lab.router;
    r.set_mtu(0, 1400).unwrap();
    r.add_address(0, Address::new(Ipv4Addr::new(10, 0, 0, 1), 24)).unwrap();
    r.add_address(0, Address::new(Ipv4Addr::new(10, 0, 0, 2), 24)).unwrap();
    assert_eq!(seen(&mut lab), vec![Is(0, Change::Changed); 3]);
    lab.router.set_admin(1, false).unwrap();
    assert_eq!(seen(&mut lab), [Leaves(vec![1], Loss::Link), Is(1, Change::Down)]);
    // Further changes of an interface that is down are not reported.
    lab.router.set_mtu(1, 1400).unwrap();
    lab.router.remove_address(1, own(1)).unwrap();
    assert_eq!(seen(&mut lab), []);
    lab.router.set_admin(1, true).unwrap();
    assert_eq!(seen(&mut lab), [Is(1, Change::Up)]);
}

#[test]
fn features_act_before_the_last_address_of_a_family_goes() {
    let mut lab = lab();
    let ip4 = |n| Address::new(Ipv4Addr::new(10, 0, 0, n), 24);
    (1..3).for_each(|n| lab.router.add_address(0, ip4(n)).unwrap());
    seen(&mut lab);
    lab.router.remove_address(0, ip4(1)).unwrap();
    assert_eq!(seen(&mut lab), [Is(0, Change::Changed)]);
    lab.router.remove_address(0, ip4(2)).unwrap();
    assert_eq!(seen(&mut lab), [Leaves(vec![0], Loss::Ip4), Is(0, Change::Changed)]);
    lab.router.remove_address(0, own(0)).unwrap();
    assert_eq!(seen(&mut lab), [Leaves(vec![0], Loss::Ip6), Is(0, Change::Changed)]);
    // With IPv6 enabled by itself, the last address is the link-local one.
    lab.router.add_address(0, own(0)).unwrap();
    lab.router.set_ip6(0, true).unwrap();
    seen(&mut lab);
    lab.router.remove_address(0, own(0)).unwrap();
    assert_eq!(seen(&mut lab), [Is(0, Change::Changed)]);
    lab.router.set_ip6(0, false).unwrap();
    assert_eq!(seen(&mut lab), [Leaves(vec![0], Loss::Ip6), Is(0, Change::Changed)]);
    lab.router.set_ip6(0, false).unwrap();
    assert_eq!(seen(&mut lab), [Is(0, Change::Changed)], "it had none");
}

#[test]
fn features_learn_that_a_refused_change_is_undone() {
    let mut lab = lab();
    seen(&mut lab);
    lab.refuse(0, true);
    lab.router.set_admin(0, false).unwrap_err();
    assert_eq!(seen(&mut lab), [Leaves(vec![0], Loss::Link), Is(0, Change::Stays)]);
    lab.refuse(0, false);
    lab.break_network6(0);
    lab.router.remove_address(0, own(0)).unwrap_err();
    let all = seen(&mut lab);
    assert_eq!(all.first(), Some(&Leaves(vec![0], Loss::Ip6)));
    assert_eq!(all.last(), Some(&Is(0, Change::Stays)));
    // A refused change to an interface that is down concerns no feature.
    lab.router.set_admin(0, false).unwrap();
    seen(&mut lab);
    lab.refuse(0, true);
    lab.router.set_admin(0, true).unwrap_err();
    assert_eq!(seen(&mut lab), []);
}

#[test]
fn sub_interfaces_leave_with_their_device() {
    let mut lab = lab();
    let tags = |outer| Tags { outer_service: false, outer, inner: None };
    let sub = lab.router.add_subinterface("left.7", 0, tags(7)).unwrap();
    let down = lab.router.add_subinterface("left.8", 0, tags(8)).unwrap();
    lab.router.set_admin(sub, true).unwrap();
    assert_eq!(seen(&mut lab).last(), Some(&Is(sub, Change::Up)));
    lab.sent(0);
    lab.router.prepare_to_stop();
    assert_eq!(seen(&mut lab), [Leaves(vec![0, 1, sub], Loss::Link)], "not {down}, which is down");
    lab.router.remove_interface(0).unwrap();
    let all = seen(&mut lab);
    assert_eq!(all.first(), Some(&Leaves(vec![0, sub], Loss::Link)));
    let states: Vec<_> = all.iter().filter(|e| matches!(e, Is(..))).collect();
    assert_eq!(states, [&Is(sub, Change::Down), &Is(0, Change::Down)]);
}

/// The last frames are on the link before any worker runs.
#[test]
fn frames_are_sent_at_once() {
    let mut lab = lab();
    let sub = lab.router.add_subinterface("left.7", 0, Tags { outer_service: false, outer: 7, inner: None });
    lab.router.set_admin(sub.unwrap(), true).unwrap();
    lab.sent(0);
    lab.router.prepare_to_stop();
    assert_eq!((lab.sent(0), lab.sent(1)), (vec![farewell(0), farewell(2)], vec![farewell(1)]));
    // More than a vector.
    assert!(lab.router.send_at_once((0..600).map(|n| (n / 300, farewell(0)))));
    assert_eq!((lab.sent(0).len(), lab.sent(1).len()), (300, 300));
    // The frame for an interface without a device cannot be sent. The other frame is sent nevertheless.
    assert!(!lab.router.send_at_once([(77, farewell(0)), (1, farewell(1))]));
    assert_eq!(lab.sent(1), [farewell(1)]);
    assert_eq!(lab.router.sent_at_once(), 3 + 600 + 1);
}

#[test]
fn features_hear_neighbor_discovery() {
    let mut lab = lab();
    let ask = |lab: &mut Lab, interface, mac| {
        let group = ipv6::ALL_ROUTERS;
        let from = "fe80::99".parse().unwrap();
        let header = EthernetHeader::new(ipv6::multicast_mac(group), mac, ethertype::IPV6);
        let packet = nd::build(from, Ipv6Addr::from_bits(group), &Message::RouterSolicitation, &[]);
        lab.receive(interface, 0, [&header.as_bytes()[..], &packet].concat());
        let unused = lab.router.graph().stats().dropped_for(graph::stats::MAIN_THREAD, "not-advertising");
        (seen(lab), unused.unwrap_or(0))
    };
    seen(&mut lab);
    let host = Mac([2, 0, 0, 0, 0xa, 2]);
    assert_eq!(ask(&mut lab, 0, host), (vec![Heard(0, Message::RouterSolicitation)], 1));
    assert_eq!(ask(&mut lab, 1, host), (vec![Heard(1, Message::RouterSolicitation)], 1), "it is used");
    // Features do not get messages that the router itself has sent.
    assert_eq!(ask(&mut lab, 1, own_mac(0)), (vec![], 1));
}

#[test]
fn features_follow_their_setting() {
    let mut lab = lab();
    seen(&mut lab);
    lab.router.set(0, Level(3)).unwrap();
    lab.router.set(0, Level(3)).unwrap();
    lab.router.set(0, Level(11)).unwrap_err();
    lab.router.set(0, Level(4)).unwrap();
    assert_eq!(seen(&mut lab), [Set(0, Level(0)), Set(0, Level(3))]);
    assert!(lab.router.counted::<Level>(lab.router.interface(0).unwrap()).is_empty());
}

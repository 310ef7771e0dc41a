//! Tests of features with their own interfaces, tracks and port modes: a minimal tunnel, and a minimal wire between two links.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use buf::Packet;
use graph::{Builder, Cx, GraphError, NoReason, PacketNode, Verdict, edges};
use wire::builder::PacketBuilder;
use wire::{EthernetHeader, Ipv4Header, Mac, ipv4};

use super::lab::{Lab, own_mac};
use super::{Hooks, Router};
use crate::Tables;
use crate::ethernet::{PortMode, PortModeInfo, Tags};
use crate::interface::{InterfaceKind, InterfaceKindInfo};
use crate::ip::{Address, ForwardingKind, IpPrefix, Path};
use crate::router::KindInfo;

/// The Ethernet addresses of the hosts, one on each link.
const HOST: [Mac; 2] = [Mac([2, 0, 0, 0, 0xa, 2]), Mac([2, 0, 0, 0, 0xb, 2])];
/// The remote end of the tunnel.
const FAR: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
const NEAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// The index of the track's object. Only one test at a time uses it, and holds [`TRACKING`] meanwhile.
static OBJECT: AtomicU32 = AtomicU32::new(0);
static TRACKING: Mutex<()> = Mutex::new(());

/// Encapsulates IPv4 in IPv4 (RFC 2003). It only adds the outer header.
struct Encapsulate;
edges! { enum Outer { Follow = "ip4-follow" } }

impl PacketNode for Encapsulate {
    const NAME: &'static str = "toy-encapsulate";
    type Next = Outer;
    type Drop = NoReason;

    fn one(&mut self, _: &Cx<'_>, p: &mut Packet<'_>) -> Verdict<Outer, NoReason> {
        assert!(p.advance(EthernetHeader::LEN));
        let len = 20 + p.total_len() as u16;
        // One more than the TTL on the link, because it is decremented on output.
        let mut outer = PacketBuilder::ipv4(NEAR, FAR).protocol(4).ttl(65).build();
        let (h, _) = Ipv4Header::split_mut(&mut outer).unwrap();
        h.set_total_len(len);
        assert!(ipv4::write_checksum(&mut outer));
        assert!(p.push_bytes(&outer[..20]));
        p.mark_l3(0);
        p.set_fwd(OBJECT.load(Ordering::Relaxed));
        Verdict::Next(Outer::Follow)
    }
}

/// Sends the frames received on the first link on the second link, unchanged.
struct Wire;
edges! { enum Across { Out = "interface-output" } }

impl PacketNode for Wire {
    const NAME: &'static str = "toy-wire";
    type Next = Across;
    type Drop = NoReason;

    fn one(&mut self, _: &Cx<'_>, p: &mut Packet<'_>) -> Verdict<Across, NoReason> {
        p.set_tx_if(1);
        Verdict::Next(Across::Out)
    }
}

/// The node of a forwarding kind. It sends packets along the route that the track follows.
struct Entry;

impl PacketNode for Entry {
    const NAME: &'static str = "toy-entry";
    type Next = Outer;
    type Drop = NoReason;

    fn one(&mut self, _: &Cx<'_>, p: &mut Packet<'_>) -> Verdict<Outer, NoReason> {
        p.set_fwd(OBJECT.load(Ordering::Relaxed));
        Verdict::Next(Outer::Follow)
    }
}

#[derive(Default)]
struct Toys {
    tunnel: Option<InterfaceKind>,
    entry: Option<ForwardingKind>,
    modes: Vec<PortMode>,
}

fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    crate::testing::install(b, t, hooks)?;
    b.packet(|_| Ok(Encapsulate));
    b.packet(|_| Ok(Wire));
    b.packet(|_| Ok(Entry));
    let show = |_: &Router, _| "entry".into();
    let info = KindInfo { name: "toy-entry", ip4: Some("toy-entry"), ip6: None, show };
    let entry = Some(hooks.forwarding_kind(b, t, info)?);
    let info = InterfaceKindInfo { name: "toy-tunnel", node: "toy-encapsulate", point_to_point: true };
    let tunnel = Some(hooks.interface_kind(b, t, info)?);
    let modes = ["toy-wire", "toy-bridge"].map(|name| {
        let info = PortModeInfo { name, node: "toy-wire", whole: name == "toy-bridge" };
        hooks.port_mode(b, t, info)
    });
    let modes = modes.into_iter().collect::<Result<_, _>>()?;
    hooks.state(|_| Ok(Toys { tunnel, entry, modes }))?;
    Ok(())
}

/// Creates a router with the addresses 10.0.1.1/24 and 10.0.2.1/24 on its links. On each link, the host with the address .2 is a known
/// neighbor.
fn lab() -> Lab {
    let address = |i: u32| Address::new(Ipv4Addr::new(10, 0, i as u8 + 1, 1), 24);
    let mut lab = Lab::with(install, address);
    for link in 0..2 {
        lab.router.add_neighbor(link, host(link), HOST[link as usize], true).unwrap();
    }
    lab
}

fn host(link: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, link as u8 + 1, 2)
}

fn via(link: u32) -> Path {
    Path::Via { next_hop: host(link).into(), interface: None }
}

fn prefix(text: &str) -> IpPrefix {
    text.parse().unwrap()
}

/// Lets the router receive a packet on the first link. Returns the frames that it sends on each link.
fn sent(lab: &mut Lab, to: Ipv4Addr) -> [Vec<Vec<u8>>; 2] {
    let packet = PacketBuilder::ipv4(host(0), to).ethernet(HOST[0], own_mac(0)).ttl(9).udp(1, 2);
    lab.receive(0, 0, packet.payload(&[7; 100]).build());
    [lab.sent(0), lab.sent(1)]
}

/// Checks that a frame is a tunnel packet sent to the host on this link. Returns the inner IPv4 header.
fn inner(frame: &[u8], link: u32) -> Ipv4Header {
    let (ethernet, rest) = EthernetHeader::split(frame).unwrap();
    assert_eq!((ethernet.dst(), ethernet.src()), (HOST[link as usize], own_mac(link)));
    let (outer, rest) = Ipv4Header::split(rest).unwrap();
    assert_eq!((outer.src(), outer.dst(), outer.protocol(), outer.ttl()), (NEAR, FAR, 4, 64));
    assert_eq!(usize::from(outer.total_len()), frame.len() - 14);
    assert_eq!(crate::testing::checksum(&frame[14..34]), 0);
    let (inner, _) = Ipv4Header::split(rest).unwrap();
    *inner
}

#[test]
fn a_tunnel_follows_the_route_to_its_far_end() {
    let _tracking = TRACKING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut lab = lab();
    let kind = lab.router.state::<Toys>().unwrap().tunnel.unwrap();
    let tunnel = lab.router.add_feature_interface("tun0", kind, Mac([2, 0, 0, 0, 0, 0x77]), 1480).unwrap();
    let track = lab.router.track(0, FAR.into()).unwrap();
    OBJECT.store(track.object, Ordering::Relaxed);
    lab.router.set_admin(tunnel, true).unwrap();
    lab.router.add_address(tunnel, Address::new(Ipv4Addr::new(10, 8, 0, 1), 30)).unwrap();
    lab.router.add_route(0, prefix("10.99.0.0/16"), Path::Attached(tunnel)).unwrap();
    let over = Path::Via { next_hop: Ipv4Addr::new(10, 8, 0, 2).into(), interface: None };
    lab.router.add_route(0, prefix("10.98.0.0/16"), over).unwrap();
    assert!(!lab.router.leads(&track));
    let to = [[10, 8, 0, 2], [10, 99, 1, 1], [10, 98, 1, 1]].map(Ipv4Addr::from);
    assert_eq!(sent(&mut lab, to[0]).map(|s| s.len()), [0, 0], "no route leads to the far end");
    for link in [1, 0, 1] {
        lab.router.add_route(0, prefix("203.0.113.0/24"), via(link)).unwrap();
        lab.run();
        assert!(lab.router.leads(&track));
        for to in to {
            let out = sent(&mut lab, to);
            let [frame] = &out[link as usize][..] else { panic!("{to} by {link}: {out:?}") };
            let inner = inner(frame, link);
            assert_eq!((inner.src(), inner.dst(), inner.ttl()), (host(0), to, 8));
            assert!(out[1 - link as usize].is_empty());
        }
    }
    // A longer route takes over; once it is gone, the shorter one does.
    lab.router.add_route(0, prefix("203.0.113.9/32"), via(0)).unwrap();
    lab.run();
    assert_eq!(sent(&mut lab, to[0]).map(|s| s.len()), [1, 0]);
    for gone in ["203.0.113.9/32", "203.0.113.0/24"] {
        lab.router.remove_route(0, prefix(gone)).unwrap();
        lab.run();
        let led = usize::from(gone.ends_with("32"));
        assert_eq!(sent(&mut lab, to[0]).map(|s| s.len()), [0, led], "{gone}");
    }
    let totals = lab.router.interface_totals(lab.router.interface(tunnel).unwrap());
    assert_eq!(totals.tx_packets, 13);
    let refused = lab.router.add_neighbor(tunnel, Ipv4Addr::new(10, 8, 0, 2), HOST[0], true).unwrap_err();
    assert!(refused.why.contains("toy-tunnel interface: it has no neighbors"), "{refused}");
    lab.router.remove_interface(tunnel).unwrap();
    lab.router.untrack(track);
    lab.run();
    assert_eq!(
        sent(&mut lab, to[1]).map(|s| s.len()),
        [1, 0],
        "no route to the far end: the host gets an ICMP error"
    );
}

/// While its route leads to a feature's entry, a track leads nowhere, and its packets are dropped. Otherwise, a packet could loop between
/// the entry and the track.
#[test]
fn a_track_does_not_lead_through_an_entry_of_a_feature() {
    let _tracking = TRACKING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut lab = lab();
    let entry = Path::Feature(lab.router.state::<Toys>().unwrap().entry.unwrap(), 0);
    let track = lab.router.track(0, FAR.into()).unwrap();
    OBJECT.store(track.object, Ordering::Relaxed);
    let to = Ipv4Addr::new(10, 97, 0, 1);
    lab.router.add_route(0, prefix("10.97.0.0/16"), entry).unwrap();
    for (path, leads) in [(via(1), true), (entry, false), (via(1), true)] {
        lab.router.add_route(0, prefix("203.0.113.0/24"), path).unwrap();
        lab.run();
        assert_eq!(lab.router.leads(&track), leads, "{path:?}");
        assert_eq!(sent(&mut lab, to).map(|s| s.len()), [0, leads.into()], "{path:?}");
    }
    lab.router.untrack(track);
}

#[test]
fn a_table_stays_while_a_feature_follows_a_route_of_it() {
    let mut lab = lab();
    let fib = lab.router.add_table(5).unwrap();
    let (objects, to) = (lab.router.routes::<Ipv4Addr>().objects_in_use(), IpAddr::from(FAR));
    let tracks = [0, 1].map(|_| lab.router.track(fib, to).unwrap());
    assert_eq!(tracks[0].object, tracks[1].object, "both track the same route");
    for track in tracks {
        let why = lab.router.remove_table(5).unwrap_err().to_string();
        assert!(why.contains("a feature uses its route to 203.0.113.9"), "{why}");
        lab.router.untrack(track);
    }
    lab.run();
    assert_eq!(lab.router.routes::<Ipv4Addr>().objects_in_use(), objects);
    lab.router.remove_table(5).unwrap();
    assert!(lab.router.track(fib, to).is_err());
}

#[test]
fn a_port_in_a_mode_passes_all_frames_to_its_node() {
    let mut lab = lab();
    let (wire, bridge) = {
        let modes = &lab.router.state::<Toys>().unwrap().modes;
        (modes[0], modes[1])
    };
    let tags = |outer| Tags { outer_service: false, outer, inner: None };
    let sub = lab.router.add_subinterface("left.5", 0, tags(5)).unwrap();
    lab.router.set_admin(sub, true).unwrap();
    lab.router.add_address(sub, Address::new(Ipv4Addr::new(10, 0, 5, 1), 24)).unwrap();
    lab.pass(5000);
    drop((lab.sent(0), lab.sent(1)));
    let other = PacketBuilder::ipv4(host(0), host(1)).ethernet(HOST[0], HOST[1]);
    let plain = other.clone().udp(1, 2).build();
    let group = other.clone().ethernet(HOST[0], Mac([0xff; 6])).udp(1, 2).build();
    let tagged = |vid: u16| {
        let mut frame = plain.clone();
        frame.splice(12..12, [0x81, 0, (vid >> 8) as u8, vid as u8]);
        frame
    };
    let passes = |lab: &mut Lab, frame: &[u8]| {
        lab.receive(0, 0, frame.to_vec());
        lab.sent(1) == [frame]
    };
    assert!(!passes(&mut lab, &plain));
    lab.router.set_port_mode(0, Some(wire)).unwrap();
    for frame in [plain.clone(), group, tagged(6), tagged(0), [&plain[..12], &[0x88, 0xcc, 1, 2]].concat()] {
        assert!(passes(&mut lab, &frame), "{frame:x?}");
    }
    // A sub-interface has its own mode.
    assert!(!passes(&mut lab, &tagged(5)), "it is routed, and the frame is another station's");
    lab.router.set_port_mode(sub, Some(wire)).unwrap();
    assert!(passes(&mut lab, &tagged(5)));
    lab.router.set_port_mode(0, None).unwrap();
    // A mode that takes the frames of sub-interfaces, too.
    lab.router.set_port_mode(sub, None).unwrap();
    lab.router.set_port_mode(0, Some(bridge)).unwrap();
    assert!(passes(&mut lab, &tagged(5)) && passes(&mut lab, &plain) && passes(&mut lab, &tagged(6)));
    lab.router.set_port_mode(0, None).unwrap();
    lab.router.set_port_mode(sub, Some(wire)).unwrap();
    assert!(!passes(&mut lab, &tagged(6)) && passes(&mut lab, &tagged(5)));
    // Also in one vector, in any order.
    for frame in [&plain, &tagged(5), &plain, &tagged(5), &tagged(6)] {
        lab.put(0, 0, frame.clone());
    }
    lab.run();
    assert_eq!(lab.sent(1), [tagged(5), tagged(5)]);
    let why = lab.router.set_port_mode(sub, Some(bridge)).unwrap_err().to_string();
    assert!(why.contains("left.5 is in the mode toy-wire already"), "{why}");
    lab.router.set_port_mode(sub, None).unwrap();
    assert!(!passes(&mut lab, &tagged(5)));
}

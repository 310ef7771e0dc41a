//! Connects router advertisements to the router: follows the interfaces and their settings, and sends the advertisements.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::Arc;

use graph::GraphError;
use net::ip::{Address, Prefix6};
use net::router::{Change, Heard, Hooks, InterfaceInfo, Loss, Router};
use net::setting::{Setting, Switch};
use wire::ipv6;
use wire::nd::{Message, PrefixInformation};

use crate::advertisement::Advertisement;
use crate::advertiser::{Action, Advertiser, Event};

/// The router advertisement of an interface, if the router advertises itself there. Only the main thread reads it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Advertised(pub Option<Arc<Advertisement>>);

impl Setting for Advertised {
    type Counts = ();
    const COUNTED: &'static str = "/feature/router-advertisement";

    fn switches(&self) -> Vec<Switch> {
        Vec::new()
    }
}

/// The state on the main thread.
#[derive(Default)]
struct Links {
    advertiser: Advertiser,
    /// The last advertisement of each interface on which advertising was turned off. The final advertisements repeat it.
    last: BTreeMap<u32, Arc<Advertisement>>,
}

/// Declares the state and the setting, and registers the callbacks.
///
/// # Errors
/// If the setting cannot be declared.
pub fn install(hooks: &mut Hooks) -> Result<(), GraphError> {
    hooks.state(|_| Ok(Links::default()))?;
    hooks.setting::<Advertised>()?;
    hooks.on_set(was_set);
    hooks.on_change(follow);
    hooks.on_leaving(leave);
    hooks.on_discovery(hear);
    hooks.on_turn(turn);
    Ok(())
}

/// Passes an event to the advertiser.
fn handle(router: &mut Router, event: Event) {
    let now = router.now();
    if let Ok(links) = router.state_mut::<Links>() {
        links.advertiser.handle(now, event);
    }
}

/// Returns the interface with this index if it can send advertisements: it is usable, has IPv6, and may have hosts on its link.
fn link(router: &Router, index: u32) -> Option<&InterfaceInfo> {
    let usable = router.usable(index);
    router.interface(index).ok().filter(|i| usable && i.kind.has_neighbors() && i.speaks_ip6())
}

/// Starts or stops advertising after a change of the setting.
fn was_set(router: &mut Router, index: u32, before: &Advertised) {
    if link(router, index).is_none() {
        return;
    }
    let Advertised(says) = router.setting(index);
    match says {
        Some(says) => handle(router, Event::Start(index, says.interval)),
        None => {
            if let (Ok(links), Some(before)) = (router.state_mut::<Links>(), &before.0) {
                links.last.insert(index, before.clone());
            }
            handle(router, Event::Stop(index));
        }
    }
}

/// Updates the advertisements of an interface after a change of the interface.
fn follow(router: &mut Router, index: u32, change: Change) {
    if link(router, index).is_none() {
        if let Ok(links) = router.state_mut::<Links>() {
            links.last.remove(&index);
        }
        return handle(router, Event::Down(index));
    }
    let known = router.state::<Links>().is_ok_and(|links| links.advertiser.knows(index));
    let Advertised(says) = router.setting(index);
    match (change, says) {
        (Change::Stays, Some(says)) => handle(router, Event::Start(index, says.interval)),
        (Change::Up | Change::Changed, Some(says)) if !known => {
            handle(router, Event::Start(index, says.interval));
        }
        // The link-local address can be used from now on: the advertisements that were due before had no
        // source address. For other addresses, nothing changes: their networks are advertised even while
        // duplicate address detection runs.
        (Change::Unique(address), _) if !ipv6::is_link_local(address.to_bits()) => {}
        _ => handle(router, Event::Changed(index)),
    }
}

/// Announces on interfaces that the router is no longer a default router (RFC 4861 section 6.2.5): only where
/// the router has advertised itself, and only once. Hosts that miss the announcement use the router until its
/// lifetime expires.
fn leave(router: &mut Router, interfaces: &[u32], loss: Loss) {
    if loss == Loss::Ip4 {
        return;
    }
    let mut all = Vec::new();
    for &index in interfaces {
        if router.state::<Links>().is_ok_and(|links| links.advertiser.has_more_to_say(index)) {
            all.extend(frames(router, index, true).into_iter().map(|frame| (index, frame)));
            handle(router, Event::Ceased(index));
        }
    }
    if !router.send_at_once(all) {
        tracing::warn!(
            "the final router advertisement was not sent everywhere, because a device is busy: some hosts may use this router until its lifetime expires"
        );
    }
}

/// Handles a message of Neighbor Discovery. Returns true if the router will answer it.
fn hear(router: &mut Router, heard: &Heard<'_>) -> bool {
    if heard.message != Message::RouterSolicitation {
        return false;
    }
    handle(router, Event::Solicited(heard.interface));
    router.state::<Links>().is_ok_and(|links| links.advertiser.serves(heard.interface))
}

/// Sends the advertisements that are due. Returns the time of the next one; `None` if none is scheduled.
fn turn(router: &mut Router, now: u64) -> Option<u64> {
    let mut actions = Vec::new();
    let links = router.state_mut::<Links>().ok()?;
    links.advertiser.timeout(now, &mut actions);
    let next = links.advertiser.poll_timeout();
    for action in actions {
        let (index, last) = match action {
            Action::Advertise(index) => (index, false),
            Action::Withdraw(index) => (index, true),
        };
        for frame in frames(router, index, last) {
            router.send_frame(index, &frame);
        }
    }
    next
}

/// Returns the frames of a router advertisement; if `last`, of a final one. Empty if the interface has no usable link-local address.
fn frames(router: &Router, index: u32, last: bool) -> Vec<Vec<u8>> {
    let Some(info) = link(router, index) else { return Vec::new() };
    let before = || router.state::<Links>().ok()?.last.get(&index).cloned();
    let says = router.setting::<Advertised>(index).0.or_else(before);
    // Routers are known by their link-local addresses (RFC 4861 section 6.1.2).
    let (Some(says), Some(from)) = (says, info.usable_link_local()) else { return Vec::new() };
    let all = Ipv6Addr::from_bits(ipv6::ALL_NODES);
    let packets = says.packets((from, all), info.mac, info.mtu, networks(info), last);
    packets.iter().map(|packet| info.frame_to_group(ipv6::ALL_NODES, packet)).collect()
}

/// Returns the prefixes advertised on an interface; empty if the router does not advertise itself there.
pub fn advertised_prefixes(router: &Router, info: &InterfaceInfo) -> Vec<PrefixInformation> {
    let Advertised(says) = router.setting(info.index);
    says.map_or_else(Vec::new, |says| says.prefixes(networks(info)))
}

/// Returns the networks of an interface that can be advertised to hosts: those of its IPv6 addresses that are not link-local.
fn networks(info: &InterfaceInfo) -> impl Iterator<Item = Prefix6> {
    let given = info.addresses_of::<Ipv6Addr>().filter(|a| !Address::from(*a).is_link_local());
    given.map(|a| a.prefix())
}

//! A test feature. Its packets follow the route to another destination, like packets into a tunnel. The router itself has no such feature.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use buf::Packet;
use graph::{Builder, Cx, GraphError, NoReason, PacketNode, Verdict, edges};
use net::Tables;
use net::ip::{ForwardingKind, Path};
use net::router::KindInfo;
use net::router::{Hooks, Router};

/// The destinations whose routes the packets follow. Scripts change these routes.
const TO: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 1, 1, 9)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 1, 0, 0, 0, 9))];

/// The forwarding objects of the tracked destinations: IPv4, then IPv6.
type Objects = Arc<[AtomicU32; 2]>;

struct Elsewhere<const FAMILY: usize>(Objects);
edges! { enum Next4 { Follow = "ip4-follow" } }
edges! { enum Next6 { Follow = "ip6-follow" } }

impl PacketNode for Elsewhere<0> {
    const NAME: &'static str = "fuzz-elsewhere4";
    type Next = Next4;
    type Drop = NoReason;
    fn one(&mut self, _: &Cx<'_>, p: &mut Packet<'_>) -> Verdict<Next4, NoReason> {
        p.set_fwd(self.0[0].load(Ordering::Relaxed));
        Verdict::Next(Next4::Follow)
    }
}

impl PacketNode for Elsewhere<1> {
    const NAME: &'static str = "fuzz-elsewhere6";
    type Next = Next6;
    type Drop = NoReason;
    fn one(&mut self, _: &Cx<'_>, p: &mut Packet<'_>) -> Verdict<Next6, NoReason> {
        p.set_fwd(self.0[1].load(Ordering::Relaxed));
        Verdict::Next(Next6::Follow)
    }
}

/// The state of the feature.
struct Tracks {
    kind: ForwardingKind,
    objects: Objects,
}

/// Adds the nodes of the program's features and of this feature.
pub fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    volley::features::install(b, t, hooks)?;
    let objects = Objects::default();
    let (for4, for6) = (objects.clone(), objects.clone());
    b.packet(move |_| Ok(Elsewhere::<0>(for4.clone())));
    b.packet(move |_| Ok(Elsewhere::<1>(for6.clone())));
    let info = KindInfo {
        name: "elsewhere",
        ip4: Some("fuzz-elsewhere4"),
        ip6: Some("fuzz-elsewhere6"),
        show: |_, _| "elsewhere".into(),
    };
    let kind = hooks.forwarding_kind(b, t, info)?;
    hooks.state(|_| Ok(Tracks { kind, objects }))?;
    Ok(())
}

/// Begins to track the destinations `TO`; the tracking never ends. Returns a path for other routes: packets with this path follow the
/// routes to these destinations.
pub fn begin(router: &mut Router) -> Path {
    let objects = TO.map(|to| router.track(0, to).expect("there is room").object);
    let tracks = router.state::<Tracks>().expect("it was installed");
    objects.iter().zip(tracks.objects.iter()).for_each(|(object, to)| to.store(*object, Ordering::Relaxed));
    Path::Feature(tracks.kind, 0)
}

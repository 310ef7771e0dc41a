//! A router with two memif interfaces, and a tester at each.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use buf::Frame;
use drivers::memif::{Config, Role, Sockets, Tester};
use graph::{Builder, Cx, FrameNode, GraphError, NoReason, Out, Verdict, edges};
use net::Tables;
use net::ip::{Address, Path, Prefix4};
use net::router::{Hooks, Parts, Router, Sizes};
use wire::Mac;

/// Bytes of a frame in memory: 64 on the wire, less the frame check sequence.
pub const LEN: usize = 60;
const RING: u16 = 1024;

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

edges! { enum Next { Output = "interface-output", Continue = "next-feature" } }

/// Forwards packets from an interface to the interface that was added after it. If a vector contains packets that are not the tester's, the
/// whole vector continues on the usual path of received packets.
struct Port;

impl FrameNode for Port {
    const NAME: &'static str = "bench-port";
    type Next = Next;
    type Drop = NoReason;

    fn run(&mut self, _: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, NoReason>) {
        for mut p in frame.packets() {
            let from = p.rx_if();
            p.set_tx_if(from + 1);
        }
        let testers = frame.total_len() == frame.len() * LEN;
        out.all(Verdict::Next(if testers { Next::Output } else { Next::Continue }));
    }
}

fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> std::result::Result<(), GraphError> {
    volley::features::install(b, t, hooks)?;
    b.frame(|_| Ok(Port));
    b.feature("device-input", Port::NAME, &[], &[]);
    Ok(())
}

/// The router with two interfaces, and a tester at each interface. The route to the testers' destination leads through the second
/// interface.
pub struct Setup {
    pub parts: Parts,
    pub testers: [Tester; 2],
    /// The sockets of the router and of the testers, kept because they own the connections.
    pub _sockets: [Sockets; 2],
}

/// Sets up a router and its testers. `routes`: the router looks up routes; otherwise packets received on the first interface leave by the
/// second. `lends`: packets are in the router's own buffers, and the router is the memif client. `workers`: number of workers. `queues`:
/// number of receive queues.
pub fn set_up(routes: bool, lends: bool, workers: usize, queues: usize) -> Result<Setup> {
    let directory = std::env::temp_dir().join(format!("volley-bench-io-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let path = directory.join("memif.sock");
    let (mut near, mut far) = (Sockets::new()?, Sockets::new()?);
    near.add_socket(1, &path)?;
    far.add_socket(1, &path)?;
    let mut parts = Router::build(install, &Sizes { workers, ..Sizes::default() })?;
    let r = &mut parts.router;
    let (own, other) = if lends { (Role::Client, Role::Server) } else { (Role::Server, Role::Client) };
    let config = |id, role| Config { ring_size: RING, trusted: lends, ..Config::new(1, id, role) };
    let mut indexes = [0; 2];
    for (id, index) in (0..).zip(&mut indexes) {
        let device = near.open(&Config { rx_queues: queues, ..config(id, own) }, r.pool())?;
        *index = r.add_device(&format!("memif1/{id}"), device)?;
        r.set_mac(*index, Some(Mac([2, 0xfe, 0, 0, 0, id as u8])))?;
        r.set_mtu(*index, 1500)?;
        r.set_admin(*index, true)?;
        r.add_address(*index, Address::new(Ipv4Addr::new(10, id as u8, 0, 1), 16))?;
    }
    let [first, second] = indexes;
    let next_hop = Ipv4Addr::new(10, 1, 0, 2);
    r.add_neighbor(second, next_hop, Mac([2, 0, 0, 0, 9, 9]), true)?;
    r.add_route(
        0,
        Prefix4::new(Ipv4Addr::new(20, 0, 0, 0), 24),
        Path::Via { next_hop: next_hop.into(), interface: None },
    )?;
    if !routes {
        r.arcs().enable("device-input", Port::NAME, first, true)?;
    }
    let mut tester = |id| -> Result<Tester> {
        let mut t = far.open_tester(&Config { tx_queues: queues, ..config(id, other) })?;
        t.set_admin(true)?;
        Ok(t)
    };
    let testers = [tester(0)?, tester(1)?];
    let start = Instant::now();
    let connected = |sockets: &Sockets| sockets.interfaces(None, false).iter().all(|i| i.connected);
    while !(connected(&near) && connected(&far)) {
        let now = start.elapsed().as_nanos() as u64;
        near.turn(now);
        far.turn(now);
        if start.elapsed() > Duration::from_secs(10) {
            return Err("the two sides did not connect".into());
        }
    }
    parts.router.poll_links();
    std::fs::remove_dir_all(directory)?;
    Ok(Setup { parts, testers, _sockets: [near, far] })
}

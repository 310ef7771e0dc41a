//! Pings, for the fuzzer of the whole graph.

use buf::bpf::Program;
use net::feature::{Decisions, Exercise};
use net::router::Router;

use crate::route::Target;
use crate::session::{Pings, send, start};

/// The exercise for the whole-graph fuzzer: starts pings, sends requests and ends pings at random.
pub(crate) const EXERCISE: Exercise = Exercise { begin, act, look: |_| Ok(()) };

/// Ends all pings.
fn begin(router: &mut Router, _: Option<Program>) {
    if let Ok(pings) = Pings::of(router) {
        pings.sessions.clear();
    }
}

/// Performs a random action: starts a ping, sends a request for every active ping, or ends a ping.
fn act(router: &mut Router, d: &mut dyn Decisions) {
    let all: Vec<u16> =
        Pings::of(router).map_or_else(|_| Vec::new(), |p| p.sessions.keys().copied().collect());
    match d.below(4) {
        0 | 1 => {
            let source = (d.below(4) == 0).then(|| d.address());
            let size = (d.below(256) << 8 | d.below(256)) % 2200;
            let to = Target { address: d.address(), interface: None, source, size };
            let _ = start(router, d.table(), to, false);
        }
        2 => {
            for id in all {
                let (seq, now) = (d.below(8) as u16, router.now());
                let _ = send(router, id, seq, now);
                Pings::of(router).map_or_else(|_| Vec::new(), |pings| pings.take_replies(id));
            }
        }
        _ => {
            if let (Some(id), Ok(pings)) = (all.last(), Pings::of(router)) {
                pings.stop(*id);
            }
        }
    }
}

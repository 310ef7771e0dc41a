//! Cross-connects, for the fuzzer of the whole graph: they begin by a command, not by a setting of an interface.

use net::feature::{Decisions, Exercise};
use net::router::Router;

use crate::node::{Peer, Way, connect, disconnect};
use crate::rewrite::Rewrite;

/// The exercise for the whole-graph fuzzer: cross-connects an interface for a while.
pub(crate) const EXERCISE: Exercise = Exercise { begin: |_, _| (), act, look: |_| Ok(()) };

/// Ends all cross-connects, and begins one with a chance of one in four.
fn act(router: &mut Router, d: &mut dyn Decisions) {
    let all: Vec<u32> = router.interfaces().map(|i| i.index).collect();
    for &index in &all {
        if router.setting::<Peer>(index) != Peer::default() {
            let _ = disconnect(router, index);
        }
    }
    if d.below(4) != 0 || all.is_empty() {
        return;
    }
    let way = if d.below(2) == 0 { Way::Patch } else { Way::CrossConnect };
    let [from, to] = [(); 2].map(|()| all[d.below(all.len().min(256))]);
    let _ = connect(router, way, from, to);
    for index in [from, to] {
        let tags = [(); 2].map(|()| 1 + d.below(256) as u32);
        let rewrite = Rewrite::numbered(d.below(9) as u32, d.below(2) == 0, tags).unwrap_or_default();
        let own = router.interface(index).ok().and_then(|i| i.tags);
        if let Ok(plans) = rewrite.plans(own) {
            let _ = router.set(index, plans);
        }
    }
}

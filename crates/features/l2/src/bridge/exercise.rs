//! Bridge domains, for the fuzzer of the whole graph: they begin by a command, not by a setting of an interface.

use net::feature::{Decisions, Exercise};
use net::router::Router;

use super::{BridgePort, Policy, flush_port, join, leave, remove_domain, set_domain};

/// The exercise for the whole-graph fuzzer: makes interfaces ports of a bridge domain for a while.
pub(crate) const EXERCISE: Exercise = Exercise { begin: |_, _| (), act, look: |_| Ok(()) };

/// The domain.
const DOMAIN: u32 = 7;

/// Ends the domain, or flushes its ports, and makes it again with a chance of one in four.
fn act(router: &mut Router, d: &mut dyn Decisions) {
    let all: Vec<u32> = router.interfaces().map(|i| i.index).collect();
    let ports = all.iter().copied().filter(|index| router.setting::<BridgePort>(*index).domain != 0);
    let is_kept = d.below(2) == 0;
    for index in ports.collect::<Vec<_>>() {
        let _ = if is_kept { flush_port(router, index) } else { leave(router, index) };
    }
    if is_kept {
        return;
    }
    let _ = remove_domain(router, DOMAIN);
    if d.below(4) != 0 {
        return;
    }
    let [learn, forward, flood, unknown] = [(); 4].map(|()| d.below(4) != 0);
    let policy =
        Policy { learn, forward, flood, unknown, age: d.below(3) as u16, limit: d.below(200) as u32 };
    let _ = set_domain(router, DOMAIN, policy);
    for index in all {
        if d.below(2) == 0 {
            continue;
        }
        let [learn, forward, flood] = [(); 3].map(|()| d.below(4) != 0);
        let port = BridgePort { group: d.below(3) as u8, learn, forward, flood, ..BridgePort::default() };
        let _ = join(router, index, DOMAIN, port);
    }
}

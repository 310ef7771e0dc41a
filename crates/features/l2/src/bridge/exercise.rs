//! Bridge domains, for the fuzzer of the whole graph: they begin by a command, not by a setting of an interface.

use net::feature::{Decisions, Exercise};
use net::router::Router;

use super::{BridgePort, Policy, attach, detach, flush_port, join, leave, remove_domain, set_domain};

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
        let is_bvi = super::bvi::of(router, index).is_some();
        let _ = match is_kept {
            true => flush_port(router, index),
            false if is_bvi => detach(router, index),
            false => leave(router, index),
        };
    }
    if is_kept {
        return;
    }
    let _ = remove_domain(router, DOMAIN);
    if d.below(4) != 0 {
        return;
    }
    let [learn, forward, flood, unknown] = [(); 4].map(|()| d.below(4) != 0);
    let [arp_term, arp_ufwd] = [(); 2].map(|()| d.below(4) == 0);
    let (age, limit) = (d.below(3) as u16, d.below(200) as u32);
    let policy = Policy { learn, forward, flood, unknown, arp_term, arp_ufwd, age, limit };
    let _ = set_domain(router, DOMAIN, policy);
    for index in all {
        if d.below(2) == 0 {
            continue;
        }
        let [learn, forward, flood] = [(); 3].map(|()| d.below(4) != 0);
        let (group, uu_fwd) = (d.below(3) as u8, d.below(8) == 0);
        let port = BridgePort { group, learn, forward, flood, uu_fwd, ..BridgePort::default() };
        // Only a loopback can be the BVI.
        if attach(router, index, DOMAIN, port.group).is_err() {
            let _ = join(router, index, DOMAIN, port);
        }
    }
}

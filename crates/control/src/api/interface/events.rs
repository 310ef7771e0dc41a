//! Events of interfaces.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use vapi::types::if_status_flags;

use super::details;
use super::messages::sw_interface_event;
use crate::api::connection::Api;
use crate::api::numbers;
use crate::app::Context;

/// The kind of event.
pub(super) const KIND: &str = "sw_interface_event";
/// The interval between comparisons. The changes of an interface in between become one event.
const LOOK: Duration = Duration::from_millis(20);

/// Sends events to the clients that want them.
pub(in crate::api) async fn watch(api: Rc<Api>, cx: Rc<RefCell<Context>>) {
    let mut known = None;
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        let c = cx.borrow();
        if !c.events.is_wanted(KIND) {
            known = None;
            continue;
        }
        let now = states(&c);
        for event in known.replace(now.clone()).map(|before| changes(&before, &now)).unwrap_or_default() {
            c.events.send(KIND, |pid| {
                api.event(&sw_interface_event { pid, ..event.clone() }).unwrap_or_default()
            });
        }
    }
}

/// The flags of every interface by serial number, which is never reused, with the index.
type States = BTreeMap<u64, (u32, if_status_flags)>;

fn states(c: &Context) -> States {
    c.system.router.interfaces().map(|i| (i.serial, (i.index, details::flags(c, i)))).collect()
}

/// Returns the events for the changes from one state to another, removals first.
fn changes(before: &States, now: &States) -> Vec<sw_interface_event> {
    let event = |(index, flags): (u32, if_status_flags), deleted| sw_interface_event {
        pid: 0,
        sw_if_index: numbers::number(index),
        flags,
        deleted,
    };
    let gone = before.iter().filter(|(serial, _)| !now.contains_key(serial));
    let gone = gone.map(|(_, (index, _))| event((*index, if_status_flags(0)), true));
    let changed = now.iter().filter(|(serial, state)| before.get(serial) != Some(state));
    gone.chain(changed.map(|(_, state)| event(*state, false))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_one_event() {
        let flags = if_status_flags;
        let before = States::from([(1, (1, flags(0))), (2, (2, flags(3))), (3, (3, flags(1)))]);
        let now = States::from([(1, (1, flags(1))), (2, (2, flags(3))), (4, (3, flags(0)))]);
        let told: Vec<_> =
            changes(&before, &now).into_iter().map(|e| (e.sw_if_index.0, e.flags.0, e.deleted)).collect();
        assert_eq!(told, [(3, 0, true), (1, 1, false), (3, 0, false)]);
        assert_eq!(changes(&now, &now), []);
    }
}

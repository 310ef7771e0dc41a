//! Events of interfaces.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use vapi::Table;
use vapi::types::if_status_flags;

use super::details;
use super::messages::sw_interface_event;
use crate::api::numbers;
use crate::app::Context;

/// The kind of event.
pub(super) const KIND: &str = "sw_interface_event";
/// The interval between comparisons. The changes of an interface in between become one event.
const LOOK: Duration = Duration::from_millis(20);

/// Registers a client for the events of interfaces, or ends its registration. The first one fixes the state from which changes count.
pub(super) fn want(c: &mut Context, client: u64, on: bool, pid: u32) -> bool {
    let changed = c.events.want(KIND, client, on, pid);
    if c.events.interfaces.is_none() {
        c.events.interfaces = Some(states(c));
    }
    changed
}

/// Sends events to the clients that want them. Runs once for all sockets.
pub async fn watch(table: Rc<Table<Context>>, cx: Rc<RefCell<Context>>) {
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let id = table.id(KIND).unwrap_or_default();
    loop {
        look.tick().await;
        let mut c = cx.borrow_mut();
        let wanted = c.events.is_wanted(KIND);
        let Some(before) = c.events.interfaces.take().filter(|_| wanted) else { continue };
        let now = states(&c);
        for event in changes(&before, &now) {
            c.events.send(KIND, |pid| message(id, &sw_interface_event { pid, ..event.clone() }));
        }
        c.events.interfaces = Some(now);
    }
}

/// Returns an event with its identifier. Clients ignore its client index.
fn message(id: u16, event: &sw_interface_event) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend([0; 4]);
    message.extend(vapi::table::encoded(event));
    message
}

/// The flags of every interface by serial number, which is never reused, with the index.
type States = BTreeMap<u64, (u32, u32)>;

fn states(c: &Context) -> States {
    c.system.router.interfaces().map(|i| (i.serial, (i.index, details::flags(c, i).0))).collect()
}

/// Returns the events for the changes from one state to another, removals first.
fn changes(before: &States, now: &States) -> Vec<sw_interface_event> {
    let event = |(index, flags): (u32, u32), deleted| sw_interface_event {
        pid: 0,
        sw_if_index: numbers::number(index),
        flags: if_status_flags(flags),
        deleted,
    };
    let gone = before.iter().filter(|(serial, _)| !now.contains_key(serial));
    let gone = gone.map(|(_, (index, _))| event((*index, 0), true));
    let changed = now.iter().filter(|(serial, state)| before.get(serial) != Some(state));
    gone.chain(changed.map(|(_, state)| event(*state, false))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_one_event() {
        let before = States::from([(1, (1, 0)), (2, (2, 3)), (3, (3, 1))]);
        let now = States::from([(1, (1, 1)), (2, (2, 3)), (4, (3, 0))]);
        let told: Vec<_> =
            changes(&before, &now).into_iter().map(|e| (e.sw_if_index.0, e.flags.0, e.deleted)).collect();
        assert_eq!(told, [(3, 0, true), (1, 1, false), (3, 0, false)]);
        assert_eq!(changes(&now, &now), []);
    }
}

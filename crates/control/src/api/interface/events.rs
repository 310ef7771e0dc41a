//! Events of interfaces.

use std::collections::BTreeMap;

use vapi::Table;
use vapi::types::if_status_flags;

use super::details;
use super::messages::sw_interface_event;
use crate::api::{message, numbers};
use crate::app::Context;

/// The name of the event message.
pub(super) const KIND: &str = "sw_interface_event";

/// Registers a client for the events of interfaces, or ends its registration. The first registration stores the current state of the
/// interfaces; later changes of this state become events.
pub(super) fn want(c: &mut Context, client: u64, on: bool, pid: u32) -> bool {
    let changed = c.events.want(KIND, client, on, pid);
    if c.events.interfaces.is_none() {
        c.events.interfaces = Some(states(c));
    }
    changed
}

/// Sends events to the clients that want them.
pub(in crate::api) fn look(c: &mut Context, table: &Table<Context>) {
    let wanted = c.events.is_wanted(KIND);
    let Some(before) = c.events.interfaces.take().filter(|_| wanted) else { return };
    let (id, now) = (table.id(KIND).unwrap_or_default(), states(c));
    for event in changes(&before, &now) {
        c.events.send(KIND, |pid| message(id, &sw_interface_event { pid, ..event.clone() }));
    }
    c.events.interfaces = Some(now);
}

/// The index and the flags of each interface, by its serial number, which is never reused.
type States = BTreeMap<u64, (u32, u32)>;

fn states(c: &Context) -> States {
    c.system.router.interfaces().map(|i| (i.serial, (i.index, details::flags(c, i).0))).collect()
}

/// Compares two states of all interfaces, and returns an event for each difference: first for removed interfaces, then for new or
/// changed ones.
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

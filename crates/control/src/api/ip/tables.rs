//! VRFs. In VPP, a table belongs to one address family; here, a VRF has both families. If API clients have added a VRF for one
//! family only, they see it in that family only.

use vapi::{Caller, Code, DONE, Done};

use super::messages::*;
use crate::api::{change, replace};
use crate::app::{Context, Seen};
use crate::intent::{self, Change};

/// Adds or removes a VRF for clients in one address family. In the other family, clients still see the VRF or not, as before.
pub(super) fn change(c: &mut Context, table: &ip_table, add: bool) -> Result<Done, Code> {
    let (id, six) = (table.table_id, table.is_ip6);
    if id == 0 {
        return DONE;
    }
    let key = intent::Table::key(id);
    let exists = c.store.get(&key).is_some();
    let seen = if exists { c.halves.seen(id) } else { Seen::default() };
    if add && !exists {
        let name = Some(&table.name.0).filter(|name| intent::Table::can_be_name(name));
        change::make(c, vec![Change::set(key, intent::Table { name: name.cloned() })])?;
    }
    if !add && seen.is_in(six) {
        // Clients see the VRF until its routes are gone.
        let hide = move |c: &mut Context| {
            if c.store.get(&intent::Table::key(id)).is_some() {
                let seen = c.halves.seen(id);
                show(c, id, seen, (six, false));
            }
            Ok(())
        };
        replace::remove_routes(c, (id, six), |_| true, hide)?;
    } else if exists || add {
        show(c, id, seen, (six, add));
    }
    DONE
}

/// Shows a VRF to clients in an address family (`six` is true for IPv6) if `on` is true; otherwise hides it there. Removes the VRF if
/// clients now see it in no family.
fn show(c: &mut Context, id: u32, mut seen: Seen, (six, on): (bool, bool)) {
    seen.set(six, on);
    c.halves.0.insert(id, seen);
    if seen == Seen::default() {
        sweep(c);
    }
}

/// Completes the removal of VRFs: removes each VRF that clients have already removed, unless interfaces or routes still use it.
pub(in crate::api) fn sweep(c: &mut Context) {
    let exists = |c: &Context, id: u32| c.store.get(&intent::Table::key(id)).is_some();
    let gone: Vec<u32> = c.halves.0.keys().copied().filter(|id| !exists(c, *id)).collect();
    for id in gone {
        c.halves.0.remove(&id);
    }
    let hidden = c.halves.0.iter().filter(|(_, seen)| **seen == Seen::default()).map(|(id, _)| *id);
    let hidden: Vec<u32> = hidden.collect();
    for id in hidden {
        let Ok(fib) = c.system.router.fib(id) else { continue };
        let unused = c.system.router.interfaces().all(|i| i.fib != fib);
        if unused && change::make(c, vec![Change::remove(intent::Table::key(id))]).is_ok() {
            c.halves.0.remove(&id);
        }
    }
}

pub(super) fn allocate(
    c: &mut Context,
    _: &Caller,
    q: ip_table_allocate,
) -> Result<ip_table_allocate_reply, Code> {
    let mut table = q.table;
    if table.table_id == u32::MAX {
        let taken = |id: u32| c.store.get(&intent::Table::key(id)).is_some();
        table.table_id = (1..u32::MAX).find(|id| !taken(*id)).ok_or(Code::UNSPECIFIED)?;
    }
    change(c, &table, true)?;
    Ok(ip_table_allocate_reply { table })
}

/// Returns one entry for each VRF and each address family in which clients see the VRF.
pub(super) fn all(c: &Context) -> Vec<ip_table_details> {
    let mut all = Vec::new();
    for is_ip6 in [false, true] {
        for (table_id, _) in c.system.router.vrfs().from(0).filter(|(id, _)| c.halves.seen(*id).is_in(is_ip6))
        {
            let usual = || format!("{}-VRF:{table_id}", if is_ip6 { "ipv6" } else { "ipv4" });
            let name = intent::Table::name_of(table_id, c.store.tree()).map_or_else(usual, str::to_owned);
            all.push(ip_table_details { table: ip_table { table_id, is_ip6, name: name.as_str().into() } });
        }
    }
    all
}

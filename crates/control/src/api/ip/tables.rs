//! VRFs. VPP has tables per family, here a VRF has both. For clients, a VRF that they made for one family shows that family only.

use std::collections::BTreeMap;

use vapi::{Caller, Code, DONE, Done};

use super::messages::*;
use crate::api::{change, replace};
use crate::app::Context;
use crate::intent::{self, Change};

/// The VRFs that clients have made for one family only: true for IPv6. All others are of both.
#[derive(Default)]
pub(crate) struct Halves(BTreeMap<u32, bool>);

impl Halves {
    /// True if clients see the VRF in a family.
    fn shows(&self, table: u32, is_ip6: bool) -> bool {
        self.0.get(&table).is_none_or(|six| *six == is_ip6)
    }
}

/// Adds or removes a VRF in a family. Removing it in one leaves it in the other.
pub(super) fn change(c: &mut Context, table: &ip_table, add: bool) -> Result<Done, Code> {
    let (id, six) = (table.table_id, table.is_ip6);
    let key = intent::Table::key(id);
    let exists = c.store.get(&key).is_some();
    if id == 0 {
        return DONE;
    }
    match (add, exists) {
        (true, false) => {
            let name = Some(&table.name.0).filter(|name| intent::Table::can_be_name(name));
            change::make(c, vec![Change::set(key, intent::Table { name: name.cloned() })])?;
            c.halves.0.insert(id, six);
        }
        (true, true) => {
            if !c.halves.shows(id, six) {
                c.halves.0.remove(&id);
            }
        }
        (false, false) => {}
        (false, true) => {
            let other = !six && c.halves.shows(id, true) || six && c.halves.shows(id, false);
            let mut changes = replace::routes(c, id, six, |_| true);
            changes.extend((!other).then(|| Change::remove(key)));
            if c.halves.shows(id, six) {
                change::make(c, changes)?;
                match other {
                    true => drop(c.halves.0.insert(id, !six)),
                    false => drop(c.halves.0.remove(&id)),
                }
            }
        }
    }
    DONE
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

/// Returns each VRF in the families that it has for clients.
pub(super) fn all(c: &Context) -> Vec<ip_table_details> {
    let mut all = Vec::new();
    for is_ip6 in [false, true] {
        for (table_id, _) in c.system.router.vrfs().from(0).filter(|(id, _)| c.halves.shows(*id, is_ip6)) {
            let usual = || format!("{}-VRF:{table_id}", if is_ip6 { "ipv6" } else { "ipv4" });
            let name = intent::Table::name_of(table_id, c.store.tree()).map_or_else(usual, str::to_owned);
            all.push(ip_table_details { table: ip_table { table_id, is_ip6, name: name.as_str().into() } });
        }
    }
    all
}

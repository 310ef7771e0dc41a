//! Neighbors.

use net::neighbor::{Key, NeighborView};

use crate::app::{Context, Output};
use crate::cli::{Args, PAGE, Registry, Rows, Table};
use crate::intent::{Family, OfFamily};

/// Declares the commands of an address family.
pub fn register<A: OfFamily>(r: &mut Registry<Context>) {
    // The singular is listed, because it also begins "neighbor-config". The others are older names of VPP.
    let names: &[&str] = match A::FAMILY {
        Family::V4 => &["ip neighbors/neighbor/neigh/arp", "ip4 neighbors", "arp"],
        Family::V6 => &["ip6 neighbors/neighbor/neigh"],
    };
    for name in names {
        r.add(
            &format!("show {name} [<interface:interface>] [max <n:u32>]"),
            "Show neighbors, or the first n.",
            |c, a| Ok(neighbors::<A>(c, a)),
        );
    }
}

/// Neighbors, sorted by interface and address.
struct Neighbors<A> {
    /// Only neighbors on this interface; `None` for all interfaces.
    interface: Option<u32>,
    last: Option<Key<A>>,
    /// Maximum number of neighbors still to show.
    left: usize,
    table: Table,
}

impl<A: OfFamily> Rows<Context> for Neighbors<A> {
    type Row = NeighborView;

    fn next(&mut self, c: &Context, page: &mut Vec<NeighborView>) -> bool {
        // Before the first address of an interface comes the last one of the previous interface.
        let first = self.last.or(self.interface.and_then(|i| Some((i.checked_sub(1)?, A::LAST))));
        let all = c.system.router.neighbors_behind(first);
        let (mut last, before) = (None, page.len());
        for (key, view) in
            all.take_while(|(key, _)| self.interface.is_none_or(|i| i == key.0)).take(PAGE.min(self.left))
        {
            page.push(view);
            last = Some(key);
        }
        self.last = last;
        self.left -= page.len() - before;
        last.is_some()
    }

    fn text(&mut self, page: &[NeighborView], out: &mut String) {
        for n in page {
            self.table.row(vec![
                format!("{:.4}", n.age),
                n.ip.clone(),
                n.flags.into(),
                n.mac.clone().unwrap_or_else(|| "-".into()),
                n.interface.clone(),
            ]);
        }
        self.table.flush(out);
    }
}

fn neighbors<A: OfFamily>(c: &Context, a: &Args) -> Output {
    let interface = a.get::<String>("interface");
    let interface = interface.and_then(|name| c.system.router.interface_named(&name)).map(|i| i.index);
    let table = Table::new(&["Age", "IP", "Flags", "Ethernet", "Interface"]);
    let left = a.get::<u32>("n").map_or(usize::MAX, |n| n as usize);
    Output::rows(Neighbors::<A> { interface, last: None, left, table }, a.json())
}

//! VRFs.

use std::fmt::Write;
use std::marker::PhantomData;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde::Serialize;

use super::super::table;
use crate::app::{Context, Output};
use crate::cli::{Args, CliError, Registry, Rows};
use crate::intent::{OfFamily, Table};

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    family::<Ipv4Addr>(r);
    family::<Ipv6Addr>(r);
}

fn family<A: OfFamily>(r: &mut Registry<Context>) {
    r.add(
        &format!("show {} table [<table:table>]", A::FAMILY.noun()),
        "Show the VRFs, or one with its interfaces and routes.",
        tables::<A>,
    );
}

/// An existing VRF: its number, and its index in the data plane.
#[derive(Clone, Copy)]
pub(super) struct VrfId {
    pub(super) table: u32,
    pub(super) fib: u16,
}

/// Returns the VRF given by the command; the default is VRF 0.
pub(super) fn table_of(c: &Context, a: &Args) -> Result<VrfId, CliError> {
    let table = table(a, "table");
    let fib = c.system.router.fib(table).map_err(|e| a.about("table", e))?;
    Ok(VrfId { table, fib })
}

impl VrfId {
    /// Returns the heading of a list of routes. Its `fib_index` shows the VRF's number, because operators do not know the real
    /// index.
    pub(super) fn heading<A: OfFamily>(self, c: &Context) -> String {
        format!(
            "{}, fib_index:{}\n",
            title::<A>(self.table, Table::name_of(self.table, c.store.tree())),
            self.table
        )
    }
}

/// Returns the title of a VRF's routing table for an address family. `table` is the number of the VRF.
fn title<A: OfFamily>(table: u32, name: Option<&str>) -> String {
    let name = name.map(|name| format!(" name:{name}")).unwrap_or_default();
    format!("{}-VRF:{table}{name}", A::NAME.to_lowercase())
}

#[derive(Serialize)]
struct Vrf {
    table: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    interfaces: Vec<String>,
    routes: usize,
    lookup_memory_bytes: usize,
}

/// The VRFs from number `next` on.
struct Vrfs<A> {
    family: PhantomData<A>,
    next: Option<u32>,
    /// True to show only the VRF `next`, in detail.
    one: bool,
}

impl<A: OfFamily> Rows<Context> for Vrfs<A> {
    type Row = Vrf;

    fn next(&mut self, c: &Context, page: &mut Vec<Vrf>) -> bool {
        let Some(next) = self.next else { return false };
        let r = &c.system.router;
        // Pages are short, because each VRF searches all interfaces.
        page.extend(r.vrfs().from(next).take(if self.one { 1 } else { 8 }).map(|(table, fib)| Vrf {
            table,
            name: Table::name_of(table, c.store.tree()).map(str::to_string),
            interfaces: r.interfaces().filter(|i| i.fib == fib).map(|i| i.name.clone()).collect(),
            routes: r.routes::<A>().count(fib),
            lookup_memory_bytes: r.routes::<A>().memory_bytes(fib),
        }));
        self.next = page.last().and_then(|last| last.table.checked_add(1)).filter(|_| !self.one);
        self.next.is_some()
    }

    fn text(&mut self, page: &[Vrf], out: &mut String) {
        for v in page {
            let _ = writeln!(out, "[{0}] table_id:{0} {1}", v.table, title::<A>(v.table, v.name.as_deref()));
            if self.one {
                let mib = v.lookup_memory_bytes as f64 / f64::from(1 << 20);
                let _ = writeln!(out, "  routes: {}, lookup table {mib:.1} MiB", v.routes);
                let bound = if v.interfaces.is_empty() { "none".into() } else { v.interfaces.join(", ") };
                let _ = writeln!(out, "  interfaces: {bound}");
            }
        }
    }
}

fn tables<A: OfFamily>(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let one = a.get::<u32>("table").map(|_| table_of(c, a)).transpose()?;
    let next = Some(one.map_or(0, |id| id.table));
    Ok(Output::rows(Vrfs::<A> { family: PhantomData, next, one: one.is_some() }, a.json()))
}

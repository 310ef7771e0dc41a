//! Routes and VRFs.

use std::net::Ipv4Addr;
use std::time::Instant;

use net::ip::Prefix4;

use super::{Context, Output, prefix, table};
use crate::cli::{Args, CliError, Job, Registry, Step};
use crate::intent::{Change, Key, Route, Value, Via};

/// Routes that are changed between two looks at the clock.
const BATCH: u32 = 64;
/// How long a slice of a long command may last, microseconds: what others wait for.
const SLICE_US: u128 = 1000;

/// A prefix, and in any order what may follow it.
const ROUTE: &str = "<prefix:prefix4> [table <table:u16>] [{via <next-hop:ip4> [<interface:interface>] | \
     via <out:interface> | [via] drop | [via] unreachable | [via] prohibit | via ip4-lookup-in-table <other:u16>}] \
     [count <n:u32>]";

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add("ip table add <table:u16>", "Add a VRF.", |c, a| {
        let table: u16 = a.need("table")?;
        // VRF 0 is always there, and nobody's to ask for.
        let changes = (table != 0).then(|| Change::set(Key::Table(table), Value::Table));
        c.transact(changes.into_iter().collect()).map_err(|e| a.about("table", e))?;
        Ok(Output::none())
    });
    r.add("ip table del <table:u16>", "Remove a VRF that no interface and no route uses.", |c, a| {
        let table: u16 = a.need("table")?;
        if table == 0 {
            return Err(a.fault("table", "table 0 is always there"));
        }
        c.transact(vec![Change::remove(Key::Table(table))]).map_err(|e| a.about("table", e))?;
        Ok(Output::none())
    });
    r.add(
        &format!("ip route add {ROUTE}"),
        "Add a route, or N routes for consecutive prefixes; a route that is there already is replaced.",
        |c, a| change(c, a, true),
    );
    r.add(
        &format!("ip route del {ROUTE}"),
        "Remove a route, or N routes for consecutive prefixes.",
        |c, a| change(c, a, false),
    );
}

fn via(a: &Args) -> Option<Via> {
    if let Some(ip) = a.get::<Ipv4Addr>("next-hop") {
        return Some(Via::NextHop(ip, a.get::<String>("interface")));
    }
    if let Some(out) = a.get::<String>("out") {
        return Some(Via::Attached(out));
    }
    if let Some(other) = a.get::<u16>("other") {
        return Some(Via::Table(other));
    }
    let words = [("drop", Via::Drop), ("unreachable", Via::Unreachable), ("prohibit", Via::Prohibit)];
    words.into_iter().find(|(word, _)| a.has(word)).map(|(_, via)| via)
}

/// The argument that a refusal of this route is about.
fn concerned(c: &Context, a: &Args, via: Option<&Via>) -> &'static str {
    let table = table(a, "table");
    match via {
        _ if table != 0 && c.store.get(&Key::Table(table)).is_none() => "table",
        Some(Via::NextHop(..)) => "next-hop",
        Some(Via::Attached(_)) => "out",
        Some(Via::Table(_)) => "other",
        _ => "prefix",
    }
}

fn change(c: &mut Context, a: &Args, add: bool) -> Result<Output, CliError> {
    let (prefix, via) = (prefix(a, "prefix")?, via(a));
    if add && via.is_none() {
        return Err(CliError::new("the route says nowhere to go: via NEXT-HOP, drop, unreachable …"));
    }
    let of = a.get::<u32>("n").unwrap_or(1);
    let there_are = from_here_on(prefix);
    if of == 0 || u64::from(of) > there_are {
        let len = prefix.len();
        let message =
            format!("a count from {prefix} on is 1 to {there_are}: there are no more prefixes of {len} bits");
        return Err(a.fault("n", message));
    }
    let about = if add { concerned(c, a, via.as_ref()) } else { "prefix" };
    let mut bulk = Bulk { table: table(a, "table"), next: Some(prefix), left: of, of, via, add, replaced: 0 };
    // What is wrong with all of them is wrong with the first.
    let replaced = bulk.one(c).map_err(|e| a.about(about, e))?;
    if bulk.left > 0 {
        return Ok(Output::job(bulk));
    }
    Ok(replaced.map_or_else(Output::none, |old| {
        Output::text(format!("replaced the path {old} of {prefix}: a route has one path"))
    }))
}

/// How many prefixes of the same length there are from this one to the last.
fn from_here_on(prefix: Prefix4) -> u64 {
    let shift = 32 - u32::from(prefix.len());
    (1 << prefix.len()) - (u64::from(prefix.bits()) >> shift)
}

/// Routes for consecutive prefixes, changed in slices.
struct Bulk {
    table: u16,
    next: Option<Prefix4>,
    left: u32,
    of: u32,
    via: Option<Via>,
    add: bool,
    /// How many of them went another way before.
    replaced: u32,
}

impl Bulk {
    /// Changes the next route; gives the way that it went before if another one took its place.
    fn one(&mut self, c: &mut Context) -> Result<Option<Via>, CliError> {
        let Some(prefix) = self.next else {
            return Err(CliError::new(format!("there are no prefixes behind the {}th", self.of - self.left)));
        };
        let key = Key::Route(self.table, prefix);
        let before = match c.store.get(&key) {
            Some(Value::Route(there)) => Some(there.via.clone()),
            _ => None,
        };
        let another = before.filter(|there| self.via.as_ref().is_some_and(|via| via != there));
        if let (false, Some(there)) = (self.add, &another) {
            return Err(CliError::new(format!("the route for {prefix} goes {there}; nothing was removed")));
        }
        let value = self.via.clone().filter(|_| self.add).map(|via| Value::Route(Route { via }));
        c.transact(vec![Change { key, value }])?;
        self.next = prefix.next();
        self.left -= 1;
        self.replaced += u32::from(another.is_some());
        Ok(another)
    }
}

impl Job<Context> for Bulk {
    fn step(&mut self, c: &mut Context, out: &mut String) -> Step {
        let start = Instant::now();
        let before = self.left;
        while self.left > 0 && start.elapsed().as_micros() < SLICE_US {
            for _ in 0..BATCH.min(self.left) {
                if let Err(e) = self.one(c) {
                    let done = self.of - self.left;
                    return Step::Failed(CliError::new(format!("{e} ({done} of {} were done)", self.of)));
                }
            }
        }
        // A line for every tenth of the way.
        let tenth = |left: u32| u64::from(self.of - left) * 10 / u64::from(self.of);
        if self.of >= 100_000 && tenth(self.left) > tenth(before) {
            *out += &format!("{} of {} routes\n", self.of - self.left, self.of);
        }
        if self.left > 0 {
            return Step::Again;
        }
        if self.replaced > 0 {
            *out += &format!("replaced {} paths: a route has one path\n", self.replaced);
        }
        Step::Done
    }
}

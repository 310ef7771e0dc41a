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

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add("ip table add <table:u32>", "Add a VRF.", |c, a| {
        c.transact(vec![Change::set(Key::Table(number(a)?), Value::Table)])?;
        Ok(Output::none())
    });
    r.add(
        "ip route add <prefix:prefix4> [table <table:u32>] {via <next-hop:ip4> [<interface:interface>] | \
         via <out:interface> | [via] drop | [via] unreachable | [via] prohibit | via ip4-lookup-in-table <other:u32>} \
         [count <n:u32>]",
        "Add a route, or N routes for consecutive prefixes.",
        |c, a| change(c, a, true),
    );
    r.add(
        "ip route del <prefix:prefix4> [table <table:u32>] [{via <next-hop:ip4> [<interface:interface>] | \
         via <out:interface> | [via] drop | [via] unreachable | [via] prohibit | via ip4-lookup-in-table <other:u32>}] \
         [count <n:u32>]",
        "Remove a route, or N routes for consecutive prefixes.",
        |c, a| change(c, a, false),
    );
}

fn number(a: &Args) -> Result<u16, CliError> {
    let n = a.need::<u32>("table")?;
    u16::try_from(n).map_err(|_| CliError::new(format!("a table's number is at most {}, not {n}", u16::MAX)))
}

fn via(a: &Args) -> Option<Via> {
    if let Some(ip) = a.get::<Ipv4Addr>("next-hop") {
        return Some(Via::NextHop(ip, a.get::<String>("interface")));
    }
    if let Some(out) = a.get::<String>("out") {
        return Some(Via::Attached(out));
    }
    if a.get::<u32>("other").is_some() {
        return Some(Via::Table(table(a, "other")));
    }
    let words = [("drop", Via::Drop), ("unreachable", Via::Unreachable), ("prohibit", Via::Prohibit)];
    words.into_iter().find(|(word, _)| a.has(word)).map(|(_, via)| via)
}

fn change(c: &mut Context, a: &Args, add: bool) -> Result<Output, CliError> {
    if a.get::<u32>("table").is_some() {
        number(a)?;
    }
    let bulk = Bulk {
        table: table(a, "table"),
        next: Some(prefix(a, "prefix")?),
        left: a.get::<u32>("n").unwrap_or(1),
        of: a.get::<u32>("n").unwrap_or(1),
        via: via(a),
        add,
    };
    if add && bulk.via.is_none() {
        return Err(CliError::new("the route says nowhere to go: via NEXT-HOP, drop, unreachable …"));
    }
    if bulk.of == 1 {
        let mut bulk = bulk;
        bulk.one(c)?;
        return Ok(Output::none());
    }
    Ok(Output::job(bulk))
}

/// Routes for consecutive prefixes, changed in slices.
struct Bulk {
    table: u16,
    next: Option<Prefix4>,
    left: u32,
    of: u32,
    via: Option<Via>,
    add: bool,
}

impl Bulk {
    fn one(&mut self, c: &mut Context) -> Result<(), CliError> {
        let Some(prefix) = self.next else {
            return Err(CliError::new(format!("there are no prefixes behind the {}th", self.of - self.left)));
        };
        let key = Key::Route(self.table, prefix);
        if let (false, Some(via), Some(Value::Route(there))) = (self.add, &self.via, c.store.get(&key))
            && there.via != *via
        {
            return Err(CliError::new(format!(
                "the route for {prefix} goes another way; nothing was removed"
            )));
        }
        let value = self.via.clone().filter(|_| self.add).map(|via| Value::Route(Route { via }));
        c.transact(vec![Change { key, value }])?;
        self.next = prefix.next();
        self.left -= 1;
        Ok(())
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
        if self.left == 0 { Step::Done } else { Step::Again }
    }
}

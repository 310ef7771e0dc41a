//! Routes and VRFs.

use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::Instant;

use net::ip::Prefix4;

use super::long::{ForClient, SLICE, Unfinished};
use super::{Context, Output, prefix, table};
use crate::cli::{Args, CliError, Job, Registry, Step};
use crate::intent::{Change, Key, Route, Value, Via};

/// Routes that are changed between two looks at the clock.
const BATCH: u32 = 64;

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
        return Err(a.fault("prefix", "the route says nowhere to go: via NEXT-HOP, drop, unreachable …"));
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
    let mut work = Work::new(c, table(a, "table"), prefix, of, via, add);
    if of > 1 && c.has_abandoned() {
        // What another one left half-done is undone first, in slices.
        return Ok(Output::job(ForClient::new(work, c)));
    }
    // What is wrong with all of them is wrong with the first.
    c.changes.must_be_free().map_err(|e| a.about(about, e))?;
    c.finish_abandoned();
    work.one(c).map_err(|e| a.about(about, e))?;
    if of > 1 {
        return Ok(Output::job(ForClient::new(work, c)));
    }
    work.tell(c);
    c.notice = c.goes_back_too();
    Ok(match work.before.pop() {
        Some((_, Some(old))) if work.replaced > 0 => {
            Output::text(format!("replaced the path {old} of {prefix}: a route has one path"))
        }
        _ => Output::none(),
    })
}

/// How many prefixes of the same length there are from this one to the last.
fn from_here_on(prefix: Prefix4) -> u64 {
    let shift = 32 - u32::from(prefix.len());
    (1 << prefix.len()) - (u64::from(prefix.bits()) >> shift)
}

/// Routes for consecutive prefixes: all of them are changed, in slices, or none.
struct Work {
    table: u16,
    first: Prefix4,
    of: u32,
    via: Option<Via>,
    add: bool,
    done: u32,
    /// How many of them went another way before.
    replaced: u32,
    /// The way that those done went before, as runs: so many went this way, or were not there.
    before: Vec<(u32, Option<Via>)>,
    /// Why those done are being taken back.
    failed: Option<CliError>,
    /// No change of all comes in between.
    _beside: Rc<()>,
}

impl Work {
    fn new(c: &Context, table: u16, first: Prefix4, of: u32, via: Option<Via>, add: bool) -> Work {
        let _beside = c.changes.beside();
        Work { table, first, of, via, add, done: 0, replaced: 0, before: Vec::new(), failed: None, _beside }
    }

    /// The route number `n`.
    fn key(&self, n: u32) -> Key {
        let step = 1u32.checked_shl(32 - u32::from(self.first.len())).unwrap_or(0);
        let bits = self.first.bits().wrapping_add(n.wrapping_mul(step));
        Key::Route(self.table, Prefix4::new(Ipv4Addr::from_bits(bits), self.first.len()))
    }

    fn way(c: &Context, key: &Key) -> Option<Via> {
        match c.store.get(key) {
            Some(Value::Route(there)) => Some(there.via.clone()),
            _ => None,
        }
    }

    fn set(c: &mut Context, key: Key, via: Option<Via>) -> Result<(), CliError> {
        c.change(vec![Change { key, value: via.map(|via| Value::Route(Route { via })) }])
    }

    /// What each of the routes is to be.
    fn wanted(&self) -> Option<Via> {
        self.via.clone().filter(|_| self.add)
    }

    /// Changes the next route.
    fn one(&mut self, c: &mut Context) -> Result<(), CliError> {
        let key = self.key(self.done);
        let before = Self::way(c, &key);
        let another = before.as_ref().filter(|there| self.via.as_ref().is_some_and(|via| via != *there));
        if let (false, Some(there), Key::Route(_, prefix)) = (self.add, another, &key) {
            return Err(CliError::new(format!("the route for {prefix} goes {there}; nothing was removed")));
        }
        self.replaced += u32::from(another.is_some());
        Self::set(c, key, self.wanted())?;
        self.done += 1;
        match self.before.last_mut() {
            Some((run, way)) if *way == before => *run += 1,
            _ => self.before.push((1, before)),
        }
        Ok(())
    }

    /// Tells the journal what was changed.
    fn tell(&self, c: &mut Context) {
        if !c.journal.has_room(self.of as usize) {
            c.journal.note_too_much();
            return;
        }
        let wanted = self.wanted();
        let states = self.before.iter().flat_map(|(run, way)| std::iter::repeat_n(way, *run as usize));
        let changed = (0..).zip(states).filter(|(_, way)| **way != wanted);
        let before =
            changed.map(|(n, way)| (self.key(n), way.clone().map(|via| Value::Route(Route { via }))));
        c.journal.note(before.collect());
    }

    /// Takes the last of the routes back that were changed. One that somebody else has changed since is theirs.
    fn one_back(&mut self, c: &mut Context) {
        let Some((run, before)) = self.before.last_mut() else { return };
        let before = before.clone();
        *run -= 1;
        if *run == 0 {
            self.before.pop();
        }
        self.done -= 1;
        let key = self.key(self.done);
        if Self::way(c, &key) == self.wanted()
            && before != self.wanted()
            && let Err(e) = Self::set(c, key, before)
        {
            tracing::error!("a change of routes that was cut off cannot be taken back: {e}");
        }
    }
}

impl Job<Context> for Work {
    fn step(&mut self, c: &mut Context, out: &mut String) -> Step {
        let start = Instant::now();
        let begun = self.done;
        while start.elapsed() < SLICE {
            for _ in 0..BATCH {
                if self.failed.is_none() && self.done < self.of {
                    if let Err(e) = self.one(c) {
                        let what = format!("{e} (after {} of {}, which are taken back)", self.done, self.of);
                        self.failed = Some(CliError::new(what));
                    }
                } else if self.failed.is_some() && self.done > 0 {
                    self.one_back(c);
                }
            }
            if self.done == if self.failed.is_some() { 0 } else { self.of } {
                break;
            }
        }
        if self.failed.is_some() {
            return if self.done > 0 {
                Step::Again
            } else {
                self.failed.take().map_or(Step::Done, Step::Failed)
            };
        }
        // A line for every tenth of the way.
        let tenth = |done: u32| u64::from(done) * 10 / u64::from(self.of);
        if self.of >= 100_000 && tenth(self.done) > tenth(begun) {
            *out += &format!("{} of {} routes\n", self.done, self.of);
        }
        if self.done < self.of {
            return Step::Again;
        }
        self.tell(c);
        if self.replaced > 0 {
            *out += &format!("replaced {} paths: a route has one path\n", self.replaced);
        }
        *out += &c.goes_back_too().unwrap_or_default();
        Step::Done
    }
}

impl Unfinished for Work {
    fn cut_off(&mut self) -> bool {
        self.failed.get_or_insert_with(|| CliError::new("cut off"));
        self.done > 0
    }
}

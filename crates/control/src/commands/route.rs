//! Routes and VRFs.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;

use model::origin::Origin;
use model::store::Counts;
use net::feature::exact_prefix;
use net::ip::IpPrefix;

use super::long::{ForClient, Unfinished};
use super::table;
use crate::app::{Context, Output, SLICE, unreachable_paths};
use crate::cli::{Args, CliError, Job, Registry, Step};
use crate::intent::{Branch, Change, Edit, Family, Find, Key, Note, Route, Table, Value, Via};

/// Number of routes changed between two checks of the clock.
const BATCH: u32 = 64;

/// A prefix with its options in any order. As in VPP, the count and the table may also precede it.
const ROUTE: &str = "[count <of:u32>] [table <table:table>] <prefix:prefix> [table <table:table>] \
     [{via <next-hop:ip> [<interface:interface>] [weight <weight:1..255>] [preference <preference:u16>] \
     [next-hop-table <next-hop-table:table>] [resolve-via-host] [resolve-via-attached] | via <out:interface> [weight <weight:1..255>] | [via] local | [via] drop | [via] unreachable | [via] prohibit | \
     via {ip4-lookup-in-table | ip6-lookup-in-table} <other:table>}...] [count <n:u32>]";

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    // A VRF has both families, so the commands of both families are the same.
    for family in Family::ALL {
        let noun = family.noun();
        r.add(
            &format!("{noun} table add <table:u32> [name <name:word>]"),
            "Add a VRF for both families, or rename one. Commands take the name in place of the number.",
            add_table,
        );
        r.add(&format!("{noun} table del <table:table>"), "Remove an unused VRF.", remove_table);
    }
    r.add(
        &format!("ip route add {ROUTE}"),
        "Add a route, or N routes for consecutive prefixes. Several paths share the flows. An existing route keeps its paths \
         and gets these in addition.",
        |c, a| change(c, a, Deed::Add),
    );
    r.add(
        &format!("ip route replace {ROUTE}"),
        "Replace the paths of a route, or of N routes for consecutive prefixes. Missing routes are added.",
        |c, a| change(c, a, Deed::Replace),
    );
    r.add(
        &format!("ip route del {ROUTE}"),
        "Remove a route or some of its paths, or do this for N routes for consecutive prefixes.",
        |c, a| change(c, a, Deed::Remove),
    );
}

fn add_table(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let (table, name): (u32, _) = (a.need("table")?, a.get::<String>("name"));
    let key = Table::key(table);
    let argument = match (table, &name) {
        // VRF 0 always exists, and is not configuration.
        (0, None) => return Ok(Output::none()),
        (0, Some(_)) => return Err(a.fault("name", "table 0 cannot have a name")),
        (_, Some(_)) => "name",
        // Without a name, an existing VRF keeps its own.
        (_, None) if c.store.get(&key).is_some() => return Ok(Output::none()),
        (_, None) => "table",
    };
    c.transact(vec![Change::set(key, Table { name })]).map_err(|e| a.about(argument, e))?;
    Ok(Output::none())
}

fn remove_table(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let table: u32 = a.need("table")?;
    if table == 0 {
        return Err(a.fault("table", "table 0 cannot be removed"));
    }
    c.transact(vec![Change::remove(Table::key(table))]).map_err(|e| a.about("table", e))?;
    Ok(Output::none())
}

/// The kind of change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deed {
    Add,
    Replace,
    Remove,
}

fn via(a: &Args) -> Option<Via> {
    if let Some(ip) = a.get::<IpAddr>("next-hop") {
        return Some(Via::NextHop(ip, a.get::<String>("interface")));
    }
    if let Some(out) = a.get::<String>("out") {
        return Some(Via::Attached(out));
    }
    if let Some(other) = a.get::<u32>("other") {
        let family = if a.has("ip6-lookup-in-table") { Family::V6 } else { Family::V4 };
        return Some(Via::Table(family, other));
    }
    Via::WORDS.into_iter().find(|(word, _)| a.has(word)).map(|(_, via)| via)
}

/// Returns the word of the command that gives the target of a path: the name of an argument, or a keyword.
fn place(via: &Via) -> &'static str {
    match via {
        Via::NextHop(..) => "next-hop",
        Via::Attached(_) => "out",
        Via::Table(..) => "other",
        Via::Local | Via::Drop | Via::Unreachable | Via::Prohibit => via.word().unwrap_or_default(),
    }
}

/// Returns the paths given by a command, and the words of each path. `ip route load` uses this function, too.
///
/// # Errors
/// If a single route cannot have all these paths.
pub(super) fn branches(a: &Args) -> Result<(Vec<Branch>, Vec<Args>), CliError> {
    let (mut branches, rounds) = (Vec::new(), a.rounds());
    for words in &rounds {
        let Some(via) = via(words) else { continue };
        let branch = Branch { via, weight: words.get("weight").unwrap_or(1) };
        branch.may_join(&branches).map_err(|e| words.fault(place(&branch.via), e.to_string()))?;
        branches.push(branch);
    }
    Ok((branches, rounds))
}

/// Refuses the options of a path that only VPP supports, such as `preference`. Accepts them if they have no effect, for example
/// with their default values.
fn has_defaults(c: &Context, words: &Args, table: u32) -> Result<(), CliError> {
    if words.get::<u16>("preference").is_some_and(|preference| preference != 0) {
        let why = "a preference is not supported yet: all paths of a route share its flows";
        return Err(words.fault("preference", why));
    }
    let by = words.get::<String>("interface");
    // The next hop is in the table of the path's interface, or without an interface in the route's table.
    let own = by.as_deref().and_then(|name| c.store.interface(name)).map_or(table, |i| i.table);
    if words.get::<u32>("next-hop-table").is_some_and(|other| other != own) {
        let why = format!("a next hop in another table is not supported yet: next-hop-table must be {own}");
        return Err(words.fault("next-hop-table", why));
    }
    // A next hop with an interface needs no lookup.
    let ways = ["resolve-via-host", "resolve-via-attached"];
    match ways.into_iter().find(|way| words.has(way) && by.is_none()) {
        Some(way) => Err(words.fault(way, format!("'{way}' is not supported yet: name the interface"))),
        None => Ok(()),
    }
}

/// Marks the word that caused the error `e`, after a route was refused. Returns the marked error.
fn about(
    e: CliError,
    c: &Context,
    a: &Args,
    prefix: IpPrefix,
    (branches, rounds): (&[Branch], &[Args]),
) -> CliError {
    let table = table(a, "table");
    if table != 0 && c.store.get(&Table::key(table)).is_none() {
        return a.about("table", e);
    }
    let misfit = Route::misfit(branches, table, prefix, &c.store.snapshot().view());
    about_path(e, a, misfit.and_then(|n| Some((branches.get(n)?, rounds.get(n)?))))
}

/// Marks the place of the error `e` in the command, for the operator: the target of `path` or, without a path, the prefix. Returns
/// the marked error.
fn about_path(e: CliError, a: &Args, path: Option<(&Branch, &Args)>) -> CliError {
    match path {
        Some((branch, words)) => words.about(place(&branch.via), e),
        None => a.about("prefix", e),
    }
}

/// Marks the place of the error `e` in the command, after a removal was refused: the first given path that the route does not have.
/// If there is no such path, or no route, marks the prefix. Returns the marked error.
fn about_missing(
    e: CliError,
    c: &Context,
    a: &Args,
    prefix: IpPrefix,
    (branches, rounds): (&[Branch], &[Args]),
) -> CliError {
    let there = Work::route(c, &Route::key(table(a, "table"), prefix));
    let has = |via: &Via| there.iter().any(|route| route.paths().any(|(path, _)| path == via));
    about_path(e, a, branches.iter().zip(rounds).find(|(branch, _)| there.is_some() && !has(&branch.via)))
}

fn change(c: &mut Context, a: &Args, deed: Deed) -> Result<Output, CliError> {
    let prefix = exact_prefix(a, "prefix")?;
    let (branches, rounds) = branches(a)?;
    if a.times("table") > 1 {
        return Err(a.fault("table", "the table is given twice"));
    }
    rounds.iter().try_for_each(|words| has_defaults(c, words, table(a, "table")))?;
    if deed != Deed::Remove && branches.is_empty() {
        return Err(a.fault("prefix", "the route needs a next hop (via …, local, drop, unreachable)"));
    }
    let count = if a.has("of") { "of" } else { "n" };
    if a.has("of") && a.has("n") {
        return Err(a.fault("n", "the count is given twice"));
    }
    let of = a.get::<u32>(count).unwrap_or(1);
    let there_are = prefix.from_here_on();
    if of == 0 || u128::from(of) > there_are {
        let len = prefix.len();
        let message = format!(
            "the count must be 1 to {there_are}: from {prefix} on, there are no more prefixes of length {len}"
        );
        return Err(a.fault(count, message));
    }
    let about = |e, c: &Context| match deed {
        Deed::Remove => about_missing(e, c, a, prefix, (&branches, &rounds)),
        _ => about(e, c, a, prefix, (&branches, &rounds)),
    };
    c.must_not_go_back()?;
    let mut work = Work::new(c, table(a, "table"), prefix, of, branches.clone(), deed);
    if of > 1 && !c.abandoned.borrow().is_empty() {
        // Abandoned jobs are finished first, in slices.
        return Ok(Output::job(ForClient::new(work, c)));
    }
    // An error that concerns all routes occurs with the first one.
    c.changes.must_be_free().map_err(|e| about(e.into(), c))?;
    c.finish_abandoned().map_err(|e| about(e.into(), c))?;
    work.one(c).map_err(|e| about(e, c))?;
    if of > 1 {
        return Ok(Output::job(ForClient::new(work, c)));
    }
    work.tell(c);
    c.warning = c.goes_back_too();
    let before = work.before.pop().and_then(|(_, before)| before);
    let mut told = match (before, Work::route(c, &work.key(0))) {
        (Some(old), Some(now)) if deed == Deed::Add && old != now => match now.paths().count() {
            1 => format!("{prefix} goes {now} now, instead of {old}\n"),
            paths => format!("{prefix} has {paths} paths now, which share its flows: {now}\n"),
        },
        _ => String::new(),
    };
    if deed != Deed::Remove {
        let snapshot = c.store.snapshot();
        let unreachable = unreachable_paths(&snapshot.view(), table(a, "table"), prefix, &branches);
        told.extend(unreachable.iter().map(|why| format!("! {why}\n")));
    }
    Ok(if told.is_empty() { Output::none() } else { Output::text(told.trim_end()) })
}

/// A job that changes the routes of consecutive prefixes, in slices. If one change fails, the changes made before are rolled back.
struct Work {
    table: u32,
    first: IpPrefix,
    of: u32,
    /// The paths given by the command. A removal without paths removes whole routes.
    branches: Vec<Branch>,
    deed: Deed,
    done: u32,
    /// Number of routes that existed with other paths before the change.
    had_others: u32,
    /// The routes as they were before the change, run-length encoded: the number of consecutive prefixes, and the route that each of them
    /// had, if any.
    before: Vec<(u32, Option<Route>)>,
    /// The user and the command.
    origin: Origin,
    /// Why the change is being rolled back.
    failed: Option<CliError>,
    /// Keeps changes of the whole configuration waiting.
    _beside: Rc<()>,
}

impl Work {
    fn new(c: &Context, table: u32, first: IpPrefix, of: u32, branches: Vec<Branch>, deed: Deed) -> Work {
        let (_beside, before, origin) = (c.changes.beside(), Vec::new(), c.origin.clone());
        let (done, had_others, failed) = (0, 0, None);
        Work { table, first, of, branches, deed, done, had_others, before, origin, failed, _beside }
    }

    /// Returns the key of route number `n`.
    fn key(&self, n: u32) -> Key {
        Route::key(self.table, self.first.nth(n).unwrap_or(self.first))
    }

    fn route(c: &Context, key: &Key) -> Option<Route> {
        c.store.get(key).and_then(|value| value.get()).cloned()
    }

    fn set(c: &mut Context, key: Key, route: Option<Route>) -> Result<(), CliError> {
        Ok(c.change(vec![Change { key, value: route.map(Value::from) }])?)
    }

    /// Returns the route after the change, or `None` if no route remains. `before` is the route before the change.
    ///
    /// # Errors
    /// If the change removes a path that the route does not have.
    fn after(&self, before: Option<&Route>, key: &Key) -> Result<Option<Route>, CliError> {
        match (self.deed, before) {
            (Deed::Remove, Some(there)) if !self.branches.is_empty() => {
                let mut left = Some(there.clone());
                for branch in &self.branches {
                    left = left.and_then(|route| route.without(&branch.via)).ok_or_else(|| {
                        let prefix = key.get::<Route>().map(|(_, prefix)| prefix.to_string());
                        let prefix = prefix.unwrap_or_default();
                        CliError::new(format!(
                            "no such path: the route for {prefix} goes {there}; nothing was removed"
                        ))
                    })?;
                }
                Ok(left)
            }
            (Deed::Remove, _) => Ok(None),
            (Deed::Add, there) => Ok(Route::joined(there, &self.branches)),
            (Deed::Replace, _) => Ok(Route::joined(None, &self.branches)),
        }
    }

    /// Changes the next route.
    fn one(&mut self, c: &mut Context) -> Result<(), CliError> {
        let key = self.key(self.done);
        let before = Self::route(c, &key);
        let after = self.after(before.as_ref(), &key)?;
        self.had_others += u32::from(before.is_some() && before != after);
        Self::set(c, key, after)?;
        self.done += 1;
        match self.before.last_mut() {
            Some((run, route)) if *route == before => *run += 1,
            _ => self.before.push((1, before)),
        }
        Ok(())
    }

    /// Adds the change to the journal.
    fn tell(&self, c: &mut Context) {
        if !c.journal.has_room(self.of as usize) {
            let first: Vec<Key> = (0..self.of.min(3)).map(|n| self.key(n)).collect();
            let of = u64::from(self.of);
            let counts = match self.deed {
                Deed::Add => Counts { added: of, ..Counts::default() },
                Deed::Replace => Counts { changed: of, ..Counts::default() },
                Deed::Remove => Counts { removed: of, ..Counts::default() },
            };
            c.remember(|journal| journal.note(Note::too_much(self.origin.clone(), first.iter(), counts)));
            return;
        }
        // The routes of a run share their old and new values, so each value is created only once.
        let mut edits = Vec::with_capacity(self.done as usize);
        let mut number = 0;
        for (run, was) in &self.before {
            let after = self.after(was.as_ref(), &self.key(number)).unwrap_or_default();
            let changes = *was != after;
            let (old, new) = (was.clone().map(Value::from), after.map(Value::from));
            for n in (number..number + run).filter(|_| changes) {
                edits.push(Edit { key: self.key(n), old: old.clone(), new: new.clone() });
            }
            number += run;
        }
        c.note(self.origin.clone(), edits);
    }

    /// True if this job changed the route `was` to `now`. Then no other command has changed the route since.
    fn made(&self, key: &Key, was: Option<&Route>, now: Option<&Route>) -> bool {
        self.after(was, key).is_ok_and(|after| after.as_ref() == now)
    }

    /// Rolls back the last route that this job has changed, unless another command has changed it since.
    fn one_back(&mut self, c: &mut Context) {
        let Some((run, before)) = self.before.last_mut() else { return };
        let before = before.clone();
        *run -= 1;
        if *run == 0 {
            self.before.pop();
        }
        self.done -= 1;
        let key = self.key(self.done);
        let now = Self::route(c, &key);
        if now != before
            && self.made(&key, before.as_ref(), now.as_ref())
            && let Err(e) = Self::set(c, key, before)
        {
            tracing::error!("an interrupted change of routes cannot be rolled back: {e}");
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
                        let what = format!(
                            "{e} ({} of {} routes had been changed; all of these are rolled back)",
                            self.done, self.of
                        );
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
        // A line for every tenth of the routes.
        let tenth = |done: u32| u64::from(done) * 10 / u64::from(self.of);
        if self.of >= 100_000 && tenth(self.done) > tenth(begun) {
            *out += &format!("{} of {} routes\n", self.done, self.of);
        }
        if self.done < self.of {
            return Step::Again;
        }
        self.tell(c);
        if self.had_others > 0 && self.deed == Deed::Add {
            *out += &format!("{} of the routes already had other paths\n", self.had_others);
        }
        out.extend(c.goes_back_too().map(|why| format!("! {why}\n")));
        Step::Done
    }
}

impl Unfinished for Work {
    fn cut_off(&mut self) -> bool {
        self.failed.get_or_insert_with(|| CliError::new("the client disconnected"));
        self.done > 0
    }
}

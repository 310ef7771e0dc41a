//! The tables of fragments of a router, by the names of the nodes that fill them: the main thread's side.

use std::fmt;
use std::sync::Arc;

use graph::{Builder, GraphError};

use net::router::{Hooks, Router, RouterError};

use crate::fragment::MOST_FRAGMENTS;
use crate::kind::{KindInfo, SECOND};
use crate::shards::{DatagramView, Fragments, Shard, Shards, Totals};
use crate::waiting::Limits;

/// Tables that a router has at most.
const MOST_TABLES: usize = 3;
/// Of so many buffers, one may be in fragments of each table, as long as nobody says otherwise.
const SHARE: usize = 8;
/// Of so many buffers, one may be in those of one table at most: all tables together leave half of the buffers to packets that go on,
/// whatever the order in which their bounds are set.
const LARGEST_SHARE: usize = 2 * MOST_TABLES;
/// Datagrams of one table, at most.
const MOST_DATAGRAMS: u32 = 1 << 16;
/// The tables of fragments of a router: a [state](Hooks::state) of its main thread.
pub struct Reassembly {
    tables: Vec<Table>,
    /// Packet buffers that there were at the start.
    buffers: usize,
}

impl fmt::Debug for Reassembly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.tables.iter().map(|table| (table.info.name, table.limits))).finish()
    }
}

struct Table {
    info: &'static KindInfo,
    limits: Limits,
    fragments: Arc<dyn Fragments>,
}

/// Declares a table of fragments, whose shards are made with their limits. Gives what nodes share.
///
/// # Errors
/// When there are too many, or the main thread can reach no more nodes.
pub fn table<S: Shard>(
    b: &mut Builder,
    hooks: &mut Hooks,
    info: &'static KindInfo,
    make: impl Fn(Limits) -> S,
) -> Result<Arc<Shards<S>>, GraphError> {
    hooks.inject(b, info.expire)?;
    let buffers = hooks.buffers();
    let all = hooks.state(|_| Ok(Reassembly { tables: Vec::new(), buffers }))?;
    if all.tables.len() == MOST_TABLES {
        return Err(GraphError(format!(
            "{}: a router has {MOST_TABLES} tables of fragments at most, which share its buffers",
            info.name
        )));
    }
    let limits = all.usual_of(info);
    let shards = Arc::new(Shards::new(limits, make));
    all.tables.push(Table { info, limits, fragments: shards.clone() });
    Ok(shards)
}

/// Whether a table can have these limits, where there are so many buffers.
///
/// # Errors
/// When one is out of range.
pub fn check(limits: Limits, buffers: usize) -> Result<(), RouterError> {
    let refuse = |what: &str, most: u64| Err(RouterError(format!("{what}: 1 to {most}")));
    let most = u32::try_from(buffers / LARGEST_SHARE).unwrap_or(u32::MAX);
    if !(1..=MOST_DATAGRAMS).contains(&limits.datagrams) {
        return refuse("datagrams that may wait", u64::from(MOST_DATAGRAMS));
    }
    if !(1..=MOST_FRAGMENTS as u32).contains(&limits.fragments) {
        return refuse("fragments of one datagram", MOST_FRAGMENTS as u64);
    }
    if !(1..=most).contains(&limits.buffers) {
        return refuse("buffers that fragments may wait in", u64::from(most));
    }
    if !(SECOND..=600 * SECOND).contains(&limits.timeout) {
        return refuse("seconds until a datagram is given up", 600);
    }
    Ok(())
}

impl Reassembly {
    /// The limits of a table as long as nobody says otherwise.
    ///
    /// # Errors
    /// When there is no such table.
    pub fn usual(&self, name: &str) -> Result<Limits, RouterError> {
        Ok(self.usual_of(self.table(name)?.info))
    }

    fn usual_of(&self, info: &KindInfo) -> Limits {
        let share = u32::try_from(self.buffers / SHARE).unwrap_or(u32::MAX);
        Limits { buffers: info.usual.buffers.min(share), ..info.usual }
    }

    /// The limits of a table.
    ///
    /// # Errors
    /// When there is no such table.
    pub fn limits(&self, name: &str) -> Result<Limits, RouterError> {
        Ok(self.table(name)?.limits)
    }

    /// Whether a table can have these limits.
    ///
    /// # Errors
    /// When one is out of range.
    pub fn check(&self, limits: Limits) -> Result<(), RouterError> {
        check(limits, self.buffers)
    }

    /// Sets the limits of a table. A shard, of which there are four, has its share of them; what is too much already goes with the next
    /// fragment that comes to it.
    ///
    /// # Errors
    /// When there is no such table, or a limit is out of range.
    pub fn set_limits(&mut self, name: &str, limits: Limits) -> Result<(), RouterError> {
        self.check(limits)?;
        let found = self.tables.iter_mut().find(|table| table.info.name == name);
        let table = found.ok_or_else(|| no_table(name))?;
        table.limits = limits;
        table.fragments.set_limits(limits);
        Ok(())
    }

    /// How much there is and was in a table.
    ///
    /// # Errors
    /// When there is no such table.
    pub fn totals(&self, name: &str) -> Result<Totals, RouterError> {
        Ok(self.table(name)?.fragments.totals())
    }

    /// The datagrams of a table, the oldest first.
    ///
    /// # Errors
    /// When there is no such table.
    pub fn views(&self, name: &str) -> Result<Vec<DatagramView>, RouterError> {
        Ok(self.table(name)?.fragments.views())
    }

    /// The nodes that are to be told that some datagram has waited too long at `now`.
    pub fn due(&self, now: u64) -> impl Iterator<Item = &'static str> {
        let due = move |table: &&Table| table.fragments.due().is_some_and(|due| due <= now);
        self.tables.iter().filter(due).map(|table| table.info.expire)
    }

    fn table(&self, name: &str) -> Result<&Table, RouterError> {
        self.tables.iter().find(|table| table.info.name == name).ok_or_else(|| no_table(name))
    }
}

fn no_table(name: &str) -> RouterError {
    RouterError(format!("this router keeps no fragments for {name}"))
}

/// Changes the limits of a table by a number, for tests; 0: all are as nobody said otherwise.
///
/// # Errors
/// When there are no tables.
pub fn vary(router: &mut Router, n: u64) -> Result<(), RouterError> {
    let all = router.state_mut::<Reassembly>()?;
    if n == 0 {
        let usual: Vec<_> = all.tables.iter().map(|t| (t.info.name, all.usual_of(t.info))).collect();
        return usual.into_iter().try_for_each(|(name, limits)| all.set_limits(name, limits));
    }
    let one_of = |shift: u32, values: &[u64]| values[(n >> shift) as usize % values.len()];
    let name = all.tables[n as usize % all.tables.len()].info.name;
    let limits = Limits {
        datagrams: one_of(8, &[1, 2, 100]) as u32,
        fragments: one_of(16, &[1, 2, 8]) as u32,
        buffers: one_of(24, &[1, 4, 70]) as u32,
        timeout: one_of(32, &[1, 30]) * SECOND,
    };
    all.set_limits(name, limits)
}

/// Tells a worker when the time of some datagrams is over. One that cannot be told now is told in the next turn, which comes soon enough.
pub fn expire(router: &mut Router, now: u64) -> Option<u64> {
    let all = router.state::<Reassembly>().ok()?;
    let due: Vec<&'static str> = all.due(now).collect();
    for node in due {
        // From the reserve: it may be the waiting fragments that have all buffers.
        if let Some(message) = router.last_packet(&[]) {
            router.send(0, node, message);
        }
    }
    None
}

//! The main thread's list of a router's tables of fragments. A table is named after the node that fills it.

use std::fmt;
use std::sync::Arc;

use graph::{Builder, GraphError};

use model::reason::Reason;
use net::router::{Hooks, Router, RouterError};

use crate::fragment::MOST_FRAGMENTS;
use crate::kind::{KindInfo, SECOND};
use crate::shards::{DatagramView, Fragments, Shard, Shards, Totals};
use crate::waiting::Limits;

/// Maximum number of tables of a router.
const MOST_TABLES: usize = 3;
/// By default, the fragments of each table may use 1/`SHARE` of the buffers.
const SHARE: usize = 8;
/// The operator can allow the fragments of one table at most 1/`LARGEST_SHARE` of the buffers. So all tables together leave at
/// least half of the buffers to other packets.
const LARGEST_SHARE: usize = 2 * MOST_TABLES;
/// Maximum number of datagrams of one table.
pub(crate) const MOST_DATAGRAMS: u32 = 1 << 16;
/// Maximum time in seconds that fragments may wait for the others of their datagram.
pub(crate) const MOST_SECONDS: u32 = 600;
/// A router's tables of fragments, which are a [state](Hooks::state) of the main thread.
pub struct Reassembly {
    tables: Vec<Table>,
    /// Number of packet buffers at the start.
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

/// Adds a table of fragments. `make` makes one shard, with the given limits. Returns the table, for the nodes that share it.
///
/// # Errors
/// Fails if there are too many tables, or if too many nodes already receive messages from the main thread.
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
            "{}: too many tables of fragments share the buffers of the router: at most {MOST_TABLES} are possible",
            info.name
        )));
    }
    let limits = all.usual_of(info);
    let shards = Arc::new(Shards::new(limits, make));
    all.tables.push(Table { info, limits, fragments: shards.clone() });
    Ok(shards)
}

/// Checks the limits of a table. `buffers` is the number of buffers of the router.
///
/// # Errors
/// Fails if a limit is out of range.
pub fn check(limits: Limits, buffers: usize) -> Result<(), RouterError> {
    let refuse =
        |what: &str, most: u64| Err(RouterError::new(format!("{what}: 1 to {most}")).because(Reason::Value));
    let most = u32::try_from(buffers / LARGEST_SHARE).unwrap_or(u32::MAX);
    if !(1..=MOST_DATAGRAMS).contains(&limits.datagrams) {
        return refuse("datagrams that may wait", u64::from(MOST_DATAGRAMS));
    }
    if !(1..=MOST_FRAGMENTS as u32).contains(&limits.fragments) {
        return refuse("fragments of one datagram", MOST_FRAGMENTS as u64);
    }
    if !(1..=most).contains(&limits.buffers) {
        return refuse("buffers of waiting fragments", u64::from(most));
    }
    if !(SECOND..=u64::from(MOST_SECONDS) * SECOND).contains(&limits.timeout) {
        return refuse("seconds until a datagram expires", u64::from(MOST_SECONDS));
    }
    Ok(())
}

impl Reassembly {
    /// Returns the default limits of a table.
    ///
    /// # Errors
    /// Fails if there is no such table.
    pub fn usual(&self, name: &str) -> Result<Limits, RouterError> {
        Ok(self.usual_of(self.table(name)?.info))
    }

    fn usual_of(&self, info: &KindInfo) -> Limits {
        let share = u32::try_from(self.buffers / SHARE).unwrap_or(u32::MAX);
        Limits { buffers: info.usual.buffers.min(share), ..info.usual }
    }

    /// Returns the limits of a table.
    ///
    /// # Errors
    /// Fails if there is no such table.
    pub fn limits(&self, name: &str) -> Result<Limits, RouterError> {
        Ok(self.table(name)?.limits)
    }

    /// Checks the limits of a table.
    ///
    /// # Errors
    /// Fails if a limit is out of range.
    pub fn check(&self, limits: Limits) -> Result<(), RouterError> {
        check(limits, self.buffers)
    }

    /// Sets the limits of a table. Each of the four shards gets its share of them. Drops nothing yet: a shard evicts what exceeds the new
    /// limits when it stores the next datagrams and fragments.
    ///
    /// # Errors
    /// Fails if there is no such table, or a limit is out of range.
    pub fn set_limits(&mut self, name: &str, limits: Limits) -> Result<(), RouterError> {
        self.check(limits)?;
        let found = self.tables.iter_mut().find(|table| table.info.name == name);
        let table = found.ok_or_else(|| no_table(name))?;
        table.limits = limits;
        table.fragments.set_limits(limits);
        Ok(())
    }

    /// Returns a table's current contents, and how many datagrams it has completed.
    ///
    /// # Errors
    /// Fails if there is no such table.
    pub fn totals(&self, name: &str) -> Result<Totals, RouterError> {
        Ok(self.table(name)?.fragments.totals())
    }

    /// Returns the datagrams of a table, the oldest first.
    ///
    /// # Errors
    /// Fails if there is no such table.
    pub fn views(&self, name: &str) -> Result<Vec<DatagramView>, RouterError> {
        Ok(self.table(name)?.fragments.views())
    }

    /// Returns the nodes that must get a message because datagrams of their tables have expired at `now` (nanoseconds).
    pub fn due(&self, now: u64) -> impl Iterator<Item = &'static str> {
        let due = move |table: &&Table| table.fragments.due().is_some_and(|due| due <= now);
        self.tables.iter().filter(due).map(|table| table.info.expire)
    }

    fn table(&self, name: &str) -> Result<&Table, RouterError> {
        self.tables.iter().find(|table| table.info.name == name).ok_or_else(|| no_table(name))
    }
}

fn no_table(name: &str) -> RouterError {
    RouterError::new(format!("this router has no table of fragments for {name}"))
}

/// For tests: sets the limits of one table. The number `n` selects the table and the limits. If `n` is 0, resets the limits of all tables
/// to the defaults.
///
/// # Errors
/// Fails if there are no tables.
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

/// Sends the first worker a message for each table with expired datagrams. If sending fails, the next iteration of the main thread's loop
/// tries again, which is soon enough. Always returns `None`, which requests no call at a certain time.
pub fn expire(router: &mut Router, now: u64) -> Option<u64> {
    let all = router.state::<Reassembly>().ok()?;
    let due: Vec<&'static str> = all.due(now).collect();
    for node in due {
        // The message uses a reserved buffer: the waiting fragments may have all others.
        if let Some(message) = router.last_packet(&[]) {
            router.send(0, node, message);
        }
    }
    None
}

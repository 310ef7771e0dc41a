//! The VRFs: maps the table numbers that operators use to the indexes that the data plane uses.
//!
//! A VRF has a **table** number (`u32`): its ID in commands, files and messages. It also has a **fib** index (`u16`): its index in lookup
//! tables and packet records. Only this module maps one to the other. VRF 0 has index 0.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use model::reason::Reason;

use super::{Router, RouterError};

/// Maximum number of VRFs.
pub const MAX_VRFS: usize = 1 << 16;
/// Minimum time between the removal of a VRF and the reuse of its index for another VRF, as long as there are new indexes. Held packets
/// contain the index of their VRF, and no packet is held that long.
const REST: Duration = Duration::from_secs(120);

/// The VRFs by ID and by index.
pub struct Vrfs {
    by_id: BTreeMap<u32, u16>,
    /// The ID of the VRF with each index. For a free index, the ID of the last VRF that had the index.
    ids: Vec<u32>,
    /// The free indexes, each with the time when it became free, the oldest first.
    free: VecDeque<(Instant, u16)>,
}

impl Default for Vrfs {
    fn default() -> Vrfs {
        Vrfs { by_id: BTreeMap::from([(0, 0)]), ids: vec![0], free: VecDeque::new() }
    }
}

impl Vrfs {
    /// Returns a VRF's index; `None` if there is no such VRF.
    pub fn fib(&self, table: u32) -> Option<u16> {
        self.by_id.get(&table).copied()
    }

    /// Returns the ID of the VRF with this index. If the VRF was removed, returns the ID that it had. For an index that was never used,
    /// returns the index.
    pub fn table(&self, fib: u16) -> u32 {
        self.ids.get(usize::from(fib)).copied().unwrap_or(u32::from(fib))
    }

    /// Returns the ID and index of each VRF with an ID of at least `first`, in order.
    pub fn from(&self, first: u32) -> impl Iterator<Item = (u32, u16)> {
        self.by_id.range(first..).map(|(table, fib)| (*table, *fib))
    }

    /// Adds a VRF. Returns its index, or `None` if all indexes are in use. If a removed VRF is added again, it gets the same index as
    /// before if this index is free. Otherwise it gets the index that has been free for longest, if that is at least [`REST`], or else a
    /// new index. If there are no new indexes left, [`REST`] does not apply.
    fn add(&mut self, table: u32, now: Instant) -> Option<u16> {
        if let Some(fib) = self.fib(table) {
            return Some(fib);
        }
        let own = self.free.iter().position(|(_, fib)| self.table(*fib) == table);
        let may = |since: Instant| self.ids.len() == MAX_VRFS || now.saturating_duration_since(since) >= REST;
        let oldest = || self.free.front().filter(|(since, _)| may(*since)).map(|_| 0);
        let fib = match own.or_else(oldest).and_then(|at| self.free.remove(at)) {
            Some((_, fib)) => fib,
            None => {
                let fib = u16::try_from(self.ids.len()).ok()?;
                self.ids.push(table);
                fib
            }
        };
        *self.ids.get_mut(usize::from(fib))? = table;
        self.by_id.insert(table, fib);
        Some(fib)
    }

    /// Removes a VRF.
    fn remove(&mut self, table: u32, now: Instant) {
        self.free.extend(self.by_id.remove(&table).map(|fib| (now, fib)));
    }
}

impl Router {
    /// Returns the VRFs.
    pub fn vrfs(&self) -> &Vrfs {
        &self.vrfs
    }

    /// Returns the index of a VRF.
    ///
    /// # Errors
    /// If there is no such VRF.
    pub fn fib(&self, table: u32) -> Result<u16, RouterError> {
        self.vrfs
            .fib(table)
            .ok_or_else(|| RouterError::new(format!("there is no table {table}")).because(Reason::NoTable))
    }

    /// Adds a VRF for both families. Returns its index. If the VRF exists, nothing changes.
    ///
    /// # Errors
    /// If there are too many VRFs, or there is no memory for the lookup tables.
    pub fn add_table(&mut self, table: u32) -> Result<u16, RouterError> {
        if let Some(fib) = self.vrfs.fib(table) {
            return Ok(fib);
        }
        let full = || {
            RouterError::new(format!(
                "table {table} cannot be added: the maximum of {MAX_VRFS} tables is reached"
            ))
        };
        let fib = self.vrfs.add(table, Instant::now()).ok_or_else(full)?;
        let Err(e) = self.add_fib(fib) else { return Ok(fib) };
        self.vrfs.remove(table, Instant::now());
        if e.kind() == io::ErrorKind::OutOfMemory {
            self.budget.count_no_memory();
            return Err(RouterError::new(format!("no memory for the lookup table of table {table}: {e}")));
        }
        Err(RouterError::new(format!("table {table} cannot be added: {e}")))
    }

    /// Adds the lookup tables of a VRF for both families. If one cannot be added, adds neither.
    fn add_fib(&mut self, fib: u16) -> io::Result<()> {
        self.ip4.routes.add_table(fib)?;
        let added = self.ip6.routes.add_table(fib);
        if added.is_err() {
            self.ip4.routes.remove_table(fib).map_err(io::Error::other)?;
        }
        added
    }

    /// Removes an unused VRF. Its memory is freed once no worker can read its tables.
    ///
    /// # Errors
    /// If the VRF does not exist, is VRF 0, or is used by an interface, a route or a track.
    pub fn remove_table(&mut self, table: u32) -> Result<(), RouterError> {
        let fib = self.fib(table)?;
        let in_use = |why: String| {
            RouterError::new(format!("table {table} cannot be removed: {why}")).because(Reason::InUse)
        };
        if let Some(i) = self.interfaces().find(|i| i.fib == fib && fib != 0) {
            return Err(in_use(format!("interface {} uses it", i.name)));
        }
        let ids = |fib| self.vrfs.table(fib);
        self.ip4.routes.may_go(fib, ids).map_err(in_use)?;
        self.ip6.routes.may_go(fib, ids).map_err(in_use)?;
        self.ip4.routes.remove_table(fib)?;
        self.ip6.routes.remove_table(fib)?;
        self.vrfs.remove(table, Instant::now());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_are_equal_modulo_65536_have_different_indexes() {
        let (mut vrfs, now) = (Vrfs::default(), Instant::now());
        let ids = [0, 7, 7 + (1 << 16), 1 << 16, u32::MAX];
        let fibs: Vec<u16> = ids.iter().map(|id| vrfs.add(*id, now).unwrap()).collect();
        assert_eq!(fibs, [0, 1, 2, 3, 4]);
        assert!(
            ids.iter().zip(&fibs).all(|(id, fib)| vrfs.table(*fib) == *id && vrfs.fib(*id) == Some(*fib))
        );
        assert_eq!(vrfs.add(u32::MAX, now), Some(4), "it is there already");
        assert_eq!(vrfs.from(8).collect::<Vec<_>>(), [(1 << 16, 3), (7 + (1 << 16), 2), (u32::MAX, 4)]);
    }

    #[test]
    fn free_index_rests_before_another_vrf_gets_it() {
        let (mut vrfs, start) = (Vrfs::default(), Instant::now());
        let [one, two] = [11, 12].map(|id| vrfs.add(id, start).unwrap());
        vrfs.remove(11, start);
        assert_eq!((vrfs.fib(11), vrfs.table(one)), (None, 11), "traces still show its ID");
        assert_eq!(vrfs.add(13, start), Some(3), "packets of table 11 may still be on their way");
        assert_eq!(vrfs.add(11, start), Some(one), "it comes back");
        vrfs.remove(11, start);
        vrfs.remove(12, start + REST);
        assert_eq!(vrfs.add(14, start + REST), Some(one), "it has rested");
        assert_eq!((vrfs.add(15, start + REST), vrfs.table(one)), (Some(4), 14));
        assert_eq!(vrfs.add(16, start + 2 * REST), Some(two));
    }

    #[test]
    fn all_indexes_can_be_used() {
        let (mut vrfs, now) = (Vrfs::default(), Instant::now());
        let first = u32::MAX - MAX_VRFS as u32 + 2;
        assert!(
            (first..=u32::MAX).zip(1u32..).all(|(id, fib)| vrfs.add(id, now).map(u32::from) == Some(fib))
        );
        assert_eq!(vrfs.add(5, now), None);
        vrfs.remove(first, now);
        assert_eq!((vrfs.add(5, now), vrfs.add(6, now)), (Some(1), None), "no index is left that has rested");
    }
}

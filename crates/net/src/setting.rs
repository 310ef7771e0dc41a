//! Settings of features for interfaces. A setting has one typed value per interface, which workers read. The value also says which features
//! in arcs are enabled on the interface. A setting also includes the feature's counters per interface.
//!
//! A feature declares its setting while the graph is built ([`Hooks::setting`](crate::router::Hooks::setting)). The router then stores the
//! values, undoes failed changes, resets the value when its interface is removed, and reads the counters, all without code that is specific
//! to the feature.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt::Debug;
use std::io;

use infra::class_a::{SlotReader, SlotWriter, slots};
use infra::counters::CounterSet;
use infra::quiesce::Domain;

use crate::tables::MAX_INTERFACES;

/// The state of one feature in an arc on an interface: enabled or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The arc.
    pub arc: &'static str,
    /// The feature.
    pub feature: &'static str,
    /// True if the feature is enabled.
    pub on: bool,
}

/// A feature's setting for one interface. If it was never set on an interface, the default value applies.
pub trait Setting: Clone + Debug + Default + PartialEq + Send + Sync + 'static {
    /// The feature's counters per interface: a [`CounterSet`], or `()` if it has none.
    type Counts: Counts;
    /// The name of the setting and its counters.
    const COUNTED: &'static str;

    /// Returns a switch for each feature that the setting controls. A switch is on if this value enables the feature. Every value
    /// returns switches for the same features.
    fn switches(&self) -> Vec<Switch>;
}

/// Counters per interface.
pub trait Counts: Clone + Send + Sync + 'static {
    /// Creates counters for indexes below `capacity`.
    fn new(name: &str, capacity: u32) -> Self;
    /// Clears the counters of an index.
    fn clear(&self, index: u32);
    /// Returns the total counts of an index. Clearing the counters does not change them.
    fn totals(&self, index: u32) -> Vec<u64>;
    /// Returns the counts of an index since its last clear.
    fn since_clear(&self, index: u32) -> Vec<u64>;
}

impl<const N: usize> Counts for CounterSet<N> {
    fn new(name: &str, capacity: u32) -> Self {
        CounterSet::new(name, capacity)
    }

    fn clear(&self, index: u32) {
        CounterSet::clear(self, index);
    }

    fn totals(&self, index: u32) -> Vec<u64> {
        self.total(index).to_vec()
    }

    fn since_clear(&self, index: u32) -> Vec<u64> {
        self.read(index).to_vec()
    }
}

/// No counters.
impl Counts for () {
    fn new(_: &str, _: u32) -> Self {}

    fn clear(&self, _: u32) {}

    fn totals(&self, _: u32) -> Vec<u64> {
        Vec::new()
    }

    fn since_clear(&self, _: u32) -> Vec<u64> {
        Vec::new()
    }
}

/// The read handles of a setting, for workers. Cheap to clone.
pub struct Attached<T: Setting> {
    /// The value of each interface. An interface without an entry has the default value.
    pub values: SlotReader<T>,
    /// The counters of each interface.
    pub counts: T::Counts,
}

impl<T: Setting> Clone for Attached<T> {
    fn clone(&self) -> Self {
        Attached { values: self.values.clone(), counts: self.counts.clone() }
    }
}

/// The write handle of a setting, for the main thread.
pub(crate) struct Column<T: Setting> {
    writer: SlotWriter<T>,
    attached: Attached<T>,
}

impl<T: Setting> Column<T> {
    /// Returns the value for an interface.
    pub(crate) fn get(&self, index: u32) -> T {
        self.writer.get(index).cloned().unwrap_or_default()
    }

    /// Sets the value for an interface. Workers see it at once.
    ///
    /// # Errors
    /// If there is no memory for the value.
    pub(crate) fn put(&mut self, index: u32, value: T) -> Result<(), String> {
        if value == T::default() {
            self.writer.remove(index);
            return Ok(());
        }
        self.writer.set(index, value).map_err(|e| e.to_string())
    }
}

/// The operations on a setting that do not depend on its type.
trait AnyColumn: Any {
    fn clear_counts(&self, index: u32);
    fn totals(&self, index: u32) -> Vec<u64>;
    fn forget(&mut self, index: u32);
}

impl<T: Setting> AnyColumn for Column<T> {
    fn clear_counts(&self, index: u32) {
        self.attached.counts.clear(index);
    }

    fn totals(&self, index: u32) -> Vec<u64> {
        self.attached.counts.totals(index)
    }

    fn forget(&mut self, index: u32) {
        self.writer.remove(index);
    }
}

/// For each setting's type, the counter totals of an interface index at the time when the interface was
/// added.
pub(crate) type Totals = HashMap<TypeId, Vec<u64>>;

/// The settings of all features.
pub struct Settings {
    domain: Domain,
    columns: HashMap<TypeId, Box<dyn AnyColumn>>,
}

impl Settings {
    pub(crate) fn new(domain: &Domain) -> Settings {
        Settings { domain: domain.clone(), columns: HashMap::new() }
    }

    /// Declares a setting, unless it is declared already. Returns the handle by which nodes read it.
    ///
    /// # Errors
    /// If address space for the setting cannot be reserved.
    pub(crate) fn declare<T: Setting>(&mut self) -> io::Result<Attached<T>> {
        if let Some(column) = self.column::<T>() {
            return Ok(column.attached.clone());
        }
        let (writer, values) = slots(&self.domain, MAX_INTERFACES)?;
        let attached = Attached { values, counts: T::Counts::new(T::COUNTED, MAX_INTERFACES) };
        self.columns.insert(TypeId::of::<T>(), Box::new(Column { writer, attached: attached.clone() }));
        Ok(attached)
    }

    /// Returns the handle by which nodes read a setting, if a feature declared the setting.
    pub(crate) fn attached<T: Setting>(&self) -> Option<&Attached<T>> {
        self.column().map(|column| &column.attached)
    }

    pub(crate) fn column<T: Setting>(&self) -> Option<&Column<T>> {
        let column: &dyn Any = &**self.columns.get(&TypeId::of::<T>())?;
        column.downcast_ref()
    }

    pub(crate) fn column_mut<T: Setting>(&mut self) -> Option<&mut Column<T>> {
        let column: &mut dyn Any = &mut **self.columns.get_mut(&TypeId::of::<T>())?;
        column.downcast_mut()
    }

    /// Clears the counters of all settings on an interface.
    pub(crate) fn clear_counts(&self, index: u32) {
        self.columns.values().for_each(|column| column.clear_counts(index));
    }

    /// Returns the counter totals of all settings for an interface index. Clearing the counters does not change the totals.
    pub(crate) fn totals(&self, index: u32) -> Totals {
        self.columns.iter().map(|(id, column)| (*id, column.totals(index))).collect()
    }

    /// Resets all settings of a removed interface to their defaults.
    pub(crate) fn forget(&mut self, index: u32) {
        self.columns.values_mut().for_each(|column| column.forget(index));
    }
}

#[cfg(test)]
mod tests {
    use graph::{Builder, GraphError};

    use super::*;
    use crate::Tables;
    use crate::router::{Hooks, Parts, Router, Sizes};
    use crate::testing;

    /// A test setting. An odd level enables a feature that exists, and a level above 9 a feature that does not exist.
    #[derive(Clone, Debug, Default, PartialEq)]
    struct Level(u32);

    impl Setting for Level {
        type Counts = CounterSet<1>;
        const COUNTED: &'static str = "/feature/level";

        fn switches(&self) -> Vec<Switch> {
            let known = Switch { arc: "ip4-unicast", feature: testing::TOY, on: self.0 % 2 == 1 };
            let unknown = Switch { arc: "ip4-unicast", feature: "nobodys", on: true };
            [Some(known), (self.0 > 9).then_some(unknown)].into_iter().flatten().collect()
        }
    }

    fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
        crate::testing::install(b, t, hooks)?;
        testing::install_toy(b);
        hooks.setting::<Level>().map(drop)
    }

    fn router() -> Router {
        let Parts { mut router, .. } = Router::build(install, &Sizes { buffers: 256, workers: 1 }).unwrap();
        router.add_loopback("loop0", wire::Mac([2, 0, 0, 0, 0, 1])).unwrap();
        router
    }

    fn is_on(r: &Router) -> bool {
        r.features(0).into_iter().any(|(_, features)| features.contains(&(testing::TOY, true)))
    }

    #[test]
    fn a_setting_switches_its_features_and_is_read_by_workers() {
        let mut r = router();
        let values = r.attached::<Level>().unwrap().values.clone();
        let seen = |r: &Router| {
            let mut participant = r.participant();
            let section = participant.enter();
            values.get(section.guard(), 0).cloned()
        };
        for (level, on) in [(1, true), (3, true), (2, false), (0, false)] {
            r.set(0, Level(level)).unwrap();
            assert_eq!((r.setting::<Level>(0), is_on(&r)), (Level(level), on));
            assert_eq!(seen(&r), (level > 0).then_some(Level(level)), "the default has no entry");
        }
    }

    #[test]
    fn a_refused_setting_is_undone() {
        let mut r = router();
        r.set(0, Level(2)).unwrap();
        assert!(r.set(0, Level(11)).unwrap_err().why.contains("nobodys"));
        assert_eq!((r.setting::<Level>(0), is_on(&r)), (Level(2), false));
        assert!(r.set(7, Level(1)).unwrap_err().why.contains("no interface 7"));
        let (mut plain, _) = testing::router();
        plain.add_loopback("loop0", wire::Mac([2, 0, 0, 0, 0, 1])).unwrap();
        assert!(
            plain
                .set(0, Level(1))
                .unwrap_err()
                .why
                .contains("no feature of this router declares the setting")
        );
    }

    #[test]
    fn an_interface_inherits_neither_settings_nor_counts() {
        let mut r = router();
        let mut lane = r.attached::<Level>().unwrap().counts.lane(0).unwrap();
        r.set(0, Level(1)).unwrap();
        lane.add(0, [5]);
        r.clear_interface(0);
        lane.add(0, [2]);
        let counted = |r: &Router| r.counted::<Level>(r.interface(0).unwrap());
        assert_eq!((r.attached::<Level>().unwrap().counts.read(0), counted(&r)), ([2], vec![7]));
        r.remove_interface(0).unwrap();
        r.collect();
        assert_eq!(r.add_loopback("loop1", wire::Mac([2, 0, 0, 0, 0, 2])).unwrap(), 0);
        assert_eq!((r.setting::<Level>(0), is_on(&r), counted(&r)), (Level(0), false, vec![0]));
    }
}

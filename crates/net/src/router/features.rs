//! Settings of interfaces that features have attached.

use std::any::TypeId;

use super::{InterfaceInfo, Router, RouterError};
use crate::setting::{Attached, Counts, Setting};

impl Router {
    /// What nodes have of a setting.
    ///
    /// # Errors
    /// When no feature of this router has declared it.
    pub fn attached<T: Setting>(&self) -> Result<&Attached<T>, RouterError> {
        self.hooks.settings.attached().ok_or_else(undeclared::<T>)
    }

    /// The setting of an interface; the default, if nobody said anything of it.
    pub fn setting<T: Setting>(&self, index: u32) -> T {
        self.hooks.settings.column::<T>().map_or_else(T::default, |column| column.get(index))
    }

    /// Changes a setting of an interface, and switches features of arcs as it says.
    ///
    /// # Errors
    /// When there is no such interface, setting or feature.
    pub fn set<T: Setting>(&mut self, index: u32, value: T) -> Result<(), RouterError> {
        self.interface(index)?;
        let before = self.setting::<T>(index);
        if before == value {
            return Ok(());
        }
        let done = self.apply(index, &value);
        if done.is_err() {
            self.apply(index, &before)?;
        }
        done
    }

    fn apply<T: Setting>(&mut self, index: u32, value: &T) -> Result<(), RouterError> {
        let column = self.hooks.settings.column_mut::<T>().ok_or_else(undeclared::<T>)?;
        column.put(index, value.clone()).map_err(RouterError)?;
        let mut switches = value.switches();
        // What comes on first: nothing passes unseen in between.
        switches.sort_by_key(|switch| !switch.on);
        for switch in switches {
            let done = self.arcs.enable(switch.arc, switch.feature, index, switch.on);
            done.map_err(|e| RouterError(e.to_string()))?;
        }
        Ok(())
    }

    /// What a setting's feature has counted at an interface since that was cleared: for shows.
    pub fn counted_since_clear<T: Setting>(&self, index: u32) -> Vec<u64> {
        self.attached::<T>().map(|of| of.counts.since_clear(index)).unwrap_or_default()
    }

    /// What a setting's feature has counted at an interface since that was made, whatever was cleared: for metrics.
    pub fn counted<T: Setting>(&self, i: &InterfaceInfo) -> Vec<u64> {
        let now = self.attached::<T>().map(|of| of.counts.totals(i.index)).unwrap_or_default();
        let before = i.settings_before.get(&TypeId::of::<T>()).into_iter().flatten();
        now.into_iter().zip(before).map(|(now, before)| now.wrapping_sub(*before)).collect()
    }
}

fn undeclared<T>() -> RouterError {
    RouterError(format!("no feature of this router has {}", std::any::type_name::<T>()))
}

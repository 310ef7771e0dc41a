//! Interface settings that features declare: reading and changing them.

use std::any::TypeId;

use super::{InterfaceInfo, Router, RouterError};
use crate::setting::{Attached, Counts, Setting};

impl Router {
    /// Returns the handle by which nodes read a setting.
    ///
    /// # Errors
    /// If no feature of this router has declared it.
    pub fn attached<T: Setting>(&self) -> Result<&Attached<T>, RouterError> {
        self.hooks.settings.attached().ok_or_else(undeclared::<T>)
    }

    /// Returns the setting of an interface, or the default if it was never set.
    pub fn setting<T: Setting>(&self, index: u32) -> T {
        self.hooks.settings.column::<T>().map_or_else(T::default, |column| column.get(index))
    }

    /// Changes a setting of an interface, and enables or disables the features in arcs that belong to the
    /// setting.
    ///
    /// # Errors
    /// If the interface does not exist, no feature declared the setting, an arc lacks a feature of the setting, or there is no memory for
    /// the value.
    pub fn set<T: Setting>(&mut self, index: u32, value: T) -> Result<(), RouterError> {
        self.interface(index)?;
        let before = self.setting::<T>(index);
        if before == value {
            return Ok(());
        }
        if let Err(refused) = self.apply(index, &value) {
            self.apply(index, &before)?;
            return Err(refused);
        }
        self.was_set(index, &before);
        Ok(())
    }

    fn apply<T: Setting>(&mut self, index: u32, value: &T) -> Result<(), RouterError> {
        let column = self.hooks.settings.column_mut::<T>().ok_or_else(undeclared::<T>)?;
        column.put(index, value.clone()).map_err(RouterError::new)?;
        let mut switches = value.switches();
        // Features are enabled before others are disabled, so that no packet passes without any of them in
        // between.
        switches.sort_by_key(|switch| !switch.on);
        for switch in switches {
            let done = self.arcs.enable(switch.arc, switch.feature, index, switch.on);
            done.map_err(|e| RouterError::new(e.to_string()))?;
        }
        Ok(())
    }

    /// Returns the counters of a setting on an interface since the last clear, for show commands.
    pub fn counted_since_clear<T: Setting>(&self, index: u32) -> Vec<u64> {
        self.attached::<T>().map(|of| of.counts.since_clear(index)).unwrap_or_default()
    }

    /// Returns the counters of a setting since the interface was added, for metrics. Clearing counters does
    /// not change them.
    pub fn counted<T: Setting>(&self, i: &InterfaceInfo) -> Vec<u64> {
        let now = self.attached::<T>().map(|of| of.counts.totals(i.index)).unwrap_or_default();
        let before = i.settings_before.get(&TypeId::of::<T>()).into_iter().flatten();
        now.into_iter().zip(before).map(|(now, before)| now.wrapping_sub(*before)).collect()
    }
}

fn undeclared<T>() -> RouterError {
    RouterError::new(format!("no feature of this router declares the setting {}", std::any::type_name::<T>()))
}

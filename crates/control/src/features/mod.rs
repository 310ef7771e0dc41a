//! What configuration, command line and metrics know of features that attach a setting to interfaces: one file a feature, and
//! one line in [`KINDS`]. Nothing else here names a feature.

mod mss;
mod urpf;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::marker::PhantomData;

use net::ip::{Mss, PerFamily, Urpf};
use net::router::{InterfaceInfo, Router, RouterError};
use net::setting::Setting;

use crate::cli::Registry;
use crate::commands::Context;
use crate::config::{Fields, Reader, Text};
use model::metrics::{Lines, Metric};

/// Every feature that has a setting, in the order in which they are written.
pub(crate) static KINDS: &[&dyn Kind] =
    &[&Of::<PerFamily<Urpf>>(PhantomData), &Of::<PerFamily<Mss>>(PhantomData)];

/// A setting with its front ends.
pub(crate) trait Configured: Setting {
    /// The metrics of its feature.
    const METRICS: &'static [&'static Metric];

    /// Declares its commands.
    fn register(r: &mut Registry<Context>);
    /// Reads it from the fields of an interface in a YAML file.
    fn read(r: &mut Reader, fields: &mut Fields<'_>) -> Self;
    /// Writes these fields.
    fn write(&self, to: &mut Text<'_>);
    /// The commands that set it.
    fn dump(&self, interface: &str) -> Vec<String>;
    /// How it is said that a feature of an arc is on, if this setting switches it.
    fn way(feature: &str, interface: &str) -> Option<String>;
    /// Adds what its metrics are of an interface.
    fn collect(router: &Router, interface: &InterfaceInfo, out: &mut Lines);
    /// Any value, the default among them.
    #[cfg(test)]
    fn any() -> proptest::strategy::BoxedStrategy<Self>;
}

/// The metrics of all features.
pub(crate) fn metrics() -> impl Iterator<Item = &'static Metric> {
    KINDS.iter().flat_map(|kind| kind.metrics().iter().copied())
}

/// Adds what the metrics of all features are of an interface.
pub(crate) fn collect(router: &Router, interface: &InterfaceInfo, lines: &mut Lines) {
    KINDS.iter().for_each(|kind| kind.collect(router, interface, lines));
}

/// A kind of setting, whatever its type.
pub(crate) trait Kind: Sync {
    /// Its name, as its counters have it.
    fn name(&self) -> &'static str;
    fn metrics(&self) -> &'static [&'static Metric];
    fn register(&self, r: &mut Registry<Context>);
    fn read(&self, r: &mut Reader, fields: &mut Fields<'_>, to: &mut Attached);
    /// Gives an interface the new value, if it has another one.
    ///
    /// # Errors
    /// As [`Router::set`].
    fn apply(
        &self,
        new: &Attached,
        old: &Attached,
        router: &mut Router,
        index: u32,
    ) -> Result<(), RouterError>;
    fn way(&self, feature: &str, interface: &str) -> Option<String>;
    fn collect(&self, router: &Router, interface: &InterfaceInfo, out: &mut Lines);
    /// What the router has, for tests to compare.
    #[cfg(test)]
    fn shown(&self, router: &Router, index: u32) -> String;
    #[cfg(test)]
    fn any(&self) -> proptest::strategy::BoxedStrategy<Attached>;
}

struct Of<T>(PhantomData<fn() -> T>);

impl<T: Configured> Kind for Of<T> {
    fn name(&self) -> &'static str {
        T::COUNTED
    }

    fn metrics(&self) -> &'static [&'static Metric] {
        T::METRICS
    }

    fn register(&self, r: &mut Registry<Context>) {
        T::register(r);
    }

    fn read(&self, r: &mut Reader, fields: &mut Fields<'_>, to: &mut Attached) {
        to.put(T::read(r, fields));
    }

    fn apply(
        &self,
        new: &Attached,
        old: &Attached,
        router: &mut Router,
        index: u32,
    ) -> Result<(), RouterError> {
        let value = new.get::<T>();
        if value == old.get() { Ok(()) } else { router.set(index, value) }
    }

    fn way(&self, feature: &str, interface: &str) -> Option<String> {
        T::way(feature, interface)
    }

    fn collect(&self, router: &Router, interface: &InterfaceInfo, out: &mut Lines) {
        T::collect(router, interface, out);
    }

    #[cfg(test)]
    fn shown(&self, router: &Router, index: u32) -> String {
        format!("{:?}", router.setting::<T>(index))
    }

    #[cfg(test)]
    fn any(&self) -> proptest::strategy::BoxedStrategy<Attached> {
        use proptest::strategy::Strategy;
        let attached = |value: T| {
            let mut attached = Attached::default();
            attached.put(value);
            attached
        };
        T::any().prop_map(attached).boxed()
    }
}

/// A value of a setting, whatever its type.
trait Value: Any + Debug + Send + Sync {
    fn copy(&self) -> Box<dyn Value>;
    fn is(&self, other: &dyn Value) -> bool;
    fn write(&self, to: &mut Text<'_>);
    fn dump(&self, interface: &str) -> Vec<String>;
}

impl<T: Configured> Value for T {
    fn copy(&self) -> Box<dyn Value> {
        Box::new(self.clone())
    }

    fn is(&self, other: &dyn Value) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }

    fn write(&self, to: &mut Text<'_>) {
        Configured::write(self, to);
    }

    fn dump(&self, interface: &str) -> Vec<String> {
        Configured::dump(self, interface)
    }
}

/// The settings that features have attached to an interface, but for those that are the default.
#[derive(Debug, Default)]
pub struct Attached(BTreeMap<&'static str, Box<dyn Value>>);

impl Clone for Attached {
    fn clone(&self) -> Attached {
        Attached(self.0.iter().map(|(name, value)| (*name, value.copy())).collect())
    }
}

impl PartialEq for Attached {
    fn eq(&self, other: &Attached) -> bool {
        let pairs = || self.0.iter().zip(&other.0);
        self.0.len() == other.0.len() && pairs().all(|(a, b)| a.0 == b.0 && a.1.is(&**b.1))
    }
}

impl Attached {
    /// The value of a setting.
    pub(crate) fn get<T: Configured>(&self) -> T {
        let value: Option<&dyn Any> = self.0.get(T::COUNTED).map(|value| &**value as &dyn Any);
        value.and_then(|value| value.downcast_ref()).cloned().unwrap_or_default()
    }

    /// Changes the value of a setting.
    pub(crate) fn put<T: Configured>(&mut self, value: T) {
        if value == T::default() {
            self.0.remove(T::COUNTED);
        } else {
            self.0.insert(T::COUNTED, Box::new(value));
        }
    }

    /// Writes all as fields of an interface in a YAML file.
    pub(crate) fn write(&self, to: &mut Text<'_>) {
        self.in_order().for_each(|value| value.write(to));
    }

    /// The commands that set all of it.
    pub(crate) fn dump(&self, interface: &str) -> Vec<String> {
        self.in_order().flat_map(|value| value.dump(interface)).collect()
    }

    fn in_order(&self) -> impl Iterator<Item = &dyn Value> {
        KINDS.iter().filter_map(|kind| self.0.get(kind.name())).map(|value| &**value)
    }

    /// Adds what `other` has.
    #[cfg(test)]
    pub(crate) fn and(mut self, other: Attached) -> Attached {
        self.0.extend(other.0);
        self
    }
}

//! Interface settings of features, as the operator configures them.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::iter;
use std::marker::PhantomData;

use model::key::Key;
use model::metrics::{Lines, Metric};
use model::schema::{Described, Row};
use model::yaml::{Fields, Reader, Text};
use serde_json::{Map, Value};

use crate::router::{InterfaceInfo, Router, RouterError};
use crate::setting::Setting;

/// A setting's part of the output of a show command for an interface.
#[derive(Debug, Default)]
pub struct Part {
    /// True if the command must list the interface because of this part, even if it would otherwise leave the interface out.
    pub insists: bool,
    /// The lines, each with its indentation.
    pub text: String,
    /// The fields of the JSON object.
    pub fields: Map<String, Value>,
}

/// A counter of a setting, as a metric of interfaces.
pub struct Counter<T> {
    /// The metric. Its first label is the interface.
    pub metric: &'static Metric,
    /// The values of its other labels.
    pub labels: &'static [&'static str],
    /// Returns true if the metric has a sample for interfaces with this value of the setting.
    pub is_used: fn(&T) -> bool,
}

/// A setting as the operator configures it. Its [schema](Described) defines its fields in an interface's section of a file. The feature
/// registers its commands.
pub trait Configured: Described + Debug + Default + Send + Sync {
    /// The type of the value that workers use. It is often the same type.
    type Setting: Setting;
    /// The counters of the setting as metrics, in the order of [`Counts::totals`](crate::setting::Counts::totals).
    const COUNTERS: &'static [Counter<Self::Setting>] = &[];
    /// The other metrics of interfaces with this setting.
    const METRICS: &'static [&'static Metric] = &[];

    /// Returns the value that this router's workers use.
    ///
    /// # Errors
    /// Fails if the configured value names an object that the router does not have.
    fn resolve(&self, router: &Router) -> Result<Self::Setting, RouterError>;
    /// Checks the value beyond the [schema](Described): commands and API requests can create values that the reader of a file would refuse.
    ///
    /// # Errors
    /// The reason why the value is invalid.
    fn validate(&self) -> Result<(), String> {
        Ok(())
    }
    /// True if only an interface that can send packets may have this value.
    fn must_send(&self) -> bool {
        false
    }
    /// Calls `to` with each object that an interface with this value needs.
    fn uses(&self, _to: &mut dyn FnMut(Key)) {}
    /// Returns the commands that set this value.
    fn dump(&self, interface: &str) -> Vec<String>;
    /// Returns a hint for the operator: how to enable `feature`, a feature of an arc, on an interface. `None` if this setting does
    /// not enable it.
    fn way(feature: &str, interface: &str) -> Option<String>;
    /// Enables or disables a feature in an arc, if this setting controls the feature. The arc and the feature are given by name. Older
    /// commands and files, from before the setting existed, use this. Returns false, and changes nothing, if the setting does not control
    /// this feature.
    fn switch_by_name(&mut self, _arc: &str, _feature: &str, _on: bool) -> bool {
        false
    }
    /// Adds an interface's samples for the other metrics of this setting.
    fn collect(_router: &Router, _interface: &InterfaceInfo, _out: &mut Lines) {}
    /// Returns the setting's part of `show ip6 interface`.
    fn in_show_ip6(&self, _router: &Router, _interface: &InterfaceInfo) -> Option<Part> {
        None
    }
    /// Makes the objects that the [examples](Self::examples) name.
    ///
    /// # Errors
    /// If an object cannot be made.
    fn make_examples(_: &mut Router) -> Result<(), RouterError> {
        Ok(())
    }
    /// Returns values for tests. Together they cover every field; the default need not be included.
    fn examples() -> Vec<Self> {
        Self::schema().examples()
    }
}

/// Operations on a setting, whatever its type.
pub(super) trait Kind: Send + Sync {
    fn name(&self) -> &'static str;
    fn read(&self, r: &mut Reader, fields: &mut Fields<'_>, to: &mut Attached);
    fn rows(&self) -> Vec<Row>;
    fn way(&self, feature: &str, interface: &str) -> Option<String>;
    fn switch_by_name(&self, arc: &str, feature: &str, on: bool, to: &mut Attached) -> bool;
    fn collect(&self, router: &Router, interface: &InterfaceInfo, out: &mut Lines);
    fn in_show_ip6(&self, of: &Attached, router: &Router, interface: &InterfaceInfo) -> Option<Part>;
    fn shown(&self, router: &Router, index: u32) -> String;
    fn make_examples(&self, router: &mut Router) -> Result<(), RouterError>;
    fn examples(&self) -> Vec<Attached>;
}

struct Of<T>(PhantomData<fn() -> T>);

/// Returns the operations on settings of this type.
pub(super) fn kind<T: Configured>() -> &'static dyn Kind {
    const { &Of::<T>(PhantomData) }
}

impl<T: Configured> Kind for Of<T> {
    fn name(&self) -> &'static str {
        T::Setting::COUNTED
    }

    fn read(&self, r: &mut Reader, fields: &mut Fields<'_>, to: &mut Attached) {
        let mut value = T::default();
        T::schema().read_into(r, fields, &mut value);
        to.put(value);
    }

    fn rows(&self) -> Vec<Row> {
        T::schema().rows("")
    }

    fn way(&self, feature: &str, interface: &str) -> Option<String> {
        T::way(feature, interface)
    }

    fn switch_by_name(&self, arc: &str, feature: &str, on: bool, to: &mut Attached) -> bool {
        let mut value: T = to.get();
        let known = value.switch_by_name(arc, feature, on);
        if known {
            to.put(value);
        }
        known
    }

    fn collect(&self, router: &Router, interface: &InterfaceInfo, out: &mut Lines) {
        if !T::COUNTERS.is_empty() {
            let value = router.setting::<T::Setting>(interface.index);
            for (counter, total) in T::COUNTERS.iter().zip(router.counted::<T::Setting>(interface)) {
                if (counter.is_used)(&value) {
                    let labels: Vec<&str> =
                        iter::once(&*interface.name).chain(counter.labels.iter().copied()).collect();
                    out.add(counter.metric, &labels, total);
                }
            }
        }
        T::collect(router, interface, out);
    }

    fn in_show_ip6(&self, of: &Attached, router: &Router, interface: &InterfaceInfo) -> Option<Part> {
        of.get::<T>().in_show_ip6(router, interface)
    }

    fn shown(&self, router: &Router, index: u32) -> String {
        format!("{:?}", router.setting::<T::Setting>(index))
    }

    fn make_examples(&self, router: &mut Router) -> Result<(), RouterError> {
        T::make_examples(router)
    }

    fn examples(&self) -> Vec<Attached> {
        let attached = |value| {
            let mut attached = Attached::default();
            attached.put(value);
            attached
        };
        T::examples().into_iter().map(attached).collect()
    }
}

/// A value of a setting, whatever its type.
trait AnyValue: Any + Debug + Send + Sync {
    fn copy(&self) -> Box<dyn AnyValue>;
    fn is(&self, other: &dyn AnyValue) -> bool;
    fn apply(&self, router: &mut Router, index: u32) -> Result<(), RouterError>;
    fn withdraw(&self, router: &mut Router, index: u32) -> Result<(), RouterError>;
    fn validate(&self) -> Result<(), String>;
    fn must_send(&self) -> bool;
    fn uses(&self, to: &mut dyn FnMut(Key));
    fn write(&self, to: &mut Text<'_>);
    fn dump(&self, interface: &str) -> Vec<String>;
}

impl<T: Configured> AnyValue for T {
    fn copy(&self) -> Box<dyn AnyValue> {
        Box::new(self.clone())
    }

    fn is(&self, other: &dyn AnyValue) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }

    fn apply(&self, router: &mut Router, index: u32) -> Result<(), RouterError> {
        let setting = self.resolve(router)?;
        router.set(index, setting)
    }

    fn withdraw(&self, router: &mut Router, index: u32) -> Result<(), RouterError> {
        router.set(index, T::Setting::default())
    }

    fn validate(&self) -> Result<(), String> {
        T::schema().valid(self)?;
        Configured::validate(self)
    }

    fn must_send(&self) -> bool {
        Configured::must_send(self)
    }

    fn uses(&self, to: &mut dyn FnMut(Key)) {
        Configured::uses(self, to);
    }

    fn write(&self, to: &mut Text<'_>) {
        T::schema().write(to, self);
    }

    fn dump(&self, interface: &str) -> Vec<String> {
        Configured::dump(self, interface)
    }
}

/// An interface's settings of features. Those with default values are left out.
#[derive(Debug, Default)]
pub struct Attached(BTreeMap<&'static str, Box<dyn AnyValue>>);

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
    /// Returns the value of a setting, or its default.
    pub fn get<T: Configured>(&self) -> T {
        let value: Option<&dyn Any> = self.0.get(T::Setting::COUNTED).map(|value| &**value as &dyn Any);
        value.and_then(|value| value.downcast_ref()).cloned().unwrap_or_default()
    }

    /// Sets the value of a setting.
    pub fn put<T: Configured>(&mut self, value: T) {
        if value == T::default() {
            self.0.remove(T::Setting::COUNTED);
        } else {
            self.0.insert(T::Setting::COUNTED, Box::new(value));
        }
    }

    /// Changes an interface's settings from `old`, the present ones, to the settings in `self`.
    ///
    /// # Errors
    /// As [`Configured::resolve`] and [`Router::set`]. Changes made before the error remain.
    pub fn apply(&self, old: &Attached, router: &mut Router, index: u32) -> Result<(), RouterError> {
        let names: BTreeSet<&str> = self.0.keys().chain(old.0.keys()).copied().collect();
        for name in names {
            match (self.0.get(name), old.0.get(name)) {
                (Some(new), Some(old)) if new.is(&**old) => {}
                (Some(new), _) => new.apply(router, index)?,
                (None, Some(old)) => old.withdraw(router, index)?,
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// Checks each value.
    ///
    /// # Errors
    /// The reason why a value is invalid.
    pub fn validate(&self) -> Result<(), String> {
        self.0.values().try_for_each(|value| value.validate())
    }

    /// True if the interface must be able to send packets.
    pub fn must_send(&self) -> bool {
        self.0.values().any(|value| value.must_send())
    }

    /// Calls `to` with each object that the interface needs.
    pub fn uses(&self, to: &mut dyn FnMut(Key)) {
        self.0.values().for_each(|value| value.uses(to));
    }

    /// Writes all settings as fields of an interface in a file.
    pub fn write(&self, to: &mut Text<'_>) {
        self.0.values().for_each(|value| value.write(to));
    }

    /// Returns the commands that set all these settings.
    pub fn dump(&self, interface: &str) -> Vec<String> {
        self.0.values().flat_map(|value| value.dump(interface)).collect()
    }

    /// Adds the settings of `other`. If both contain the same setting, the value in `other` is used.
    pub fn and(mut self, other: Attached) -> Attached {
        self.0.extend(other.0);
        self
    }
}

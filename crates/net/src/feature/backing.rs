//! Backings of interfaces other than loopbacks and VLANs: devices of drivers, and features that send frames.

use std::any::Any;
use std::fmt::{self, Debug};
use std::ops::Deref;
use std::sync::Arc;

use drivers::Device;
use drivers::af_packet::OpenError;
use model::key::Need;
use model::object::{Fact, Refused, View, World};
use model::schema::{Described, Row};
use model::yaml::{At, Fields, Reader, Text};
use wire::Mac;

use crate::interface::InterfaceKind;
use crate::objects::Host;

/// The result of opening a backing.
pub enum Opened {
    /// A driver's device. It may vanish and come back.
    Device(Device),
    /// A feature's interface: frames sent out of it go to the feature's node.
    Feature {
        /// The kind, as registered with the graph.
        kind: InterfaceKind,
        /// The Ethernet address; zeros if it has none.
        mac: Mac,
        /// The MTU: the largest network packet, in bytes.
        mtu: u16,
    },
}

/// The reason why a backing could not be opened.
pub struct Unopened {
    /// True if this machine does not have the device.
    pub missing: bool,
    /// The message.
    pub why: Refused,
}

impl Unopened {
    /// Returns an error other than a missing device.
    pub fn new(why: impl ToString) -> Unopened {
        Unopened { missing: false, why: Refused(why.to_string()) }
    }
}

impl From<OpenError> for Unopened {
    fn from(e: OpenError) -> Unopened {
        Unopened { missing: matches!(e, OpenError::NotFound(..)), ..Unopened::new(e) }
    }
}

/// The result of [`Backing::prepare`], for [`Backing::open`].
pub type Prepared = Option<Box<dyn Any + Send>>;

/// The reason why a backing cannot be opened, found before opening it.
pub struct Unready {
    /// The argument of the command that the error refers to.
    pub about: &'static str,
    /// The message.
    pub why: Refused,
}

/// The backing of an interface, as the operator configures it. The interface itself, with its common configuration,
/// belongs to the router.
pub trait Backing<W: World>: Any + Clone + Debug + PartialEq + Send + Sync {
    /// True for a device: it has queues, may carry VLANs, and may be waited for.
    const DEVICE: bool;

    /// Checks that an interface with this name and MTU (in bytes, if configured) can be made in the tree that `view`
    /// shows.
    ///
    /// # Errors
    /// If it cannot be made.
    fn validate(
        &self,
        _name: &str,
        _mtu: Option<u16>,
        _view: &View<'_, W>,
        _abilities: &W::Abilities,
    ) -> Result<(), Refused> {
        Ok(())
    }

    /// True if [`find`](Self::find) or [`prepare`](Self::prepare) has work to do.
    fn is_slow(&self) -> bool {
        false
    }

    /// Looks up in advance the files that a command names, on a thread that may wait for the file system. Plans do not
    /// call it, because that would delay other changes.
    ///
    /// # Errors
    /// If it could not be opened.
    fn find(&self) -> Result<(), Unready> {
        Ok(())
    }

    /// Does slow work in advance, on a separate thread.
    ///
    /// # Errors
    /// If it could not be opened.
    fn prepare(&self) -> Result<Prepared, Unready> {
        Ok(None)
    }

    /// Opens it for the interface of this name. `prepared` is the result of [`prepare`](Self::prepare); `None` when a
    /// device is reopened.
    ///
    /// # Errors
    /// If it cannot be opened.
    fn open(&self, name: &str, prepared: Prepared, world: &mut W) -> Result<Opened, Unopened>;

    /// Called after the interface with this index was made from it. The interface is down.
    ///
    /// # Errors
    /// If the backing cannot be used; the interface is then removed.
    fn made(&self, _index: u32, _world: &mut W) -> Result<(), Refused> {
        Ok(())
    }

    /// Called before the interface of this name, if any, is removed.
    fn leaves(&self, _name: &str, _world: &mut W) {}

    /// Returns the command that makes the interface.
    fn dump(&self, name: &str) -> String;

    /// True if the device can be reopened in place of `old`, keeping the interface and its configuration. The main
    /// thread then opens it without preparation. Other backings are always recreated, without this call.
    fn takes_over(&self, _old: &Self) -> bool {
        false
    }

    /// Calls `to` with each object that the interface needs.
    fn needs(&self, _to: &mut dyn FnMut(Need)) {}

    /// Calls `to` with each fact under which other objects find the interface.
    fn facts(&self, _name: &str, _to: &mut dyn FnMut(Fact)) {}

    /// Returns a copy without secrets, for readers who may not see them; `None` if it has no secrets.
    fn without_secrets(&self) -> Option<Self> {
        None
    }

    /// Reports what this machine lacks for it, one sentence each. May wait for the file system.
    fn lacks(&self, _to: &mut dyn FnMut(String)) {}
}

/// A [`Backing`] independent of its type: the operations of a [`Backed`].
pub trait AnyBacking<W: World>: Any + Debug + Send + Sync {
    /// True if `other` has the same type, and is equal.
    fn is(&self, other: &Backed<W>) -> bool;
    /// As [`Backing::DEVICE`].
    fn is_device(&self) -> bool;
    /// As [`Backing::validate`].
    ///
    /// # Errors
    /// If the interface cannot be made.
    fn validate(
        &self,
        name: &str,
        mtu: Option<u16>,
        view: &View<'_, W>,
        abilities: &W::Abilities,
    ) -> Result<(), Refused>;
    /// As [`Backing::is_slow`].
    fn is_slow(&self) -> bool;
    /// As [`Backing::find`].
    ///
    /// # Errors
    /// If it could not be opened.
    fn find(&self) -> Result<(), Unready>;
    /// As [`Backing::prepare`].
    ///
    /// # Errors
    /// If it could not be opened.
    fn prepare(&self) -> Result<Prepared, Unready>;
    /// As [`Backing::open`].
    ///
    /// # Errors
    /// If it cannot be opened.
    fn open(&self, name: &str, prepared: Prepared, world: &mut W) -> Result<Opened, Unopened>;
    /// As [`Backing::made`].
    ///
    /// # Errors
    /// If the backing cannot be used.
    fn made(&self, index: u32, world: &mut W) -> Result<(), Refused>;
    /// As [`Backing::leaves`].
    fn leaves(&self, name: &str, world: &mut W);
    /// As [`Backing::dump`].
    fn dump(&self, name: &str) -> String;
    /// As [`Backing::takes_over`]; false if `old` has another type.
    fn takes_over(&self, old: &Backed<W>) -> bool;
    /// As [`Backing::needs`].
    fn needs(&self, to: &mut dyn FnMut(Need));
    /// As [`Backing::facts`].
    fn facts(&self, name: &str, to: &mut dyn FnMut(Fact));
    /// As [`Backing::without_secrets`].
    fn without_secrets(&self) -> Option<Backed<W>>;
    /// As [`Backing::lacks`].
    fn lacks(&self, to: &mut dyn FnMut(String));
}

impl<W: World, T: Backing<W>> AnyBacking<W> for T {
    fn is(&self, other: &Backed<W>) -> bool {
        other.get() == Some(self)
    }

    fn is_device(&self) -> bool {
        T::DEVICE
    }

    fn validate(
        &self,
        name: &str,
        mtu: Option<u16>,
        view: &View<'_, W>,
        abilities: &W::Abilities,
    ) -> Result<(), Refused> {
        Backing::validate(self, name, mtu, view, abilities)
    }

    fn is_slow(&self) -> bool {
        Backing::is_slow(self)
    }

    fn find(&self) -> Result<(), Unready> {
        Backing::find(self)
    }

    fn prepare(&self) -> Result<Prepared, Unready> {
        Backing::prepare(self)
    }

    fn open(&self, name: &str, prepared: Prepared, world: &mut W) -> Result<Opened, Unopened> {
        Backing::open(self, name, prepared, world)
    }

    fn made(&self, index: u32, world: &mut W) -> Result<(), Refused> {
        Backing::made(self, index, world)
    }

    fn leaves(&self, name: &str, world: &mut W) {
        Backing::leaves(self, name, world);
    }

    fn dump(&self, name: &str) -> String {
        Backing::dump(self, name)
    }

    fn takes_over(&self, old: &Backed<W>) -> bool {
        old.get().is_some_and(|old| Backing::takes_over(self, old))
    }

    fn needs(&self, to: &mut dyn FnMut(Need)) {
        Backing::needs(self, to);
    }

    fn facts(&self, name: &str, to: &mut dyn FnMut(Fact)) {
        Backing::facts(self, name, to);
    }

    fn without_secrets(&self) -> Option<Backed<W>> {
        Backing::without_secrets(self).map(Backed::by)
    }

    fn lacks(&self, to: &mut dyn FnMut(String)) {
        Backing::lacks(self, to);
    }
}

/// The backing of an interface, independent of its type.
pub struct Backed<W: World>(Arc<dyn AnyBacking<W>>);

impl<W: World> Clone for Backed<W> {
    fn clone(&self) -> Backed<W> {
        Backed(Arc::clone(&self.0))
    }
}

impl<W: World> PartialEq for Backed<W> {
    fn eq(&self, other: &Backed<W>) -> bool {
        self.0.is(other)
    }
}

impl<W: World> Deref for Backed<W> {
    type Target = dyn AnyBacking<W>;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl<W: World> Debug for Backed<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Debug::fmt(&self.0, f)
    }
}

impl<W: World> Backed<W> {
    /// Wraps this backing.
    pub fn by(backing: impl Backing<W>) -> Backed<W> {
        Backed(Arc::new(backing))
    }

    /// Returns the backing, if it has this type.
    pub fn get<T: Backing<W>>(&self) -> Option<&T> {
        let any: &dyn Any = &*self.0;
        any.downcast_ref()
    }
}

/// The part of an interface's configuration that its file section reads along with the backing.
pub struct Begun<W: World> {
    /// The backing.
    pub backed: Backed<W>,
    /// The MTU, in bytes.
    pub mtu: Option<u16>,
    /// The operator's description.
    pub description: Option<String>,
}

impl<W: World> Begun<W> {
    /// Returns an interface with this backing and nothing else configured.
    pub fn by(backing: impl Backing<W>) -> Begun<W> {
        Begun { backed: Backed::by(backing), mtu: None, description: None }
    }
}

type Names = Box<dyn Fn(&str) -> Option<Result<(), Refused>> + Send + Sync>;
type ReadBacking<W> = Box<dyn Fn(&mut Reader, &str, At, &mut Fields<'_>) -> Option<Begun<W>> + Send + Sync>;
type BackingExamples<W> = Box<dyn Fn() -> Vec<(String, Backed<W>)> + Send + Sync>;
type WriteBacking<W> = Box<dyn Fn(&mut Text<'_>, &Backed<W>) + Send + Sync>;

/// One type of interface by backing: its names, and its place in the configuration file.
pub struct Interfaces<W: World> {
    /// The type in words: `a tap`.
    pub what: &'static str,
    /// The names in words: `tap0, tap1, …`.
    pub named: String,
    /// The section that configures them, if not `interfaces`. Other settings of the interface are then in `interfaces`.
    pub section: Option<&'static str>,
    /// Returns `None` for names of other types, otherwise whether the name is valid, and why not.
    pub names: Names,
    /// The map in an entry of `interfaces` that configures the backing, if any.
    pub field: Option<&'static str>,
    /// Reads the backing from the fields of an entry.
    pub read: ReadBacking<W>,
    /// True if an interface with this backing has this type.
    pub is: fn(&Backed<W>) -> bool,
    /// Writes the fields.
    pub write: WriteBacking<W>,
    /// The heading of the fields in the reference.
    pub title: String,
    /// The rows of the fields in the reference.
    pub rows: Vec<Row>,
    /// Names and backings for tests. Together they cover every field.
    pub examples: BackingExamples<W>,
}

impl<W: Host> Interfaces<W> {
    /// Returns a type with its own section, names of a prefix and a number, and the fields of `T`.
    pub fn of<T: Described + Backing<W>>(
        what: &'static str,
        section: &'static str,
        prefix: &'static str,
    ) -> Interfaces<W> {
        Interfaces {
            what,
            named: numbered(prefix),
            section: Some(section),
            names: Box::new(is_numbered::<u32>(prefix)),
            field: None,
            read: Box::new(|r, _, at, fields| T::schema().read_fields(r, at, fields).map(Begun::by)),
            is: |backed| backed.get::<T>().is_some(),
            write: Box::new(|t, backed| {
                if let Some(made) = backed.get::<T>() {
                    T::schema().write(t, made);
                }
            }),
            title: format!("`{section}`, by name"),
            rows: T::schema().rows(""),
            examples: Box::new(move || {
                let name = format!("{prefix}0");
                T::schema().examples().into_iter().map(|made| (name.clone(), Backed::by(made))).collect()
            }),
        }
    }
}

/// Returns the names of interfaces with this prefix and a number, in words.
pub fn numbered(prefix: &str) -> String {
    format!("{prefix}0, {prefix}1, …")
}

/// Returns a check for names of a prefix and a number, see [`Interfaces::names`]. Numbers that do not fit `N` are
/// invalid.
pub fn is_numbered<N: std::str::FromStr + fmt::Display>(
    prefix: &'static str,
) -> impl Fn(&str) -> Option<Result<(), Refused>> + Send + Sync {
    move |name| {
        let number = name.strip_prefix(prefix)?;
        if !number.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let why = || Refused(format!("invalid name \"{name}\": expected one of {}", numbered(prefix)));
        Some(number_of::<N>(name, prefix).map(|_| ()).ok_or_else(why))
    }
}

/// Returns the number after a prefix, if it has no leading zeros.
pub fn number_of<T: std::str::FromStr + fmt::Display>(name: &str, prefix: &str) -> Option<T> {
    let number: T = name.strip_prefix(prefix)?.parse().ok()?;
    (format!("{prefix}{number}") == name).then_some(number)
}

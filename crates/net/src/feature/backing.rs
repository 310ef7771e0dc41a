//! Backings. A backing sends and receives the frames of an interface that is neither a loopback nor a VLAN. A backing is a driver's device,
//! or a feature.

use std::any::Any;
use std::fmt::{self, Debug};
use std::ops::Deref;
use std::sync::Arc;

use drivers::af_packet::OpenError;
use drivers::{Device, Patience};
use model::key::Need;
use model::object::{Fact, Refused, View, World};
use model::reason::Reason;
use model::schema::{Described, Row};
use model::yaml::{At, Fields, Reader, Text};
use wire::Mac;

use crate::interface::InterfaceKind;
use crate::objects::Host;

/// The result of opening a backing.
pub enum Opened {
    /// A driver's device, which may vanish and return.
    Device(Device),
    /// A feature's interface. Frames sent out of it are passed to the feature's node.
    Feature {
        /// The interface kind that the feature registered while the graph was built.
        kind: InterfaceKind,
        /// The Ethernet address; zeros if the interface has none.
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
        Unopened { missing: false, why: Refused::new(why.to_string()) }
    }
}

impl From<OpenError> for Unopened {
    fn from(e: OpenError) -> Unopened {
        let missing = matches!(e, OpenError::NotFound(..));
        let Unopened { why, .. } = Unopened::new(e);
        Unopened { missing, why: if missing { why.because(Reason::Unfit) } else { why } }
    }
}

/// The result of [`Backing::prepare`], which is passed to [`Backing::open`].
pub type Prepared = Option<Box<dyn Any + Send>>;

/// The reason why opening a backing would fail, found before it is opened.
pub struct Unready {
    /// The argument of the command that the error refers to.
    pub about: &'static str,
    /// The message.
    pub why: Refused,
}

/// The backing of an interface, as the operator configures it. The interface itself and its common configuration belong to the router.
pub trait Backing<W: World>: Any + Clone + Debug + PartialEq + Send + Sync {
    /// True for a device: it has queues, may carry VLANs, and may appear after its interface is configured.
    const DEVICE: bool;

    /// Checks that an interface with this name and MTU (in bytes, if configured) can be made in the tree `view`.
    ///
    /// # Errors
    /// Returns the reason if the interface cannot be made.
    fn validate(
        &self,
        _name: &str,
        _mtu: Option<u16>,
        _view: &View<'_, W>,
        _abilities: &W::Abilities,
    ) -> Result<(), Refused> {
        Ok(())
    }

    /// True if the packets on its link have no Ethernet headers. The open device, or the kind of the feature's interface, says the same: it
    /// is point-to-point.
    fn is_bare(&self) -> bool {
        false
    }

    /// True if [`find`](Self::find) or [`prepare`](Self::prepare) has work to do.
    fn is_slow(&self) -> bool {
        false
    }

    /// Checks the files that a command names, before the command opens the backing. Runs on a thread that may wait for the file system. Not
    /// called while a change is planned, because a slow file system would delay other changes.
    ///
    /// # Errors
    /// Returns the reason why [`open`](Self::open) would fail.
    fn find(&self) -> Result<(), Unready> {
        Ok(())
    }

    /// Does the slow part of opening in advance, on a separate thread. Other changes of the configuration may wait meanwhile, so it ends when
    /// there is no more `patience` and, if a file system does not answer, after some seconds.
    ///
    /// # Errors
    /// Returns the reason why [`open`](Self::open) would fail.
    fn prepare(&self, _patience: &Patience) -> Result<Prepared, Unready> {
        Ok(None)
    }

    /// Opens the backing for the interface called `name`. `prepared` is the result of [`prepare`](Self::prepare), or `None` if that was not
    /// called: when a change is undone, the device [is taken over](Self::takes_over), or the backing is not [slow](Self::is_slow).
    ///
    /// # Errors
    /// Fails if the backing cannot be opened.
    fn open(&self, name: &str, prepared: Prepared, world: &mut W) -> Result<Opened, Unopened>;

    /// Called after an interface with this index was made from the backing. The interface is down.
    ///
    /// # Errors
    /// Fails if the backing cannot be used. The interface is then removed.
    fn made(&self, _index: u32, _world: &mut W) -> Result<(), Refused> {
        Ok(())
    }

    /// Called before the interface called `name` is removed. Also called if the interface could not be made.
    fn leaves(&self, _name: &str, _world: &mut W) {}

    /// Returns the command that makes the interface.
    fn dump(&self, name: &str) -> String;

    /// True if the device can be reopened in place of `old`, so that the interface and its configuration stay. The main thread then opens
    /// the device without [`prepare`](Self::prepare). Called only for devices: any other backing is always recreated.
    fn takes_over(&self, _old: &Self) -> bool {
        false
    }

    /// Calls `to` with each object that the interface needs.
    fn needs(&self, _to: &mut dyn FnMut(Need)) {}

    /// Calls `to` with each entry of the interface in the configuration's indexes. Other objects find the interface by these entries.
    fn facts(&self, _name: &str, _to: &mut dyn FnMut(Fact)) {}

    /// Returns a copy without secrets, for readers who may not see them; `None` if it has no secrets.
    fn without_secrets(&self) -> Option<Self> {
        None
    }

    /// Returns the warning that the operator gets when the device is opened. `None` if there is no warning, or if only the open device can
    /// provide it. Called on the thread that plans a change.
    fn warning(&self) -> Option<String> {
        None
    }

    /// Calls `to` with one sentence for each thing that this machine lacks to open the backing. May wait for the file system.
    fn lacks(&self, _to: &mut dyn FnMut(String)) {}
}

/// The methods of [`Backing`] without its associated types and constants, so that [`Backed`] can contain a backing of any type.
pub trait AnyBacking<W: World>: Any + Debug + Send + Sync {
    /// True if the backing in `other` has the same type and an equal value.
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
    /// As [`Backing::is_bare`].
    fn is_bare(&self) -> bool;
    /// As [`Backing::is_slow`].
    fn is_slow(&self) -> bool;
    /// As [`Backing::find`].
    ///
    /// # Errors
    /// Returns the reason why [`open`](Self::open) would fail.
    fn find(&self) -> Result<(), Unready>;
    /// As [`Backing::prepare`].
    ///
    /// # Errors
    /// Returns the reason why [`open`](Self::open) would fail.
    fn prepare(&self, patience: &Patience) -> Result<Prepared, Unready>;
    /// As [`Backing::open`].
    ///
    /// # Errors
    /// Fails if the backing cannot be opened.
    fn open(&self, name: &str, prepared: Prepared, world: &mut W) -> Result<Opened, Unopened>;
    /// As [`Backing::made`].
    ///
    /// # Errors
    /// Fails if the backing cannot be used.
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
    /// As [`Backing::warning`].
    fn warning(&self) -> Option<String>;
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

    fn is_bare(&self) -> bool {
        Backing::is_bare(self)
    }

    fn is_slow(&self) -> bool {
        Backing::is_slow(self)
    }

    fn find(&self) -> Result<(), Unready> {
        Backing::find(self)
    }

    fn prepare(&self, patience: &Patience) -> Result<Prepared, Unready> {
        Backing::prepare(self, patience)
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

    fn warning(&self) -> Option<String> {
        Backing::warning(self)
    }

    fn lacks(&self, to: &mut dyn FnMut(String)) {
        Backing::lacks(self, to);
    }
}

/// The backing of an interface, of any type.
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

    /// Returns the backing, if its type is `T`.
    pub fn get<T: Backing<W>>(&self) -> Option<&T> {
        let any: &dyn Any = &*self.0;
        any.downcast_ref()
    }
}

/// The part of an interface's configuration that is read together with its backing: the backing, the MTU and the description.
pub struct Begun<W: World> {
    /// The backing.
    pub backed: Backed<W>,
    /// The MTU, in bytes.
    pub mtu: Option<u16>,
    /// The operator's description.
    pub description: Option<String>,
}

impl<W: World> Begun<W> {
    /// Returns a configuration that contains only this backing.
    pub fn by(backing: impl Backing<W>) -> Begun<W> {
        Begun { backed: Backed::by(backing), mtu: None, description: None }
    }
}

type Names = Box<dyn Fn(&str) -> Option<Result<(), Refused>> + Send + Sync>;
type ReadBacking<W> = Box<dyn Fn(&mut Reader, &str, At, &mut Fields<'_>) -> Option<Begun<W>> + Send + Sync>;
type BackingExamples<W> = Box<dyn Fn() -> Vec<(String, Backed<W>)> + Send + Sync>;
type WriteBacking<W> = Box<dyn Fn(&mut Text<'_>, &Backed<W>) + Send + Sync>;

/// An interface type: the names of its interfaces, and their place in a configuration file. The Rust type of the backing determines the
/// interface type.
pub struct Interfaces<W: World> {
    /// The type for messages, such as `a tap`.
    pub what: &'static str,
    /// The names for messages, such as `tap0, tap1, …`.
    pub named: String,
    /// The section of the configuration file that contains the backings of these interfaces. If `None`, the section `interfaces` contains
    /// them. The section `interfaces` always contains all other settings of these interfaces.
    pub section: Option<&'static str>,
    /// Checks a name. Returns `None` if the name belongs to another type; otherwise `Ok`, or the reason why the name is invalid.
    pub names: Names,
    /// The name of the map that configures the backing, inside the interface's entry in `interfaces`; `None` if there is no such
    /// map.
    pub field: Option<&'static str>,
    /// The value of the field `device-type` for these interfaces, if they are Linux interfaces (vppcfg).
    pub device_type: Option<&'static str>,
    /// Reads the backing from the fields of an entry.
    pub read: ReadBacking<W>,
    /// True if an interface with this backing has this type.
    pub is: fn(&Backed<W>) -> bool,
    /// Writes the fields.
    pub write: WriteBacking<W>,
    /// The heading above these fields in the reference documentation.
    pub title: String,
    /// The table rows for these fields in the reference documentation.
    pub rows: Vec<Row>,
    /// Names and backings for tests. Together they cover every field.
    pub examples: BackingExamples<W>,
}

impl<W: Host> Interfaces<W> {
    /// Returns a type with its own section. The interfaces' names are a prefix and a number, and their fields are those of `T`.
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
            device_type: None,
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

/// Returns example names for messages: `prefix` followed by 0, by 1, and so on.
pub fn numbered(prefix: &str) -> String {
    format!("{prefix}0, {prefix}1, …")
}

/// Returns a check for names that are a prefix and a number; see [`Interfaces::names`]. A name is invalid if its number is missing, has
/// leading zeros, or does not fit `N`. A name with anything but digits after the prefix belongs to another type.
pub fn is_numbered<N: std::str::FromStr + fmt::Display>(
    prefix: &'static str,
) -> impl Fn(&str) -> Option<Result<(), Refused>> + Send + Sync {
    move |name| {
        let number = name.strip_prefix(prefix)?;
        if !number.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let why = || Refused::new(format!("invalid name \"{name}\": expected one of {}", numbered(prefix)));
        Some(number_of::<N>(name, prefix).map(|_| ()).ok_or_else(why))
    }
}

/// Returns the number after the prefix of a name; `None` if it has leading zeros or is invalid.
pub fn number_of<T: std::str::FromStr + fmt::Display>(name: &str, prefix: &str) -> Option<T> {
    let number: T = name.strip_prefix(prefix)?.parse().ok()?;
    (format!("{prefix}{number}") == name).then_some(number)
}

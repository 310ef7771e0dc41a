//! What interfaces are made of, beside loopbacks and VLANs: devices of drivers, and what features send frames by.

use std::any::Any;
use std::fmt::{self, Debug};
use std::ops::Deref;
use std::sync::Arc;

use drivers::Device;
use drivers::af_packet::OpenError;
use model::key::Need;
use model::object::{Fact, Refused, World};
use model::schema::{Described, Row};
use model::store::View;
use model::yaml::{At, Fields, Reader, Text};
use wire::Mac;

use crate::interface::InterfaceKind;
use crate::objects::Host;

/// What the router gets when a backing is opened.
pub enum Opened {
    /// A driver's device. It may vanish, and come back.
    Device(Device),
    /// Something of a feature's: frames that leave go to its node.
    Feature {
        /// As it was registered with the graph.
        kind: InterfaceKind,
        /// Its Ethernet address, zeros where there is none.
        mac: Mac,
        /// The largest network packet in bytes.
        mtu: u16,
    },
}

/// Why a backing could not be opened.
pub struct Unopened {
    /// This machine does not have it.
    pub missing: bool,
    /// Why.
    pub why: Refused,
}

impl Unopened {
    /// There is something wrong with it.
    pub fn new(why: impl ToString) -> Unopened {
        Unopened { missing: false, why: Refused(why.to_string()) }
    }
}

impl From<OpenError> for Unopened {
    fn from(e: OpenError) -> Unopened {
        Unopened { missing: matches!(e, OpenError::NotFound(..)), ..Unopened::new(e) }
    }
}

/// What was prepared of a backing, for when it is opened.
pub type Prepared = Option<Box<dyn Any + Send>>;

/// Why a backing could not be opened, as far as that is known ahead.
pub struct Unready {
    /// The argument of the command that it is about.
    pub about: &'static str,
    /// Why.
    pub why: Refused,
}

/// What an interface is made of, as an operator asks for it. The interface itself, with all that may be set on any, is the router's.
pub trait Backing<W: World>: Any + Clone + Debug + PartialEq + Send + Sync {
    /// Whether it is a device: has queues, may carry VLANs, and may be waited for.
    const DEVICE: bool;

    /// Whether an interface of this name and MTU, in bytes and where one is asked for, can be made of it in the tree that `view` shows.
    ///
    /// # Errors
    /// Why not.
    fn validate(
        &self,
        _name: &str,
        _mtu: Option<u16>,
        _view: &View<'_, W>,
        _abilities: &W::Abilities,
    ) -> Result<(), Refused> {
        Ok(())
    }

    /// Whether there is something to [find](Self::find) or to [prepare](Self::prepare).
    fn is_slow(&self) -> bool {
        false
    }

    /// Finds ahead what a command names, on a thread that waits for the file system as long as that takes. A plan does not ask, for it would
    /// hold up the changes of others.
    ///
    /// # Errors
    /// Why it could not be opened.
    fn find(&self) -> Result<(), Unready> {
        Ok(())
    }

    /// Does ahead what takes long, on a thread of its own.
    ///
    /// # Errors
    /// Why it could not be opened.
    fn prepare(&self) -> Result<Prepared, Unready> {
        Ok(None)
    }

    /// Opens it for the interface of this name, with what was prepared, if anything was: nothing is where a device is opened again.
    ///
    /// # Errors
    /// Why it could not be opened.
    fn open(&self, name: &str, prepared: Prepared, world: &mut W) -> Result<Opened, Unopened>;

    /// The interface of this index was made of it, and is down.
    ///
    /// # Errors
    /// When that cannot be; the interface goes again.
    fn made(&self, _index: u32, _world: &mut W) -> Result<(), Refused> {
        Ok(())
    }

    /// The interface of this name, if there is one, is about to go.
    fn leaves(&self, _name: &str, _world: &mut W) {}

    /// The command that makes the interface.
    fn dump(&self, name: &str) -> String;

    /// Whether the device can take the place of what was opened as `old` says, while the interface stays with all that is on it. It is then
    /// opened by the main thread, with nothing prepared. What is no device is always made anew, and not asked.
    fn takes_over(&self, _old: &Self) -> bool {
        false
    }

    /// What the interface needs.
    fn needs(&self, _to: &mut dyn FnMut(Need)) {}

    /// Places under which others find the interface.
    fn facts(&self, _name: &str, _to: &mut dyn FnMut(Fact)) {}

    /// The same for those who may not know secrets; `None` if it has none.
    fn without_secrets(&self) -> Option<Self> {
        None
    }

    /// Reports what this machine lacks for it, a sentence each. It may wait for the file system.
    fn lacks(&self, _to: &mut dyn FnMut(String)) {}
}

/// A [`Backing`], whatever its type: what a [`Backed`] can be asked.
pub trait AnyBacking<W: World>: Any + Debug + Send + Sync {
    /// Whether the other is of the same type, and equal.
    fn is(&self, other: &Backed<W>) -> bool;
    /// As [`Backing::DEVICE`].
    fn is_device(&self) -> bool;
    /// As [`Backing::validate`].
    ///
    /// # Errors
    /// Why it cannot be.
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
    /// Why it could not be opened.
    fn find(&self) -> Result<(), Unready>;
    /// As [`Backing::prepare`].
    ///
    /// # Errors
    /// Why it could not be opened.
    fn prepare(&self) -> Result<Prepared, Unready>;
    /// As [`Backing::open`].
    ///
    /// # Errors
    /// Why it could not be opened.
    fn open(&self, name: &str, prepared: Prepared, world: &mut W) -> Result<Opened, Unopened>;
    /// As [`Backing::made`].
    ///
    /// # Errors
    /// When it cannot be.
    fn made(&self, index: u32, world: &mut W) -> Result<(), Refused>;
    /// As [`Backing::leaves`].
    fn leaves(&self, name: &str, world: &mut W);
    /// As [`Backing::dump`].
    fn dump(&self, name: &str) -> String;
    /// As [`Backing::takes_over`]; never from something of another type.
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

/// What an interface is made of, whatever its type.
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
    /// By this.
    pub fn by(backing: impl Backing<W>) -> Backed<W> {
        Backed(Arc::new(backing))
    }

    /// What it is, if it is of this type.
    pub fn get<T: Backing<W>>(&self) -> Option<&T> {
        let any: &dyn Any = &*self.0;
        any.downcast_ref()
    }
}

/// What a file says of an interface where it says what that is made of.
pub struct Begun<W: World> {
    /// What it is made of.
    pub backed: Backed<W>,
    /// Its MTU in bytes.
    pub mtu: Option<u16>,
    /// What it is for.
    pub description: Option<String>,
}

impl<W: World> Begun<W> {
    /// An interface of which nothing else is said.
    pub fn by(backing: impl Backing<W>) -> Begun<W> {
        Begun { backed: Backed::by(backing), mtu: None, description: None }
    }
}

type Names = Box<dyn Fn(&str) -> Option<Result<(), Refused>> + Send + Sync>;
type ReadBacking<W> = Box<dyn Fn(&mut Reader, &str, At, &mut Fields<'_>) -> Option<Begun<W>> + Send + Sync>;
type BackingExamples<W> = Box<dyn Fn() -> Vec<(String, Backed<W>)> + Send + Sync>;
type WriteBacking<W> = Box<dyn Fn(&mut Text<'_>, &Backed<W>) + Send + Sync>;

/// Interfaces that are made of one type: their names, and their place in the configuration's file.
pub struct Interfaces<W: World> {
    /// What one is, in words: `a tap`.
    pub what: &'static str,
    /// How they are named, in words: `tap0, tap1, …`.
    pub named: String,
    /// The section that makes them, where that is not `interfaces`; that says more of them then.
    pub section: Option<&'static str>,
    /// Whether this would be the name of one, and if so, why it cannot be.
    pub names: Names,
    /// The map of an entry of `interfaces` that says what one is made of, if there is one.
    pub field: Option<&'static str>,
    /// Reads what one is made of, from the fields of its entry.
    pub read: ReadBacking<W>,
    /// Whether an interface is one of them, by what it is made of.
    pub is: fn(&Backed<W>) -> bool,
    /// Writes the fields.
    pub write: WriteBacking<W>,
    /// What the reference calls the fields.
    pub title: String,
    /// Their lines of the reference.
    pub rows: Vec<Row>,
    /// For tests: names, and what interfaces of these names may be made of, which together say all that there is to say.
    pub examples: BackingExamples<W>,
}

impl<W: Host> Interfaces<W> {
    /// Interfaces with a section of their own, whose names are a prefix and a number, and whose fields are those of `T`.
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

/// How interfaces are named that have a prefix and a number.
pub fn numbered(prefix: &str) -> String {
    format!("{prefix}0, {prefix}1, …")
}

/// Whether a name is a prefix and a number, and why it cannot be one that would be that: [`Interfaces::names`].
pub fn is_numbered<N: std::str::FromStr + fmt::Display>(
    prefix: &'static str,
) -> impl Fn(&str) -> Option<Result<(), Refused>> + Send + Sync {
    move |name| {
        let number = name.strip_prefix(prefix)?;
        if !number.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let why = || Refused(format!("\"{name}\" is not one of {}", numbered(prefix)));
        Some(number_of::<N>(name, prefix).map(|_| ()).ok_or_else(why))
    }
}

/// The number behind a prefix, without leading zeros.
pub fn number_of<T: std::str::FromStr + fmt::Display>(name: &str, prefix: &str) -> Option<T> {
    let number: T = name.strip_prefix(prefix)?.parse().ok()?;
    (format!("{prefix}{number}") == name).then_some(number)
}

//! Counters of the packets that the main thread handles or discards.
//!
//! Each part of the program that may discard packets on the main thread has its own enum of reasons, as nodes have
//! ([`Builder::main_reasons`](crate::Builder::main_reasons)). All these reasons are listed under the name [`MAIN_THREAD`].

use std::any::TypeId;

use infra::counters::Lane;

use crate::edge::{ReasonInfo, Reasons};
use crate::rings::PuntReason;

/// The name under which the main thread's counters are listed among those of the nodes.
pub const MAIN_THREAD: &str = "main-thread";

/// A reason why the main thread discards a packet: a value of any enum made by [`reasons!`](crate::reasons).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MainReason {
    of: TypeId,
    code: u8,
}

impl<D: Reasons> From<D> for MainReason {
    fn from(reason: D) -> MainReason {
        MainReason { of: TypeId::of::<D>(), code: reason.code() }
    }
}

/// All declared reasons of the main thread.
#[derive(Clone, Default)]
pub(crate) struct MainReasons(Vec<(TypeId, &'static [ReasonInfo])>);

impl MainReasons {
    /// Adds the reasons of an enum, unless they have been added already.
    pub(crate) fn add<D: Reasons>(&mut self) {
        let id = TypeId::of::<D>();
        if !self.0.iter().any(|(of, _)| *of == id) {
            self.0.push((id, D::INFO));
        }
    }

    /// Returns the reasons in the order of their numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'static ReasonInfo> + Clone {
        self.0.iter().flat_map(|(_, reasons)| *reasons)
    }

    /// Returns the first name that two reasons have; `None` if all names are different.
    pub(crate) fn repeated(&self) -> Option<&'static str> {
        let names = || self.all().map(|reason| reason.name);
        names()
            .enumerate()
            .find(|(n, name)| names().take(*n).any(|other| other == *name))
            .map(|(_, name)| name)
    }

    /// Returns a reason's number and its description; `None` if it has not been declared.
    fn find(&self, why: MainReason) -> Option<(u32, &'static ReasonInfo)> {
        let at = self.0.iter().position(|(of, _)| *of == why.of)?;
        let before: usize = self.0.iter().take(at).map(|(_, reasons)| reasons.len()).sum();
        let reason = self.0.get(at)?.1.get(usize::from(why.code))?;
        Some((before as u32 + u32::from(why.code), reason))
    }
}

/// Counts the packets that the main thread handles or discards. A graph has only one such counter.
pub struct MainThread {
    pub(crate) reasons: Lane<1>,
    pub(crate) drops: Lane<1>,
    pub(crate) handled: Lane<1>,
    /// The number of the first reason.
    pub(crate) first: u32,
    pub(crate) declared: MainReasons,
}

impl MainThread {
    /// Counts a packet that the main thread has finished. The packet was punted for `reason`, and received on `interface`. If the main
    /// thread discarded it, `unused` is the reason.
    pub fn done(&mut self, reason: PuntReason, interface: u32, unused: Option<MainReason>) {
        self.handled.add(reason.0, [1]);
        if let Some(why) = unused {
            self.ended(interface, why);
        }
    }

    /// Counts a packet received on `interface` that the main thread discarded, whether it was punted or not. The packet counts as a drop of
    /// the interface unless the reason is declared `counted`. An undeclared reason panics in debug builds; in release builds it counts as
    /// the first declared one.
    pub fn ended(&mut self, interface: u32, why: impl Into<MainReason>) {
        let found = self.declared.find(why.into());
        debug_assert!(
            found.is_some(),
            "a reason of the main thread is not declared: use Builder::main_reasons"
        );
        let (number, drops) = found.map_or((0, true), |(number, reason)| (number, reason.drops));
        self.reasons.add(self.first + number, [1]);
        if drops {
            self.drops.add(interface, [1]);
        }
    }
}

//! Types of interfaces.

use std::fmt;

use net::ethernet::Match;
use net::feature::{Backing, number_of};
use wire::Mac;

use super::{Backed, System};

/// The name of a loopback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loopback {
    /// `loopN`, with this number.
    Loop(u16),
    /// `bviN` (`bvi create`): the name that VPP gives to the BVI of a bridge domain. Any loopback can be the BVI.
    Bvi(u16),
}

impl Loopback {
    /// Returns the loopback with this name.
    pub fn named(name: &str) -> Option<Loopback> {
        let of = |prefix| number_of(name, prefix);
        of("loop").map(Loopback::Loop).or_else(|| of("bvi").map(Loopback::Bvi))
    }

    /// Returns the default Ethernet address, as in VPP.
    pub(super) fn mac(self) -> Mac {
        let (first, Loopback::Loop(n) | Loopback::Bvi(n)) = match self {
            Loopback::Loop(_) => ([0xde, 0xad], self),
            Loopback::Bvi(_) => ([0xb0, 0xb0], self),
        };
        let ([a, b], [high, low]) = (first, n.to_be_bytes());
        Mac([a, b, 0, 0, high, low])
    }
}

impl fmt::Display for Loopback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loopback::Loop(n) => write!(f, "loop{n}"),
            Loopback::Bvi(n) => write!(f, "bvi{n}"),
        }
    }
}

/// The type of an interface, with its options.
#[derive(Clone, Debug, PartialEq)]
pub enum Spec {
    /// A device, or an interface type of a feature.
    Backed(Backed),
    /// A loopback (`create loopback interface`).
    Loopback(Loopback),
    /// A sub-interface (`create sub-interfaces`).
    Sub {
        /// The device's interface.
        parent: String,
        /// Number of the sub-interface.
        id: u32,
        /// The match that selects the packets of the sub-interface.
        takes: Match,
    },
}

impl Spec {
    /// Returns the spec of an interface that is made by a device driver or a feature. `backing` has the interface's options.
    pub fn by(backing: impl Backing<System>) -> Spec {
        Spec::Backed(Backed::by(backing))
    }

    /// Returns the options if their type is `T`.
    pub fn get<T: Backing<System>>(&self) -> Option<&T> {
        self.backed()?.get()
    }

    /// Returns the options; `None` for a loopback or a sub-interface.
    pub fn backed(&self) -> Option<&Backed> {
        match self {
            Spec::Backed(backed) => Some(backed),
            Spec::Loopback(_) | Spec::Sub { .. } => None,
        }
    }

    /// True if the interface is a device.
    pub fn is_device(&self) -> bool {
        self.backed().is_some_and(|b| b.is_device())
    }

    /// True if the device can be reopened in place with this spec, keeping the interface and its configuration. `other`
    /// is the old spec of the same interface.
    pub(crate) fn takes_over(&self, other: &Spec) -> bool {
        // Only devices can be closed and opened again.
        self.is_device()
            && matches!((self, other), (Spec::Backed(new), Spec::Backed(old)) if new.takes_over(old))
    }
}

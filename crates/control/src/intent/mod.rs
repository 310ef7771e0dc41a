//! Intent: the requested configuration, as a tree of [objects](Object) by key. The router's state is derived from it.
//!
//! [`model::store`] has the tree, and the only way to change it: a [`transaction`](model::store::Store::transact). A
//! command is a transaction of one change, or of a few related ones.
//!
//! Each type of the router's own objects has a file here. Objects of features are in the features' folders.

mod address;
mod family;
mod feature;
mod index;
mod interface;
mod neighbor;
mod receive;
mod reopened;
mod route;
mod table;
mod unnumbered;

use std::sync::Arc;

use net::ip::Address;
use net::objects::Host;
use net::router::Router;

pub use address::Addresses;
pub use family::{Family, OfFamily};
pub use feature::FeatureOn;
pub(crate) use index::is_connected;
pub use index::{Find, in_order};
pub use interface::{Interface, VLANS, can_be_name, numbered};
pub use model::key::Key;
pub use model::object::{Object, Refused, refuse, refuse_as};
pub use model::reason::Reason;
pub use model::store::Refusal;
pub use neighbor::Neighbor;
pub use receive::{HANDOFFS, MODES, MOST_QUEUES, handoff_word, mode_word};
pub use reopened::{recreated, reopened, slow};
pub use route::{Branch, Route, Via};
pub use table::Table;
pub use unnumbered::Unnumbered;

use crate::system::{Abilities, System};
use model::{object, store};

/// An object of any type.
pub type Value = object::Value<System>;
/// All objects by key.
pub type Tree = object::Tree<System>;
/// A change of one object.
pub type Change = object::Change<System>;
/// The tree at some moment.
pub type Snapshot = object::Snapshot<System>;
/// The requested configuration.
pub type Store = store::Store<System>;
/// The tree as it would be after a transaction.
pub type View<'s> = object::View<'s, System>;
/// The steps from one tree to another.
pub type Plan = store::Plan<System>;
/// A plan that is being executed.
pub type Making = store::Making<System>;
/// The most recent changes.
pub type Journal = store::Journal<System>;
/// A change in the journal.
pub type Entry = store::Entry<System>;
/// A changed object.
pub type Edit = store::Edit<System>;
/// The data to record for a change.
pub type Note = store::Note<System>;
/// The result of recording a change.
pub type Noted = store::Noted<System>;
/// The recorded details of a change.
pub type Detail = store::Detail<System>;
/// The changes that a rollback to an earlier configuration must undo.
pub type Way = store::Way<System>;
/// A function that returns the object with a key.
type Get<'t> = object::Get<'t, System>;

impl object::World for System {
    type Abilities = Abilities;

    fn abilities(&self) -> Arc<Abilities> {
        Arc::clone(&self.abilities)
    }

    fn begin(&mut self) {
        self.begin_changes();
    }

    fn end(&mut self) {
        self.end_changes();
    }

    fn complete(now: &Snapshot, wanted: Vec<(&Key, &mut Value)>) {
        let interfaces = wanted
            .into_iter()
            .filter_map(|(key, value)| Some((Interface::name_in(key)?, value.get_mut::<Interface>()?)));
        index::number(now, interfaces.collect());
    }
}

impl Host for System {
    fn router(&mut self) -> &mut Router {
        &mut self.router
    }

    fn index(&self, name: &str) -> Result<u32, Refused> {
        self.index(name)
    }
}

/// Returns the addresses in `value`, an object of the type [`Addresses`]; none without an object.
fn list(value: Option<&Value>) -> &[Address] {
    value.and_then(|value| value.get::<Addresses>()).map_or(&[], |addresses| &addresses.0)
}

/// The text that users see in place of a secret that they may not know.
pub const HIDDEN: &str = "<hidden>";

#[cfg(test)]
pub(crate) mod random;
#[cfg(test)]
pub(crate) mod random_tests;
#[cfg(test)]
pub(crate) mod tests;

//! Unnumbered interfaces: they use the addresses of another interface.

use model::key::{Kind, Need};
use model::object::Fact;
use net::objects::{self, Routes};

use super::index::{self, Find};
use super::{Addresses, Get, Key, Object, Refused, View, refuse};
use crate::cli::quote;
use crate::system::{Abilities, System};

/// Makes an interface use the addresses of the interface with this name.
#[derive(Clone, Debug, PartialEq)]
pub struct Unnumbered(pub String);

impl Kind for Unnumbered {
    /// The name of the unnumbered interface.
    type Key = String;
    const NAME: &'static str = "unnumbered";
    const PHASE: u16 = 120;

    fn title(interface: &String) -> String {
        format!("the borrowed addresses of {interface}")
    }
}

impl Unnumbered {
    /// Returns the key of an unnumbered interface.
    pub fn key(interface: &str) -> Key {
        Key::with::<Unnumbered>(interface)
    }

    /// Returns the interface whose addresses the unnumbered interface uses.
    pub(super) fn lender<'v>(interface: &str, view: &'v View<'_>) -> Option<&'v str> {
        let value = view.get(&Unnumbered::key(interface))?;
        value.get::<Unnumbered>().map(|unnumbered| unnumbered.0.as_str())
    }
}

impl Object<System> for Unnumbered {
    fn validate(&self, interface: &String, view: &View<'_>, _: &Abilities) -> Result<(), Refused> {
        let Unnumbered(lender) = self;
        let own = view.must_have_interface(interface)?;
        own.can_send(interface)?;
        objects::may_route(interface, view)?;
        let table = own.table;
        let other = view.must_have_interface(lender)?;
        if interface == lender {
            return refuse(format!("{interface} cannot use its own addresses"));
        }
        if other.table != table {
            return refuse(format!(
                "{lender} is in table {}, and {interface} in table {table}: they must be in the same table",
                other.table
            ));
        }
        if view.get(&Addresses::key(interface)).is_some() {
            return refuse(format!("{interface} has addresses of its own: remove them first"));
        }
        if let Some(third) = Unnumbered::lender(lender, view) {
            return refuse(format!("{lender} uses the addresses of {third} itself: use {third} instead"));
        }
        if let Some(borrower) = index::borrowers(view, interface).next() {
            return refuse(format!(
                "{borrower} uses the addresses of {interface}, so {interface} cannot use another interface's"
            ));
        }
        Ok(())
    }

    fn apply(&self, interface: &String, _: Option<&Self>, system: &mut System) -> Result<(), Refused> {
        let (index, lender) = (system.index(interface)?, system.index(&self.0)?);
        Ok(system.router.set_unnumbered(index, Some(lender))?)
    }

    fn withdraw(&self, interface: &String, system: &mut System) -> Result<(), Refused> {
        let index = system.index(interface)?;
        Ok(system.router.set_unnumbered(index, None)?)
    }

    fn dump(&self, interface: &String, _: bool) -> Vec<String> {
        vec![format!("set interface unnumbered {} use {}", quote(interface), quote(&self.0))]
    }

    fn needs(&self, interface: &String, to: &mut dyn FnMut(Need)) {
        to(objects::interface(interface));
        to(objects::interface(&self.0));
    }

    fn facts(&self, interface: &String, _: Get<'_>, to: &mut dyn FnMut(Fact)) {
        to(Fact::new(index::BORROWERS, (&self.0, interface)));
        to(Routes::Unnumbered.fact(interface));
    }
}

/// Checks that an interface may be in this VRF: an unnumbered interface and the interface whose addresses it
/// uses must be in the same VRF.
pub(super) fn may_be_in(interface: &str, table: u32, view: &View<'_>) -> Result<(), Refused> {
    let apart = |other: &str| view.interface(other).is_some_and(|o| o.table != table);
    let lender = Unnumbered::lender(interface, view).filter(|lender| apart(lender));
    let pair = lender
        .map(|lender| (interface.to_string(), lender.to_string()))
        .or_else(|| index::borrowers(view, interface).find(|b| apart(b)).map(|b| (b, interface.to_string())));
    match pair {
        Some((borrower, lender)) => {
            refuse(format!("{borrower} uses the addresses of {lender}: they must be in the same table"))
        }
        None => Ok(()),
    }
}

//! The state of features that is kept in the router: one value of each type, owned by the main thread.
//!
//! A feature declares its state while the graph is built ([`Hooks::state`]). From this state, its nodes get the tables that they read.
//! Its commands use [`Router::state`] and [`Router::state_mut`].

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;

use graph::GraphError;
use infra::quiesce::Domain;

use super::{Hooks, Router, RouterError};

/// The states of all features, by type.
#[derive(Default)]
pub(super) struct States(HashMap<TypeId, Box<dyn Any + Send>>);

impl States {
    fn get<T: Any + Send>(&self) -> Option<&T> {
        let state: &dyn Any = &**self.0.get(&TypeId::of::<T>())?;
        state.downcast_ref()
    }

    fn get_mut<T: Any + Send>(&mut self) -> Option<&mut T> {
        let state: &mut dyn Any = &mut **self.0.get_mut(&TypeId::of::<T>())?;
        state.downcast_mut()
    }
}

fn undeclared<T>() -> String {
    format!("no feature of this router declares the state {}", type_name::<T>())
}

impl Hooks {
    /// Returns the state of a feature. The first call declares the state: it calls `make` with the quiescence domain of the router's
    /// tables.
    ///
    /// # Errors
    /// If `make` fails.
    pub fn state<T: Any + Send>(
        &mut self,
        make: impl FnOnce(&Domain) -> io::Result<T>,
    ) -> Result<&mut T, GraphError> {
        if let Entry::Vacant(place) = self.states.0.entry(TypeId::of::<T>()) {
            let made = make(&self.domain).map_err(|e| GraphError(format!("{}: {e}", type_name::<T>())))?;
            place.insert(Box::new(made));
        }
        self.states.get_mut().ok_or_else(|| GraphError(undeclared::<T>()))
    }
}

impl Router {
    /// Returns the state of a feature.
    ///
    /// # Errors
    /// If no feature of this router has declared this state.
    pub fn state<T: Any + Send>(&self) -> Result<&T, RouterError> {
        self.hooks.states.get().ok_or_else(|| RouterError::new(undeclared::<T>()))
    }

    /// Returns the state of a feature, mutable.
    ///
    /// # Errors
    /// If no feature of this router has declared this state.
    pub fn state_mut<T: Any + Send>(&mut self) -> Result<&mut T, RouterError> {
        self.hooks.states.get_mut().ok_or_else(|| RouterError::new(undeclared::<T>()))
    }
}

#[cfg(test)]
mod tests {
    use graph::Builder;

    use super::*;
    use crate::Tables;
    use crate::router::{Parts, Sizes};
    use crate::testing;

    #[derive(Debug, PartialEq)]
    struct Books(Vec<u32>);

    fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
        crate::testing::install(b, t, hooks)?;
        hooks.state(|_| Ok(Books(vec![1])))?.0.push(2);
        // Declared already: this returns the first value.
        hooks.state(|_| Ok(Books(vec![9])))?.0.push(3);
        Ok(())
    }

    #[test]
    fn a_feature_gets_its_own_state() {
        let Parts { mut router, .. } = Router::build(install, &Sizes { buffers: 256, workers: 1 }).unwrap();
        router.state_mut::<Books>().unwrap().0.push(4);
        assert_eq!(router.state(), Ok(&Books(vec![1, 2, 3, 4])));
    }

    #[test]
    fn an_undeclared_state_is_an_error() {
        let (mut router, _) = testing::router();
        let why = router.state::<Books>().unwrap_err().why;
        assert!(
            why.contains("no feature of this router declares the state") && why.contains("Books"),
            "{why}"
        );
        assert!(router.state_mut::<Books>().is_err());
    }

    #[test]
    fn a_failed_state_stops_the_start() {
        let mut hooks = Hooks::new(&Domain::new(), 0);
        let why = hooks.state::<Books>(|_| Err(io::Error::other("no room"))).unwrap_err();
        assert!(why.0.contains("no room"), "{why:?}");
    }
}

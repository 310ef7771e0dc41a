//! The facts about a router that validation needs. They can be used on other threads than the router's.

use std::sync::Arc;

use graph::ArcError;
use net::objects::Ability;
use net::router::Router;

use super::Catalog;

/// The constant properties of a running router.
#[derive(Clone)]
pub struct Abilities {
    /// The declarations of all features.
    pub catalog: Arc<Catalog>,
    /// Arcs with their features.
    arcs: Vec<(&'static str, Vec<&'static str>)>,
    /// The reasons to punt packets to the main thread.
    punt_reasons: Vec<&'static str>,
    /// Number of packet buffers at the start. Buffers added later do not count, so that the configuration stays valid
    /// at the next start.
    buffers: usize,
}

impl Abilities {
    /// Returns the properties of this router and its features.
    pub fn of(router: &Router, catalog: Arc<Catalog>) -> Abilities {
        // Any interface will do: only the names are used.
        let arcs = router.features(0).into_iter();
        let arcs = arcs.map(|(arc, features)| (arc, features.into_iter().map(|(name, _)| name).collect()));
        let punt_reasons = router.graph().punt_reasons().iter().map(|r| r.name).collect();
        Abilities { catalog, arcs: arcs.collect(), punt_reasons, buffers: router.pool().stats().window.total }
    }

    /// Returns these properties with another number of buffers.
    pub fn with_buffers(self, buffers: usize) -> Abilities {
        Abilities { buffers, ..self }
    }

    /// Checks that an arc has a feature.
    ///
    /// # Errors
    /// If there is no such arc or feature.
    pub fn check_feature(&self, arc: &str, feature: &str) -> Result<(), ArcError> {
        match self.arcs.iter().find(|(name, _)| *name == arc) {
            None => Err(ArcError::NoArc(arc.into())),
            Some((_, features)) if features.contains(&feature) => Ok(()),
            Some(_) => Err(ArcError::NoFeature(arc.into(), feature.into())),
        }
    }

    /// Checks that memif peers may hold `lent` of the router's buffers: at most three quarters, so that some are left
    /// for the other ports.
    ///
    /// # Errors
    /// If that is too many.
    pub fn check_lent(&self, lent: usize) -> Result<(), String> {
        let most = self.buffers - self.buffers / 4;
        if lent <= most {
            return Ok(());
        }
        Err(format!(
            "the rings of trusted slaves would hold {lent} of the router's {} buffers, more than {most}: use smaller \
             rings or fewer queues, or add buffers (buffers {{ buffers-per-numa }} in startup.conf)",
            self.buffers
        ))
    }
}

impl Ability for Abilities {
    fn buffers(&self) -> usize {
        self.buffers
    }

    fn punt_reasons(&self) -> &[&'static str] {
        &self.punt_reasons
    }
}

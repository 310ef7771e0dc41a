//! What a router can do, as far as validation asks: so that it can be asked on another thread than the router's.

use std::sync::Arc;

use graph::ArcError;
use net::objects::Ability;
use net::router::Router;

use super::Catalog;

/// What a router has from its start to its end.
#[derive(Clone)]
pub struct Abilities {
    /// What features say of themselves.
    pub catalog: Arc<Catalog>,
    /// Arcs with their features.
    arcs: Vec<(&'static str, Vec<&'static str>)>,
    /// Why packets go to the main thread.
    punt_reasons: Vec<&'static str>,
    /// Packet buffers that there were at the start. What holds with those that were added must hold at the next start, too.
    buffers: usize,
}

impl Abilities {
    /// Those of this router, whose features say this of themselves.
    pub fn of(router: &Router, catalog: Arc<Catalog>) -> Abilities {
        // Whether they are on does not matter, nor for which interface.
        let arcs = router.features(0).into_iter();
        let arcs = arcs.map(|(arc, features)| (arc, features.into_iter().map(|(name, _)| name).collect()));
        let punt_reasons = router.graph().punt_reasons().iter().map(|r| r.name).collect();
        Abilities { catalog, arcs: arcs.collect(), punt_reasons, buffers: router.pool().stats().window.total }
    }

    /// Those of a router that has so many buffers.
    pub fn with_buffers(self, buffers: usize) -> Abilities {
        Abilities { buffers, ..self }
    }

    /// Whether an arc has a feature.
    ///
    /// # Errors
    /// When there is no such arc or feature.
    pub fn check_feature(&self, arc: &str, feature: &str) -> Result<(), ArcError> {
        match self.arcs.iter().find(|(name, _)| *name == arc) {
            None => Err(ArcError::NoArc(arc.into())),
            Some((_, features)) if features.contains(&feature) => Ok(()),
            Some(_) => Err(ArcError::NoFeature(arc.into(), feature.into())),
        }
    }

    /// Checks that memif peers may hold `lent` of the router's buffers: three of four, so that the other ports keep some.
    ///
    /// # Errors
    /// When that is too many.
    pub fn check_lent(&self, lent: usize) -> Result<(), String> {
        let most = self.buffers - self.buffers / 4;
        if lent <= most {
            return Ok(());
        }
        Err(format!(
            "the rings of trusted slaves would hold {lent} of the router's {} buffers, at most {most} are allowed: use smaller rings \
             or fewer queues, or add buffers (buffers {{ buffers-per-numa }} in startup.conf)",
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

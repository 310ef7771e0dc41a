//! Features of interfaces that have settings of their own.

use super::{Routed, Router, RouterError};
use crate::ip::{Mss, Urpf};

impl Router {
    /// Says whether the sources of a family's packets that come in by an interface are checked, and how.
    ///
    /// # Errors
    /// When there is none.
    pub fn set_urpf<A: Routed>(&mut self, index: u32, mode: Urpf) -> Result<(), RouterError> {
        self.interface(index)?;
        let before = *A::urpf(self.info_mut(index)?);
        // The new one first: nothing passes unchecked in between.
        for (mode, on) in [(mode, true), (before, false)].into_iter().filter(|_| before != mode) {
            if let Some(feature) = mode.feature::<A>() {
                let arc = A::NODES.unicast;
                self.arcs.enable(arc, feature, index, on).map_err(|e| RouterError(e.to_string()))?;
            }
        }
        *A::urpf(self.info_mut(index)?) = mode;
        Ok(())
    }

    /// Says how the largest segments of TCP over a family are lowered on an interface.
    ///
    /// # Errors
    /// When there is none.
    pub fn set_mss<A: Routed>(&mut self, index: u32, mss: Mss) -> Result<(), RouterError> {
        let before = std::mem::replace(A::mss(self.info_mut(index)?), mss);
        let done = self.clamp::<A>(index, mss);
        if done.is_err() {
            *A::mss(self.info_mut(index)?) = before;
            self.clamp::<A>(index, before)?;
        }
        done
    }

    /// Has workers clamp what passes by an interface.
    fn clamp<A: Routed>(&mut self, index: u32, mss: Mss) -> Result<(), RouterError> {
        self.near.publish(index)?;
        for (arc, feature, on) in mss.clamping.features::<A>() {
            self.arcs.enable(arc, feature, index, on).map_err(|e| RouterError(e.to_string()))?;
        }
        Ok(())
    }
}

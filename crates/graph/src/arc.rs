//! Feature arcs: named, ordered places where optional nodes are enabled per interface.
//!
//! A packet enters an arc by an edge with the arc's name, and leaves it at one node. The features are in between, in an order that is fixed
//! when the graph is built. The features that a packet passes depend only on its interface, so the packet carries no state of the arc. Each
//! place (an entry or a feature) has a **row** with one byte per interface: the edge to take from there. An arc without enabled features
//! costs one test per frame.

use std::collections::BTreeMap;
use std::fmt;

use infra::class_a::Writer;

/// Name of a feature's edge to the next feature of its arc.
pub const CONTINUE: &str = "next-feature";

/// Value in a row: there is no further feature, so the packet goes to the end of the arc.
pub(crate) const TO_END: u8 = u8::MAX;

/// The kind of interface that selects a packet's features on an arc: the packet visits the features that are enabled on this interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArcKey {
    /// The receive interface.
    Rx,
    /// The transmit interface.
    Tx,
}

/// Selects the edge to the next feature, at one place of an arc: at an entry, or after a feature.
#[derive(Clone)]
pub(crate) struct Row {
    /// True if a feature after this place is enabled on at least one interface.
    pub(crate) any: bool,
    pub(crate) key: ArcKey,
    /// The edge to take for each interface; `TO_END` if no further feature is enabled on the interface.
    pub(crate) by_interface: Vec<u8>,
}

impl Row {
    #[inline(always)]
    pub(crate) fn edge(&self, interface: u32, end: u8) -> u8 {
        match self.by_interface.get(interface as usize) {
            Some(&e) if e != TO_END => e,
            _ => end,
        }
    }
}

/// The rows of all arcs.
#[derive(Clone, Default)]
pub(crate) struct Rows(pub(crate) Vec<Row>);

/// An entry or a feature of an arc, with the data that the control plane needs to fill the place's row.
pub(crate) struct Place {
    pub(crate) row: usize,
    /// Position on the arc of the first feature after this place.
    pub(crate) first: usize,
    /// The edges from this place to the features after it, in the order of the arc.
    pub(crate) edges: Vec<u8>,
}

/// An arc, with the data that the control plane needs to enable features.
pub(crate) struct ArcPlan {
    pub(crate) name: &'static str,
    pub(crate) features: Vec<&'static str>,
    pub(crate) places: Vec<Place>,
}

/// Enables and disables features. The main thread owns it.
pub struct ArcControl {
    arcs: Vec<ArcPlan>,
    /// Enabled features by arc and interface: the bit at a feature's position is set if the feature is
    /// enabled.
    enabled: BTreeMap<(usize, u32), u64>,
    rows: Writer<Rows>,
}

/// The reason why a feature could not be enabled or disabled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArcError {
    /// The arc does not exist.
    NoArc(String),
    /// The arc does not have this feature.
    NoFeature(String, String),
}

impl fmt::Display for ArcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArcError::NoArc(a) => write!(f, "there is no feature arc \"{a}\""),
            ArcError::NoFeature(a, n) => write!(f, "feature arc \"{a}\" has no feature \"{n}\""),
        }
    }
}
impl std::error::Error for ArcError {}

impl ArcControl {
    pub(crate) fn new(arcs: Vec<ArcPlan>, rows: Writer<Rows>) -> ArcControl {
        ArcControl { arcs, enabled: BTreeMap::new(), rows }
    }

    /// Returns the index of the arc, and the position of the feature in the arc.
    fn find(&self, arc: &str, feature: &str) -> Result<(usize, usize), ArcError> {
        let a = self.arcs.iter().position(|p| p.name == arc).ok_or_else(|| ArcError::NoArc(arc.into()))?;
        let position = self.arcs[a].features.iter().position(|f| *f == feature);
        Ok((a, position.ok_or_else(|| ArcError::NoFeature(arc.into(), feature.into()))?))
    }

    /// Enables or disables a feature on an interface.
    ///
    /// # Errors
    /// Fails if the arc or the feature does not exist.
    pub fn enable(&mut self, arc: &str, feature: &str, interface: u32, on: bool) -> Result<(), ArcError> {
        self.enable_all(arc, feature, [interface], on)
    }

    /// Enables or disables a feature on many interfaces at once. Nothing is published if nothing changes.
    ///
    /// # Errors
    /// Fails if the arc or the feature does not exist.
    pub fn enable_all(
        &mut self,
        arc: &str,
        feature: &str,
        interfaces: impl IntoIterator<Item = u32>,
        on: bool,
    ) -> Result<(), ArcError> {
        let (a, position) = self.find(arc, feature)?;
        let plan = &self.arcs[a];
        let bit = 1u64 << position;
        let mut changed = Vec::new();
        for interface in interfaces {
            let set = self.enabled.get(&(a, interface)).copied().unwrap_or(0);
            if (set & bit != 0) != on {
                self.enabled.insert((a, interface), set ^ bit);
                changed.push((interface as usize, set ^ bit));
            }
        }
        if changed.is_empty() {
            return Ok(());
        }
        let mut rows = self.rows.get().clone();
        for place in &plan.places {
            let row = &mut rows.0[place.row];
            for (i, set) in &changed {
                if row.by_interface.len() <= *i {
                    row.by_interface.resize(i + 1, TO_END);
                }
                let next = (place.first..plan.features.len()).find(|p| set & (1 << p) != 0);
                row.by_interface[*i] = next.map_or(TO_END, |p| place.edges[p - place.first]);
            }
            row.any = row.by_interface.iter().any(|&e| e != TO_END);
        }
        self.rows.set(rows);
        Ok(())
    }

    /// Disables all features on an interface that is being removed.
    pub fn forget(&mut self, interface: u32) {
        let on: Vec<(usize, u64)> =
            self.enabled.iter().filter(|((_, i), _)| *i == interface).map(|((a, _), s)| (*a, *s)).collect();
        for (a, set) in on {
            let (arc, features) = (self.arcs[a].name, self.arcs[a].features.clone());
            for (_, feature) in features.iter().enumerate().filter(|(p, _)| set & (1 << p) != 0) {
                // Both names are from the plan itself, so this cannot fail.
                let _ = self.enable(arc, feature, interface, false);
            }
        }
        self.enabled.retain(|(_, i), _| *i != interface);
    }

    /// Returns all arcs, each with its features in order. A feature's flag is true if the feature is enabled on `interface`.
    pub fn show(&self, interface: u32) -> Vec<(&'static str, Vec<(&'static str, bool)>)> {
        let arcs = self.arcs.iter().enumerate();
        arcs.map(|(a, plan)| {
            let set = self.enabled.get(&(a, interface)).copied().unwrap_or(0);
            let features = plan.features.iter().enumerate().map(|(p, f)| (*f, set & (1 << p) != 0));
            (plan.name, features.collect())
        })
        .collect()
    }
}

//! Who routes are from, and whose is taken.

use graph::GraphError;

/// Who a route is from. Of several routes for a prefix, that of the source with the least distance is taken; of two with the same
/// distance, that of the one which was registered first.
///
/// A connected network has the distance 0, and what the operator says the distance 1, as in Linux, FRR and BIRD; features register
/// theirs between these and 254 ([`Hooks::source`](crate::router::Hooks::source)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    distance: u8,
    id: u8,
}

impl Source {
    /// Follows from an interface's address.
    pub const INTERFACE: Source = Source { distance: 0, id: 0 };
    /// The operator.
    pub const STATIC: Source = Source { distance: 1, id: 1 };
    /// Follows from a neighbour on a connected network.
    pub const NEIGHBOR: Source = Source { distance: 254, id: 2 };
    /// What every table has from the start, and anyone may override: destinations that are nobody's.
    pub const SPECIAL: Source = Source { distance: 255, id: 3 };

    /// How far it is from the truth: 0 is nearest.
    pub fn distance(self) -> u8 {
        self.distance
    }
}

/// The names of sources, as `show ip fib` has them.
pub struct SourceNames(Vec<&'static str>);

impl Default for SourceNames {
    /// Those of the router's own sources.
    fn default() -> SourceNames {
        SourceNames(vec!["interface", "CLI", "adjacency", "special"])
    }
}

impl SourceNames {
    /// A further source.
    ///
    /// # Errors
    /// When the name is taken, the distance is the router's own, or there are too many.
    pub fn register(&mut self, name: &'static str, distance: u8) -> Result<Source, GraphError> {
        let refused = |why: &str| GraphError(format!("routes cannot be from \"{name}\": {why}"));
        if self.0.contains(&name) {
            return Err(refused("others are"));
        }
        if !(Source::STATIC.distance..Source::NEIGHBOR.distance).contains(&distance) {
            return Err(refused("their distance is to be 1 to 253"));
        }
        let id = u8::try_from(self.0.len()).map_err(|_| refused("there are 256 sources already"))?;
        self.0.push(name);
        Ok(Source { distance, id })
    }

    /// The name of a source that was registered here.
    pub fn name(&self, source: Source) -> &'static str {
        self.0.get(usize::from(source.id)).copied().unwrap_or("unknown")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_source_comes_first() {
        let mut names = SourceNames::default();
        let ospf = names.register("ospf", 110).unwrap();
        let bgp = names.register("bgp", 20).unwrap();
        let other = names.register("isis", 110).unwrap();
        let mut all =
            [Source::SPECIAL, other, ospf, Source::NEIGHBOR, bgp, Source::STATIC, Source::INTERFACE];
        all.sort();
        let sorted: Vec<&str> = all.iter().map(|source| names.name(*source)).collect();
        assert_eq!(sorted, ["interface", "CLI", "bgp", "ospf", "isis", "adjacency", "special"]);
        assert_eq!(bgp.distance(), 20);
    }

    #[test]
    fn a_source_that_cannot_be_is_refused() {
        let mut names = SourceNames::default();
        names.register("ospf", 110).unwrap();
        let why = |(name, distance)| names.register(name, distance).unwrap_err().0;
        let [same, near, far] = [("ospf", 115), ("rip", 0), ("rip", 254)].map(why);
        assert!(same.contains("\"ospf\": others are"), "{same}");
        assert!(near.contains("1 to 253") && far.contains("1 to 253"), "{near} {far}");
        let mut registered = 0;
        while names.register(Box::leak(format!("source {registered}").into()), 1).is_ok() {
            registered += 1;
        }
        assert_eq!(registered, 256 - 5);
    }
}

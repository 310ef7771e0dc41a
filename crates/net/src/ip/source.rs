//! Sources of routes and their preference.

use std::num::NonZeroU8;

use graph::GraphError;

/// The source of a route. Of several routes for a prefix, the one with the lowest distance is used. With
/// equal distances, the source that was registered first wins.
///
/// Connected networks have distance 0 and static routes distance 1, as in Linux, FRR and BIRD. Features register sources with distances 1
/// to 253 ([`Hooks::source`](crate::router::Hooks::source)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    distance: u8,
    /// The position among all sources, from 1. The table of routes marks free slots with the unused value 0. A separate mark would need up
    /// to 16 bytes more for each route.
    id: NonZeroU8,
}

impl Source {
    /// The source of routes that the router creates for the addresses of interfaces.
    pub const INTERFACE: Source = Source::own(0, 1);
    /// The source of the operator's static routes.
    pub const STATIC: Source = Source::own(1, 2);
    /// The source of host routes that the router creates for neighbors whose Ethernet address it knows.
    pub const NEIGHBOR: Source = Source::own(254, 3);
    /// The source of the routes for special-purpose addresses, which every table always has. Routes of other
    /// sources override them.
    pub const SPECIAL: Source = Source::own(255, 4);

    const fn own(distance: u8, id: u8) -> Source {
        let Some(id) = NonZeroU8::new(id) else { panic!("positions begin at 1") };
        Source { distance, id }
    }

    /// The administrative distance: lower is preferred.
    pub fn distance(self) -> u8 {
        self.distance
    }
}

/// The names of sources in `show ip fib`.
pub struct SourceNames(Vec<&'static str>);

impl Default for SourceNames {
    /// The router's own sources.
    fn default() -> SourceNames {
        SourceNames(vec!["interface", "CLI", "adjacency", "special"])
    }
}

impl SourceNames {
    /// Registers a source.
    ///
    /// # Errors
    /// If the name is taken, the distance is not 1 to 253, or there are too many sources.
    pub fn register(&mut self, name: &'static str, distance: u8) -> Result<Source, GraphError> {
        let refused = |why: &str| GraphError(format!("cannot declare the route source \"{name}\": {why}"));
        if self.0.contains(&name) {
            return Err(refused("the name is taken"));
        }
        if !(Source::STATIC.distance..Source::NEIGHBOR.distance).contains(&distance) {
            return Err(refused("the distance must be 1 to 253"));
        }
        let next = u8::try_from(self.0.len() + 1).ok().and_then(NonZeroU8::new);
        let id = next.ok_or_else(|| refused("there are 255 sources already"))?;
        self.0.push(name);
        Ok(Source { distance, id })
    }

    /// Returns the name of a registered source.
    pub fn name(&self, source: Source) -> &'static str {
        self.0.get(usize::from(source.id.get()) - 1).copied().unwrap_or("unknown")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_sorted_by_distance() {
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
    fn invalid_sources_are_refused() {
        let mut names = SourceNames::default();
        names.register("ospf", 110).unwrap();
        let why = |(name, distance)| names.register(name, distance).unwrap_err().0;
        let [same, near, far] = [("ospf", 115), ("rip", 0), ("rip", 254)].map(why);
        assert!(same.contains("\"ospf\": the name is taken"), "{same}");
        assert!(near.contains("1 to 253") && far.contains("1 to 253"), "{near} {far}");
        let mut registered = 0;
        while names.register(Box::leak(format!("source {registered}").into()), 1).is_ok() {
            registered += 1;
        }
        assert_eq!(registered, 255 - 5);
    }
}

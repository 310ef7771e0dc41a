//! Routing tables of a scenario: prefixes with one next hop each, and a simple lookup with one map for each prefix length.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use testkit::rib::{self, Family, Random};
use testkit::skip::skipped;

use crate::hop::{HOPS, gateway};

/// Returns the forwarded prefixes of a real routing table, shuffled. Without a file of a real table, the prefixes are
/// generated, and this is reported as skipped.
///
/// # Panics
/// When the file of a real table cannot be read.
pub fn real<A: Family>(r: &mut Random) -> rib::Prefixes<A> {
    let (what, mut prefixes) = rib::real::<A>().unwrap_or_else(|e| panic!("{}: {e}", A::FILE));
    if what != "real" {
        skipped(&format!("needs {}, the file of a real routing table: it ran with a generated one", A::FILE));
    }
    prefixes.retain(|(prefix, _)| prefix.forwarded());
    r.shuffle(&mut prefixes);
    prefixes
}

/// A table of one family.
pub struct Table<A> {
    hops: BTreeMap<Reverse<u8>, HashMap<A, u16>>,
}

impl<A: Family> Table<A> {
    /// Makes a table of these prefixes, each with a random next hop.
    pub fn new(prefixes: &[(A, u8)], r: &mut Random) -> Table<A> {
        let mut table = Table { hops: BTreeMap::new() };
        for (prefix, len) in prefixes {
            let hops = table.hops.entry(Reverse(*len)).or_default();
            hops.insert(*prefix, r.below(HOPS.into()) as u16);
        }
        table
    }

    /// Returns the next hop of a prefix, if the table has the prefix.
    pub fn hop(&self, (prefix, len): (A, u8)) -> Option<u16> {
        self.hops.get(&Reverse(len))?.get(&prefix).copied()
    }

    /// Returns the longest prefix that covers an address, and its next hop; `None` if no prefix covers the address.
    pub fn lookup(&self, to: A) -> Option<((A, u8), u16)> {
        let of = |(Reverse(len), hops): (&Reverse<u8>, &HashMap<A, u16>)| {
            let prefix = to & A::mask(*len);
            hops.get(&prefix).map(|hop| ((prefix, *len), *hop))
        };
        self.hops.iter().find_map(of)
    }

    /// Removes a prefix.
    pub fn remove(&mut self, (prefix, len): (A, u8)) {
        self.hops.get_mut(&Reverse(len)).and_then(|hops| hops.remove(&prefix));
    }

    /// Returns an address whose longest match in the table is this prefix. If 16 tries find none, returns any address of the prefix.
    pub fn destination(&self, prefix: (A, u8), r: &mut Random) -> A {
        let mut any = || Some(rib::below(prefix, r)).filter(|a| a.forwarded()).unwrap_or(prefix.0);
        let own = |a: &A| self.lookup(*a).is_some_and(|(longest, _)| longest == prefix);
        (0..16).map(|_| any()).find(own).unwrap_or_else(any)
    }

    /// Returns the routes of `prefixes` in the format of `ip route load`.
    pub fn lines(&self, prefixes: &[(A, u8)]) -> String {
        let mut lines = String::new();
        for (prefix, len) in prefixes {
            if let Some(hop) = self.hop((*prefix, *len)) {
                let _ = writeln!(lines, "{}/{len} via {}", prefix.to_ip(), gateway::<A>(hop));
            }
        }
        lines
    }
}

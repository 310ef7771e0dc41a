//! The control side of forwarding: routes by prefix and source, paths shared by routes, and the lookup tables that
//! follow from both.
//!
//! A **path** says where packets go; all routes with the same path share it, and with it one forwarding object. A path
//! over a next hop is *resolved* while the next hop's interface is up. Of a prefix's sources the best one with a
//! resolved path is installed; when none has, the prefix is withdrawn, so that a shorter one takes over.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::net::Ipv4Addr;

use infra::class_a::{WordWriter, Writer};
use infra::lpm::{Dir24Reader, Dir24Writer, Lpm, LpmFull, dir24};
use infra::quiesce::{Domain, Mark};

use super::lookup::Fibs;
use super::object::Object;
use super::prefix::Prefix4;
use crate::icmp::Cause;

/// /24s that have longer prefixes in them, at most, in one VRF.
const GROUPS: u32 = 1 << 20;

/// Who a route is from, the most preferred first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Follows from an interface's address.
    Interface,
    /// Follows from a neighbour on a connected network.
    Neighbor,
    /// The operator's.
    Static,
    /// What every table has from the start, and anyone may override: destinations that are nobody's.
    Special,
}

impl Source {
    /// As `show ip fib` has it.
    pub fn name(self) -> &'static str {
        match self {
            Source::Interface => "interface",
            Source::Neighbor => "adjacency",
            Source::Static => "CLI",
            Source::Special => "special",
        }
    }
}

/// Where a route's packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// To a neighbour; without an interface, to whichever connected network it is on.
    Via {
        /// The neighbour.
        next_hop: Ipv4Addr,
        /// By this interface only.
        interface: Option<u32>,
    },
    /// To the destination itself, on the link of this interface.
    Attached(u32),
    /// To this router.
    Local,
    /// Nowhere, without a word.
    Drop,
    /// Nowhere, with an ICMP error.
    Unreachable,
    /// Nowhere, with an ICMP error that says so.
    Prohibit,
    /// To wherever another VRF says.
    Table(u16),
}

impl Path {
    /// Whether it leads over this interface and says so.
    fn names(self, interface: u32) -> bool {
        match self {
            Path::Via { interface: by, .. } => by == Some(interface),
            Path::Attached(by) => by == interface,
            _ => false,
        }
    }
}

/// A path and what depends on it.
#[derive(Debug)]
pub struct PathState {
    /// Index of its forwarding object, which is the leaf in the lookup tables.
    pub object: u32,
    /// What it means now; `None` while it is unresolved.
    pub resolved: Option<Object>,
    routes: u32,
}

/// Why a route could not be added or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// There is no such VRF.
    NoTable(u16),
    /// There is no such route.
    NoRoute(Prefix4),
    /// The VRF cannot go, and why.
    InUse(u16, String),
    /// The tables have no more room.
    Full(String),
}

impl std::fmt::Display for RouteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RouteError::NoTable(t) => write!(f, "there is no table {t}"),
            RouteError::NoRoute(p) => write!(f, "there is no such route for {p}"),
            RouteError::InUse(t, why) => write!(f, "table {t} cannot be removed: {why}"),
            RouteError::Full(why) => write!(f, "no room for another route: {why}"),
        }
    }
}
impl std::error::Error for RouteError {}

impl From<LpmFull> for RouteError {
    fn from(e: LpmFull) -> Self {
        RouteError::Full(e.to_string())
    }
}

/// Resolves nothing: for paths that depend on nothing.
struct NoNeighbors;
impl Resolver for NoNeighbors {
    fn resolve(&mut self, _: u16, _: Path) -> Option<Object> {
        None
    }
    fn release(&mut self, _: Object) {}
}

/// One VRF.
struct Vrf {
    lookup: Dir24Writer,
    routes: BTreeMap<Prefix4, Vec<(Source, Path)>>,
}

/// All VRFs and paths.
pub struct Routes {
    domain: Domain,
    vrfs: BTreeMap<u16, Vrf>,
    paths: HashMap<(u16, Path), PathState>,
    objects: WordWriter,
    /// Objects that no route uses any more, until no worker can be between a leaf and its object.
    unused: VecDeque<(Mark, u32)>,
    published: Writer<Fibs>,
}

/// Destinations that no packet may be forwarded to (RFC 1812 sections 5.3.5.1 and 5.3.7): "this network", loopback,
/// reserved; and the limited broadcast, which is for whoever hears it.
const SPECIAL: [(Ipv4Addr, u8, Path); 4] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, Path::Drop),
    (Ipv4Addr::new(127, 0, 0, 0), 8, Path::Drop),
    (Ipv4Addr::new(240, 0, 0, 0), 4, Path::Drop),
    (Ipv4Addr::BROADCAST, 32, Path::Local),
];

/// Whoever owns interfaces and adjacencies: knows what a path over a next hop or a link means.
pub trait Resolver {
    /// What the path means now; `None` while it is unresolved. An adjacency in the answer has one user more.
    fn resolve(&mut self, fib: u16, path: Path) -> Option<Object>;
    /// One user less for what `resolve` gave.
    fn release(&mut self, object: Object);
}

impl Routes {
    /// No routes, and the VRF 0.
    ///
    /// # Errors
    /// When memory for the tables is not to be had.
    pub fn new(domain: &Domain, mut objects: WordWriter, published: Writer<Fibs>) -> io::Result<Routes> {
        // Leaf 0 means "no route", so index 0 stays what its word says: nothing.
        objects.set(0, 0).map_err(io::Error::other)?;
        let mut routes = Routes {
            domain: domain.clone(),
            vrfs: BTreeMap::new(),
            paths: HashMap::new(),
            objects,
            unused: VecDeque::new(),
            published,
        };
        routes.add_table(0)?;
        Ok(routes)
    }

    /// Adds a VRF; one that exists stays as it is.
    ///
    /// # Errors
    /// When memory for its lookup table is not to be had.
    pub fn add_table(&mut self, fib: u16) -> io::Result<()> {
        if self.vrfs.contains_key(&fib) {
            return Ok(());
        }
        let (lookup, reader) = dir24(&self.domain, GROUPS)?;
        self.vrfs.insert(fib, Vrf { lookup, routes: BTreeMap::new() });
        for (address, len, path) in SPECIAL {
            let prefix = Prefix4::new(address, len);
            self.add(fib, prefix, Source::Special, path, &mut NoNeighbors).map_err(io::Error::other)?;
        }
        self.publish(fib, Some(reader));
        Ok(())
    }

    /// Removes a VRF that nothing uses. Its lookup table takes memory until no worker can look into it any more.
    ///
    /// # Errors
    /// When there is no such VRF, somebody's route is in it, a route of another one leads to it, or it is VRF 0, which
    /// is always there.
    pub fn remove_table(&mut self, fib: u16) -> Result<(), RouteError> {
        let vrf = self.vrfs.get(&fib).ok_or(RouteError::NoTable(fib))?;
        let in_use = |why: String| Err(RouteError::InUse(fib, why));
        if fib == 0 {
            return in_use("it is always there".into());
        }
        let mut asked =
            vrf.routes.iter().filter(|(_, sources)| sources.iter().any(|s| s.0 != Source::Special));
        if let Some((prefix, _)) = asked.next() {
            return in_use(format!("the route {prefix} is in it"));
        }
        if let Some((other, _)) = self.paths.keys().find(|(_, path)| *path == Path::Table(fib)) {
            return in_use(format!("a route of table {other} leads to it"));
        }
        self.publish(fib, None);
        let Some(vrf) = self.vrfs.remove(&fib) else { return Ok(()) };
        for (_, path) in vrf.routes.into_values().flatten() {
            self.leave_path(fib, path, &mut NoNeighbors);
        }
        Ok(())
    }

    fn publish(&mut self, fib: u16, reader: Option<Dir24Reader>) {
        let mut fibs = self.published.get().clone();
        let at = usize::from(fib);
        if fibs.0.len() <= at {
            fibs.0.resize(at + 1, None);
        }
        fibs.0[at] = reader;
        while fibs.0.last().is_some_and(Option::is_none) {
            fibs.0.pop();
        }
        self.published.set(fibs);
    }

    /// The VRFs.
    pub fn tables(&self) -> impl Iterator<Item = u16> {
        self.vrfs.keys().copied()
    }

    /// Adds a route, or changes the path that this source has for the prefix.
    ///
    /// # Errors
    /// When there is no such VRF, or no more room; nothing has changed then.
    pub fn add(
        &mut self,
        fib: u16,
        prefix: Prefix4,
        source: Source,
        path: Path,
        by: &mut impl Resolver,
    ) -> Result<(), RouteError> {
        if !self.vrfs.contains_key(&fib) {
            return Err(RouteError::NoTable(fib));
        }
        self.use_path(fib, path, by)?;
        let Some(vrf) = self.vrfs.get_mut(&fib) else { return Err(RouteError::NoTable(fib)) };
        let sources = vrf.routes.entry(prefix).or_default();
        let old = match sources.binary_search_by_key(&source, |s| s.0) {
            Ok(i) => Some(std::mem::replace(&mut sources[i].1, path)),
            Err(i) => {
                sources.insert(i, (source, path));
                None
            }
        };
        if let Err(e) = self.install(fib, prefix) {
            // Take back what was noted; the lookup table refused, so it has not changed.
            self.forget(fib, prefix, source, old);
            self.leave_path(fib, path, by);
            return Err(e);
        }
        if let Some(old) = old {
            self.leave_path(fib, old, by);
        }
        Ok(())
    }

    fn forget(&mut self, fib: u16, prefix: Prefix4, source: Source, old: Option<Path>) {
        let Some(vrf) = self.vrfs.get_mut(&fib) else { return };
        let Some(sources) = vrf.routes.get_mut(&prefix) else { return };
        match old {
            Some(path) => sources.iter_mut().filter(|s| s.0 == source).for_each(|s| s.1 = path),
            None => sources.retain(|s| s.0 != source),
        }
        if sources.is_empty() {
            vrf.routes.remove(&prefix);
        }
    }

    /// Removes what `source` says of a prefix.
    ///
    /// # Errors
    /// When it says nothing.
    pub fn remove(
        &mut self,
        fib: u16,
        prefix: Prefix4,
        source: Source,
        by: &mut impl Resolver,
    ) -> Result<Path, RouteError> {
        let vrf = self.vrfs.get(&fib).ok_or(RouteError::NoTable(fib))?;
        let sources = vrf.routes.get(&prefix).ok_or(RouteError::NoRoute(prefix))?;
        let (_, path) = *sources.iter().find(|s| s.0 == source).ok_or(RouteError::NoRoute(prefix))?;
        self.forget(fib, prefix, source, None);
        self.install(fib, prefix)?;
        self.leave_path(fib, path, by);
        Ok(path)
    }

    /// Removes every route whose path names this interface, whoever it is from: its index may soon be another one's.
    pub fn forget_interface(&mut self, interface: u32, by: &mut impl Resolver) {
        let fibs: BTreeSet<u16> =
            self.paths.keys().filter(|(_, path)| path.names(interface)).map(|(fib, _)| *fib).collect();
        for fib in fibs {
            let Some(vrf) = self.vrfs.get(&fib) else { continue };
            let of = |(p, s): (&Prefix4, &Vec<(Source, Path)>)| {
                s.iter().filter(|s| s.1.names(interface)).map(|s| (*p, s.0)).collect::<Vec<_>>()
            };
            for (prefix, source) in vrf.routes.iter().flat_map(of).collect::<Vec<_>>() {
                if let Err(e) = self.remove(fib, prefix, source, by) {
                    tracing::error!("{prefix} in table {fib}: {e}");
                }
            }
        }
    }

    /// Puts into the lookup table what the prefix's sources say.
    fn install(&mut self, fib: u16, prefix: Prefix4) -> Result<(), RouteError> {
        let Some(vrf) = self.vrfs.get_mut(&fib) else { return Err(RouteError::NoTable(fib)) };
        let sources = vrf.routes.get(&prefix).map_or(&[][..], |s| s);
        let best = sources.iter().find_map(|s| {
            let state = self.paths.get(&(fib, s.1))?;
            state.resolved.map(|_| state.object)
        });
        match best {
            Some(leaf) => {
                vrf.lookup.insert(prefix.bits(), prefix.len(), leaf)?;
            }
            None => {
                vrf.lookup.remove(prefix.bits(), prefix.len());
            }
        }
        Ok(())
    }

    fn use_path(&mut self, fib: u16, path: Path, by: &mut impl Resolver) -> Result<(), RouteError> {
        if let Some(state) = self.paths.get_mut(&(fib, path)) {
            state.routes += 1;
            return Ok(());
        }
        let resolved = constant(path).or_else(|| by.resolve(fib, path));
        let word = resolved.unwrap_or(Object::Report(Cause::HostUnreachable)).to_word();
        let object = self.objects.insert(word).map_err(|e| {
            resolved.into_iter().for_each(|object| by.release(object));
            RouteError::Full(e.to_string())
        })?;
        self.paths.insert((fib, path), PathState { object, resolved, routes: 1 });
        Ok(())
    }

    fn leave_path(&mut self, fib: u16, path: Path, by: &mut impl Resolver) {
        let Some(state) = self.paths.get_mut(&(fib, path)) else { return };
        state.routes -= 1;
        if state.routes == 0 {
            self.unused.push_back((self.domain.mark(), state.object));
            if let Some(object) = state.resolved {
                by.release(object);
            }
            self.paths.remove(&(fib, path));
        }
    }

    /// Gives objects back that no worker can look at any more. Called once a turn.
    pub fn collect(&mut self) {
        while self.unused.front().is_some_and(|(mark, _)| self.domain.passed(*mark)) {
            if let Some((_, object)) = self.unused.pop_front() {
                self.objects.remove(object);
            }
        }
    }

    /// Whether any route uses this path.
    pub fn uses(&self, fib: u16, path: Path) -> bool {
        self.paths.contains_key(&(fib, path))
    }

    /// Asks again what every path over a next hop or a link means; prefixes come and go with them.
    pub fn resolve_again(&mut self, by: &mut impl Resolver) {
        let mut flipped = Vec::new();
        for ((fib, path), state) in &mut self.paths {
            if constant(*path).is_some() {
                continue;
            }
            let now = by.resolve(*fib, *path);
            let before = std::mem::replace(&mut state.resolved, now);
            if let (Some(object), true) = (now, now != before) {
                // The index is in use, so it lies within the capacity.
                let _ = self.objects.set(state.object, object.to_word());
            }
            // Only now: what the object said until now had to be there as long as it said so.
            if let Some(before) = before {
                by.release(before);
            }
            if now.is_some() != before.is_some() {
                flipped.push((*fib, *path));
            }
        }
        for (fib, path) in flipped {
            let Some(vrf) = self.vrfs.get(&fib) else { continue };
            let of_path = vrf.routes.iter().filter(|(_, sources)| sources.iter().any(|s| s.1 == path));
            let prefixes: Vec<Prefix4> = of_path.map(|(p, _)| *p).collect();
            for prefix in prefixes {
                if let Err(e) = self.install(fib, prefix) {
                    tracing::error!("{prefix} in table {fib}: {e}");
                }
            }
        }
    }

    /// Every route of a VRF in order of prefix: sources with their paths, the best first.
    pub fn iter(&self, fib: u16) -> impl Iterator<Item = (Prefix4, &[(Source, Path)])> {
        let routes = self.vrfs.get(&fib).map(|v| &v.routes);
        routes.into_iter().flatten().map(|(p, s)| (*p, s.as_slice()))
    }

    /// How many prefixes of a VRF have routes.
    pub fn count(&self, fib: u16) -> usize {
        self.vrfs.get(&fib).map_or(0, |v| v.routes.len())
    }

    /// What the sources say of this very prefix.
    pub fn exact(&self, fib: u16, prefix: Prefix4) -> &[(Source, Path)] {
        self.vrfs.get(&fib).and_then(|v| v.routes.get(&prefix)).map_or(&[], |s| s)
    }

    /// The route that packets to `address` take: the longest prefix with a resolved path.
    pub fn lookup(&self, fib: u16, address: Ipv4Addr) -> Option<(Prefix4, Source, Path)> {
        let vrf = self.vrfs.get(&fib)?;
        (0..=32).rev().find_map(|len| {
            let prefix = Prefix4::new(address, len);
            let sources = vrf.routes.get(&prefix)?;
            let best = sources.iter().find(|s| self.path(fib, s.1).is_some_and(|p| p.resolved.is_some()))?;
            Some((prefix, best.0, best.1))
        })
    }

    /// The route with the longest prefix shorter than a host's that packets to `address` would take.
    pub fn covering(&self, fib: u16, address: Ipv4Addr) -> Option<(Prefix4, Path)> {
        let vrf = self.vrfs.get(&fib)?;
        (0..32).rev().find_map(|len| {
            let prefix = Prefix4::new(address, len);
            let sources = vrf.routes.get(&prefix)?;
            let best = sources.iter().find(|s| self.path(fib, s.1).is_some_and(|p| p.resolved.is_some()))?;
            Some((prefix, best.1))
        })
    }

    /// The state of a path.
    pub fn path(&self, fib: u16, path: Path) -> Option<&PathState> {
        self.paths.get(&(fib, path))
    }

    /// How many forwarding objects there are, those included that wait for workers to pass.
    #[cfg(test)]
    pub(crate) fn objects_in_use(&self) -> usize {
        self.paths.len() + self.unused.len()
    }

    /// Memory of a VRF's lookup table in bytes.
    pub fn memory_bytes(&self, fib: u16) -> usize {
        self.vrfs.get(&fib).map_or(0, |v| v.lookup.memory_bytes())
    }
}

/// What a path means that depends on nothing.
fn constant(path: Path) -> Option<Object> {
    match path {
        Path::Local => Some(Object::Local),
        Path::Drop => Some(Object::Drop),
        Path::Unreachable => Some(Object::Report(Cause::HostUnreachable)),
        Path::Prohibit => Some(Object::Report(Cause::Prohibited)),
        Path::Table(t) => Some(Object::Table(t)),
        Path::Via { .. } | Path::Attached(_) => None,
    }
}

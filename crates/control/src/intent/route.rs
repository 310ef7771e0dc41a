//! Routes.

use std::fmt;
use std::net::IpAddr;

use model::key::{Kind, MANY, Need, Role};
use model::object::Fact;
use net::ip::{BadPaths, IpPrefix, MAX_WAYS, Path, PathList, Weighted};
use net::objects;

use super::address::is_link_local;
use super::index::{self, Find};
use super::{Family, Get, Key, Object, Refused, View, refuse, table};
use crate::cli::quote;
use crate::system::{Abilities, System};

/// The prefix length of the link-local addresses (RFC 4291 section 2.4).
const LINK_LOCAL_LEN: u8 = 10;

/// The target of a path, with interfaces by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Via {
    /// A next hop, on the given interface or found by a lookup of its address.
    NextHop(IpAddr, Option<String>),
    /// The destination itself, on the link of this interface.
    Attached(String),
    /// The router itself: packets are delivered as for its own addresses.
    Local,
    /// Drops packets.
    Drop,
    /// Drops packets with an ICMP error: unreachable.
    Unreachable,
    /// Drops packets with an ICMP error: prohibited.
    Prohibit,
    /// A lookup in another VRF.
    Table(Family, u32),
}

impl fmt::Display for Via {
    /// Writes the target in the form of the command that adds the route.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Via::NextHop(ip, None) => write!(f, "via {ip}"),
            Via::NextHop(ip, Some(i)) => write!(f, "via {ip} {}", quote(i)),
            Via::Attached(i) => write!(f, "via {}", quote(i)),
            Via::Table(family, t) => write!(f, "via {}-lookup-in-table {t}", family.word()),
            Via::Local | Via::Drop | Via::Unreachable | Via::Prohibit => {
                write!(f, "via {}", self.word().unwrap_or_default())
            }
        }
    }
}

impl Via {
    /// The targets that are a word, in commands and files.
    pub const WORDS: [(&str, Via); 4] = [
        ("local", Via::Local),
        ("drop", Via::Drop),
        ("unreachable", Via::Unreachable),
        ("prohibit", Via::Prohibit),
    ];

    /// Returns the word of the target, if it is one of [`WORDS`](Via::WORDS).
    pub fn word(&self) -> Option<&'static str> {
        Via::WORDS.iter().find(|(_, via)| via == self).map(|(word, _)| *word)
    }

    /// Returns the target that is this word.
    pub fn of_word(word: &str) -> Option<Via> {
        Via::WORDS.into_iter().find(|(of, _)| *of == word).map(|(_, via)| via)
    }

    /// Returns the interface of the target, if the target has one.
    pub(super) fn interface(&self) -> Option<&String> {
        match self {
            Via::NextHop(_, Some(i)) | Via::Attached(i) => Some(i),
            _ => None,
        }
    }

    /// True if a path with this target can be one of several paths that share the route's flows.
    pub fn shares(&self) -> bool {
        matches!(self, Via::NextHop(..) | Via::Attached(_))
    }
}

/// A path of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The target.
    pub via: Via,
    /// The share of flows relative to the other paths, 1 to 255.
    pub weight: u8,
}

/// A static route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    paths: Paths,
}

/// The paths of a route. A single path of weight 1 is the common case, so it is stored without a list.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Paths {
    One(Via),
    /// Several paths, or a path with another weight than 1: sorted, without duplicates.
    Weighted(Box<[Branch]>),
}

impl From<Via> for Route {
    fn from(via: Via) -> Route {
        Route { paths: Paths::One(via) }
    }
}

impl Branch {
    /// Checks that a route with the valid paths `others` may also have this path.
    ///
    /// # Errors
    /// Returns the reason why the route may not have this path.
    pub fn may_join(&self, others: &[Branch]) -> Result<(), BadPaths> {
        match others {
            [] => Ok(()),
            _ if others.iter().any(|other| other.via == self.via) => Err(BadPaths::Twice),
            _ if !others.iter().chain([self]).all(|one| one.via.shares()) => Err(BadPaths::Alone),
            _ if others.len() >= MAX_WAYS => Err(BadPaths::TooMany),
            _ => Ok(()),
        }
    }
}

impl Route {
    /// Returns a route with these distinct paths; `None` if there are no paths.
    pub fn new(mut paths: Vec<Branch>) -> Option<Route> {
        match &mut paths[..] {
            [] => None,
            // A path that shares no flows needs no weight.
            [Branch { via, weight }] if *weight == 1 || !via.shares() => Some(Route::from(via.clone())),
            several => {
                several.sort_by(|a, b| a.via.cmp(&b.via));
                Some(Route { paths: Paths::Weighted(paths.into()) })
            }
        }
    }

    /// Returns the paths of the route with their weights.
    pub fn paths(&self) -> impl Iterator<Item = (&Via, u8)> {
        let (one, weighted) = match &self.paths {
            Paths::One(via) => (Some((via, 1)), &[][..]),
            Paths::Weighted(paths) => (None, &paths[..]),
        };
        one.into_iter().chain(weighted.iter().map(|b| (&b.via, b.weight)))
    }

    fn branches(&self) -> impl Iterator<Item = Branch> {
        self.paths().map(|(via, weight)| Branch { via: via.clone(), weight })
    }

    /// Returns the route with one more path, or with a new weight of an existing one. A path that cannot share flows
    /// replaces all others, and is replaced by any other.
    pub fn with(&self, branch: Branch) -> Route {
        let shared = branch.via.shares() && self.paths().all(|(via, _)| via.shares());
        let others = self.branches().filter(|b| shared && b.via != branch.via);
        let paths = others.chain([branch.clone()]).collect();
        Route::new(paths).unwrap_or_else(|| Route::from(branch.via))
    }

    /// Adds these paths, in this order, to the route `there`, or to a new route. Returns the result; `None` if there is
    /// neither a route nor a path.
    pub fn joined(there: Option<&Route>, branches: &[Branch]) -> Option<Route> {
        branches.iter().fold(there.cloned(), |route, branch| match route {
            Some(route) => Some(route.with(branch.clone())),
            None => Route::new(vec![branch.clone()]),
        })
    }

    /// Returns the route without this path: `Some(None)` if no path is left; `None` if the route does not have the path.
    pub fn without(&self, via: &Via) -> Option<Option<Route>> {
        let has = self.paths().any(|(other, _)| other == via);
        has.then(|| Route::new(self.branches().filter(|b| b.via != *via).collect()))
    }

    /// Returns the index of the first path that is invalid by itself, in a route of the VRF `table` for `prefix`.
    pub fn misfit(branches: &[Branch], table: u32, prefix: IpPrefix, view: &View<'_>) -> Option<usize> {
        branches.iter().position(|branch| branch.via.validate(table, prefix, view).is_err())
    }

    /// Returns the key of a route.
    pub fn key(table: u32, prefix: IpPrefix) -> Key {
        Key::of::<Route>(&(table, prefix))
    }
}

impl Kind for Route {
    type Key = (u32, IpPrefix);
    const NAME: &'static str = "route";
    const PHASE: u16 = MANY;
    const CONTAINER: Option<&'static Role> = Some(&objects::TABLE);

    fn title((table, prefix): &Self::Key) -> String {
        format!("route {prefix} in table {table}")
    }
}

impl Object<System> for Route {
    fn validate(&self, key: &Self::Key, view: &View<'_>, _: &Abilities) -> Result<(), Refused> {
        let (table, prefix) = *key;
        table::must_have(table, view)?;
        if prefix.len() >= LINK_LOCAL_LEN && is_link_local(prefix.address()) {
            return refuse(format!("{prefix} is link-local: the router adds its routes automatically"));
        }
        // Interfaces have no indices yet, so stand-ins are used to check the other rules of a path list.
        let stand_in = |(n, (via, weight)): (usize, (&Via, u8))| {
            let path = if via.shares() { Path::Attached(n as u32) } else { Path::Drop };
            Weighted { path, weight }
        };
        if let Err(e) = PathList::new(self.paths().enumerate().map(stand_in).collect()) {
            return refuse(format!("{prefix}: {e}"));
        }
        self.paths().try_for_each(|(via, _)| via.validate(table, prefix, view))
    }

    fn apply(&self, key: &Self::Key, _: Option<&Self>, system: &mut System) -> Result<(), Refused> {
        let (table, prefix) = *key;
        let weighted = |(via, weight): (&Via, u8)| Ok(Weighted { path: via.path(system)?, weight });
        let paths: Result<Vec<Weighted>, Refused> = self.paths().map(weighted).collect();
        // Fails only if two names lead to the same interface, which validation prevents.
        let list = PathList::new(paths?).map_err(|e| Refused::new(format!("{prefix}: {e}")))?;
        Ok(system.router.add_route(system.router.fib(table)?, prefix, list)?)
    }

    fn withdraw(&self, (table, prefix): &Self::Key, system: &mut System) -> Result<(), Refused> {
        system.router.remove_route(system.router.fib(*table)?, *prefix)?;
        Ok(())
    }

    fn dump(&self, (table, prefix): &Self::Key, _: bool) -> Vec<String> {
        let table = if *table == 0 { String::new() } else { format!(" table {table}") };
        let paths: Vec<String> = self.branches().map(|branch| branch.to_string()).collect();
        vec![format!("ip route add {prefix}{table} {}", paths.join(" "))]
    }

    fn needs(&self, (table, _): &Self::Key, to: &mut dyn FnMut(Need)) {
        objects::table(*table).into_iter().for_each(&mut *to);
        for (via, _) in self.paths() {
            let need = match via {
                Via::Table(_, other) => objects::table(*other),
                via => via.interface().map(|name| objects::interface(name)),
            };
            need.into_iter().for_each(&mut *to);
        }
    }

    fn alike((table, prefix): &Self::Key, (other_table, other): &Self::Key) -> bool {
        // Two properties of the prefix matter: its family, and whether it may be link-local.
        let is_plain = |prefix: &IpPrefix| prefix.len() < LINK_LOCAL_LEN || !is_link_local(prefix.address());
        let is_v6 = |prefix: &IpPrefix| prefix.address().is_ipv6();
        table == other_table && is_v6(prefix) == is_v6(other) && is_plain(prefix) && is_plain(other)
    }

    fn facts(&self, (table, _): &Self::Key, _: Get<'_>, to: &mut dyn FnMut(Fact)) {
        for (via, _) in self.paths() {
            if let Via::NextHop(ip, by) = via {
                to(Fact::new(index::NEXT_HOPS, (ip, by, table)));
            }
        }
    }
}

impl fmt::Display for Branch {
    /// Writes the path in the form of the command that adds it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.weight {
            1 => write!(f, "{}", self.via),
            weight => write!(f, "{} weight {weight}", self.via),
        }
    }
}

impl fmt::Display for Route {
    /// Writes all paths of the route.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<String> = self.branches().map(|branch| branch.to_string()).collect();
        f.write_str(&paths.join(" and "))
    }
}

impl Via {
    fn validate(&self, table: u32, prefix: IpPrefix, view: &View<'_>) -> Result<(), Refused> {
        let family = Family::of(prefix.address());
        match self {
            Via::NextHop(ip, _) if Family::of(*ip) != family => {
                return refuse(format!(
                    "{ip} cannot be the next hop of {prefix}: it is not an {} address",
                    family.name()
                ));
            }
            Via::Table(other, _) if *other != family => {
                return refuse(format!(
                    "{prefix} needs {}-lookup-in-table: the lookup must have the route's address family",
                    family.word()
                ));
            }
            _ => {}
        }
        if let Some(interface) = self.own_next_hop(table, view) {
            return refuse(format!(
                "the next hop of {prefix} is the router's own address on {interface}: use a neighbor's"
            ));
        }
        match self {
            Via::NextHop(ip, _) if is_no_host(*ip) => {
                refuse(format!("{ip} cannot be the next hop of {prefix}: it is not a host address"))
            }
            Via::NextHop(ip, None) if is_link_local(*ip) => {
                refuse(format!("{ip} is link-local: set the interface of the next hop too"))
            }
            Via::NextHop(_, Some(i)) | Via::Attached(i) => view.must_have_interface(i)?.can_send(i),
            Via::Table(_, t) => {
                table::must_have(*t, view)?;
                match *t == table {
                    true => refuse(format!("{prefix} cannot be looked up in its own table {t}")),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Returns the interface that has the next hop as one of its own addresses, if there is one.
    fn own_next_hop(&self, table: u32, view: &View<'_>) -> Option<String> {
        let Via::NextHop(ip, by) = self else { return None };
        let mut owners = index::owners(view, hop_table(by.as_deref(), table, view), *ip);
        owners.find(|owner| !is_link_local(*ip) || by.as_deref() == Some(owner))
    }

    fn path(&self, system: &System) -> Result<Path, Refused> {
        Ok(match self {
            Via::NextHop(next_hop, interface) => {
                let interface = interface.as_deref().map(|i| system.index(i)).transpose()?;
                Path::Via { next_hop: *next_hop, interface }
            }
            Via::Attached(interface) => Path::Attached(system.index(interface)?),
            Via::Local => Path::Local,
            Via::Drop => Path::Drop,
            Via::Unreachable => Path::Unreachable,
            Via::Prohibit => Path::Prohibit,
            Via::Table(_, t) => Path::Table(system.router.fib(*t)?),
        })
    }
}

/// Returns the VRF of a next hop: that of the interface `by` if it is given, otherwise `table`, the VRF of the route.
fn hop_table(by: Option<&str>, table: u32, view: &View<'_>) -> u32 {
    by.and_then(|i| view.interface(i)).map_or(table, |i| i.table)
}

/// True if no host can have this address on any link.
fn is_no_host(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    broadcast || ip.is_unspecified() || ip.is_multicast() || matches!(ip, IpAddr::V6(ip) if ip.is_loopback())
}

/// Returns the prefix of a route whose next hop is `address`, if there is such a route. `address` is an address of `interface`, which is in
/// the VRF `table`.
pub(super) fn leading_to(address: IpAddr, interface: &str, table: u32, view: &View<'_>) -> Option<IpPrefix> {
    let leads = |by: Option<&str>, t| match is_link_local(address) {
        true => by == Some(interface),
        false => hop_table(by, t, view) == table,
    };
    if !index::leading_to(view, address).any(|(by, t)| leads(by.as_deref(), t)) {
        return None;
    }
    // The change will be refused, so a slow search for the reason is fine.
    view.range(Key::all::<Route>()).find_map(|(key, value)| {
        let (t, prefix) = key.get::<Route>()?;
        let leads =
            |via: &Via| matches!(via, Via::NextHop(ip, by) if *ip == address && leads(by.as_deref(), t));
        value.get::<Route>()?.paths().any(|(via, _)| leads(via)).then_some(prefix)
    })
}

//! Routes.

use std::fmt;
use std::net::IpAddr;

use model::key::{Kind, MANY, Need, Role};
use model::object::Fact;
use net::ip::{BadPaths, IpPrefix, MAX_WAYS, Path, PathList, Weighted};
use net::objects;

use super::address::is_link_local;
use super::index::{self, Find};
use super::{Abilities, Family, Get, Key, Object, Refused, View, refuse, table};
use crate::cli::quote;
use crate::system::System;

/// The length of the prefix that all link-local addresses have (RFC 4291 section 2.4).
const LINK_LOCAL_LEN: u8 = 10;

/// Where packets go, by names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Via {
    /// To a neighbour, by a certain interface or by whichever connected network it is on.
    NextHop(IpAddr, Option<String>),
    /// To the destination itself, on the link of this interface.
    Attached(String),
    /// Nowhere.
    Drop,
    /// Nowhere, with an ICMP error.
    Unreachable,
    /// Nowhere, with an ICMP error that says so.
    Prohibit,
    /// To wherever another VRF says.
    Table(Family, u16),
}

impl fmt::Display for Via {
    /// As the command that adds the route has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Via::NextHop(ip, None) => write!(f, "via {ip}"),
            Via::NextHop(ip, Some(i)) => write!(f, "via {ip} {}", quote(i)),
            Via::Attached(i) => write!(f, "via {}", quote(i)),
            Via::Drop => f.write_str("via drop"),
            Via::Unreachable => f.write_str("via unreachable"),
            Via::Prohibit => f.write_str("via prohibit"),
            Via::Table(family, t) => write!(f, "via {}-lookup-in-table {t}", family.word()),
        }
    }
}

impl Via {
    /// The interface that it names, if it does.
    pub(super) fn interface(&self) -> Option<&String> {
        match self {
            Via::NextHop(_, Some(i)) | Via::Attached(i) => Some(i),
            _ => None,
        }
    }

    /// Whether it can share a route's flows with others.
    pub fn shares(&self) -> bool {
        matches!(self, Via::NextHop(..) | Via::Attached(_))
    }
}

/// One of the paths of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Where its packets go.
    pub via: Via,
    /// How many of the flows it has in comparison to the others, 1 to 255.
    pub weight: u8,
}

/// A route that the operator named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    paths: Paths,
}

/// Most of a million routes have one path of weight 1.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Paths {
    One(Via),
    /// In order, each once.
    Weighted(Box<[Branch]>),
}

impl From<Via> for Route {
    fn from(via: Via) -> Route {
        Route { paths: Paths::One(via) }
    }
}

impl Branch {
    /// Whether a route may have it beside these, which may be together themselves.
    ///
    /// # Errors
    /// Why not.
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
    /// One with these paths, each once; `None` without any.
    pub fn new(mut paths: Vec<Branch>) -> Option<Route> {
        match &mut paths[..] {
            [] => None,
            // What shares nothing has no weight.
            [Branch { via, weight }] if *weight == 1 || !via.shares() => Some(Route::from(via.clone())),
            several => {
                several.sort_by(|a, b| a.via.cmp(&b.via));
                Some(Route { paths: Paths::Weighted(paths.into()) })
            }
        }
    }

    /// Its paths with their weights.
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

    /// The same with one more path, or with another weight of one that it has. A path that shares no flows with others takes
    /// their place, and gives way to any.
    pub fn with(&self, branch: Branch) -> Route {
        let shared = branch.via.shares() && self.paths().all(|(via, _)| via.shares());
        let others = self.branches().filter(|b| shared && b.via != branch.via);
        let paths = others.chain([branch.clone()]).collect();
        Route::new(paths).unwrap_or_else(|| Route::from(branch.via))
    }

    /// What becomes of a route, or of none, with these paths one after the other; `None` without any.
    pub fn joined(there: Option<&Route>, branches: &[Branch]) -> Option<Route> {
        branches.iter().fold(there.cloned(), |route, branch| match route {
            Some(route) => Some(route.with(branch.clone())),
            None => Route::new(vec![branch.clone()]),
        })
    }

    /// The same without this path, if it has it; `Some(None)` when nothing is left.
    pub fn without(&self, via: &Via) -> Option<Option<Route>> {
        let has = self.paths().any(|(other, _)| other == via);
        has.then(|| Route::new(self.branches().filter(|b| b.via != *via).collect()))
    }

    /// The first of these paths that no route of `table` for `prefix` can have, whatever the others are.
    pub fn misfit(branches: &[Branch], table: u16, prefix: IpPrefix, view: &View<'_>) -> Option<usize> {
        branches.iter().position(|branch| branch.via.validate(table, prefix, view).is_err())
    }

    /// The key of a route.
    pub fn key(table: u16, prefix: IpPrefix) -> Key {
        Key::of::<Route>(&(table, prefix))
    }
}

impl Kind for Route {
    type Key = (u16, IpPrefix);
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
            return refuse(format!("{prefix} is on every link: its routes follow from the interfaces"));
        }
        // Interfaces have names here, and no numbers yet; the rest of what makes a list is looked at.
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
        // Two names may mean one interface only if nobody has validated them.
        let list = PathList::new(paths?).map_err(|e| Refused(format!("{prefix}: {e}")))?;
        Ok(system.router.add_route(table, prefix, list)?)
    }

    fn withdraw(&self, (table, prefix): &Self::Key, system: &mut System) -> Result<(), Refused> {
        system.router.remove_route(*table, *prefix)?;
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

    fn facts(&self, (table, _): &Self::Key, _: Get<'_>, to: &mut dyn FnMut(Fact)) {
        for (via, _) in self.paths() {
            if let Via::NextHop(ip, by) = via {
                to(Fact::new(index::NEXT_HOPS, (ip, by, table)));
            }
        }
    }
}

impl fmt::Display for Branch {
    /// As the command that adds the path has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.weight {
            1 => write!(f, "{}", self.via),
            weight => write!(f, "{} weight {weight}", self.via),
        }
    }
}

impl fmt::Display for Route {
    /// Its paths, one behind the other.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<String> = self.branches().map(|branch| branch.to_string()).collect();
        f.write_str(&paths.join(" and "))
    }
}

impl Via {
    fn validate(&self, table: u16, prefix: IpPrefix, view: &View<'_>) -> Result<(), Refused> {
        let family = Family::of(prefix.address());
        match self {
            Via::NextHop(ip, _) if Family::of(*ip) != family => {
                return refuse(format!(
                    "{ip} cannot be the next hop of {prefix}: it is no {} address",
                    family.name()
                ));
            }
            Via::Table(other, _) if *other != family => {
                return refuse(format!(
                    "{prefix} can only be looked up by {}-lookup-in-table",
                    family.word()
                ));
            }
            _ => {}
        }
        if let Some(interface) = self.own_next_hop(table, view) {
            return refuse(format!(
                "the next hop of {prefix} is the router's own address on {interface}: name a neighbour's"
            ));
        }
        match self {
            Via::NextHop(ip, _) if is_no_host(*ip) => {
                refuse(format!("{ip} cannot be the next hop of {prefix}: it is no host's address"))
            }
            Via::NextHop(ip, None) if is_link_local(*ip) => {
                refuse(format!("{ip} may be on any link: name the interface that it is on, too"))
            }
            Via::NextHop(_, Some(i)) | Via::Attached(i) => view.must_have_interface(i).map(|_| ()),
            Via::Table(_, t) => {
                table::must_have(*t, view)?;
                match *t == table {
                    true => refuse(format!("{prefix} would look itself up again in table {t}")),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// The interface of this router that has the address of the next hop, if one does.
    fn own_next_hop(&self, table: u16, view: &View<'_>) -> Option<String> {
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
            Via::Drop => Path::Drop,
            Via::Unreachable => Path::Unreachable,
            Via::Prohibit => Path::Prohibit,
            Via::Table(_, t) => Path::Table(*t),
        })
    }
}

/// The VRF that the next hop of a route in `table` is in: that of the interface which the route names, if it does.
fn hop_table(by: Option<&str>, table: u16, view: &View<'_>) -> u16 {
    by.and_then(|i| view.interface(i)).map_or(table, |i| i.table)
}

/// Whether no host can have this address, on whatever link.
fn is_no_host(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    broadcast || ip.is_unspecified() || ip.is_multicast() || matches!(ip, IpAddr::V6(ip) if ip.is_loopback())
}

/// The prefix of a route whose next hop is this address of an interface in this VRF, if there is one.
pub(super) fn leading_to(address: IpAddr, interface: &str, table: u16, view: &View<'_>) -> Option<IpPrefix> {
    let leads = |by: Option<&str>, t| match is_link_local(address) {
        true => by == Some(interface),
        false => hop_table(by, t, view) == table,
    };
    if !index::leading_to(view, address).any(|(by, t)| leads(by.as_deref(), t)) {
        return None;
    }
    // It is refused, and may take its time to say why.
    view.range(Key::all::<Route>()).find_map(|(key, value)| {
        let (t, prefix) = key.get::<Route>()?;
        let leads =
            |via: &Via| matches!(via, Via::NextHop(ip, by) if *ip == address && leads(by.as_deref(), t));
        value.get::<Route>()?.paths().any(|(via, _)| leads(via)).then_some(prefix)
    })
}

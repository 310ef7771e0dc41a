//! Conversion, changes and dumps of routes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use net::ip::{IpPrefix, Path, PathState, Prefix, Routes};
use vapi::Code;
use vapi::types::{
    fib_path, fib_path_flags, fib_path_nh, fib_path_nh_proto, fib_path_type, interface_index, ip_route,
    prefix,
};

use super::messages::*;
use crate::api::{change, numbers};
use crate::app::Context;
use crate::intent::{Branch, Change, Family, OfFamily, Route, Via};

/// The `stats_index` of all routes: routes have no counters.
pub(super) const NO_COUNTERS: u32 = u32::MAX;

/// Returns the network of a prefix. Clears the prefix's host bits if they are set.
fn network(prefix: &prefix) -> Result<IpPrefix, Code> {
    Ok(change::address(prefix)?.network())
}

/// Adds or removes a route. With `multipath`, adds the given paths to the existing route, or removes them from it. Without, replaces all
/// paths of the route, or removes the route.
pub(super) fn add_del(c: &mut Context, add: bool, multipath: bool, route: &ip_route) -> Result<(), Code> {
    let table = change::table(c, route.table_id)?;
    let prefix = network(&route.prefix)?;
    let key = Route::key(table, prefix);
    if c.batch.has(&key) {
        c.make_batch();
    }
    let there = c.store.get(&key).and_then(|value| value.get::<Route>()).cloned();
    let branch = |path: &fib_path| Ok(Branch { via: via(c, path, table)?, weight: path.weight.max(1) });
    let branches: Vec<Branch> = route.paths.iter().map(branch).collect::<Result<_, Code>>()?;
    let wanted = match (add, multipath) {
        (true, true) => Route::joined(there.as_ref(), &branches),
        (true, false) => Route::joined(None, &branches),
        (false, true) => {
            let mut left = there.clone();
            for branch in &branches {
                left = left.and_then(|route| route.without(&branch.via).unwrap_or(Some(route)));
            }
            left
        }
        (false, false) => None,
    };
    if add && wanted.is_none() {
        return Err(Code::INVALID_VALUE);
    }
    // Like VPP, accepts the removal of what is not there.
    let change = (wanted != there).then(|| Change { key, value: wanted.map(Into::into) });
    match change {
        // A replacement keeps only routes that were really added, so this change is made at once, not in a batch.
        Some(change) if add && c.replacing.has_table(table, prefix) => {
            c.make_batch();
            change::make(c, vec![change])?;
        }
        Some(change) => c.change_in_batch(change).map_err(change::refused)?,
        None => {}
    }
    if add {
        c.replacing.route(table, prefix);
    }
    Ok(())
}

/// Converts a path of the API, for a route in the VRF `table`. Refuses a path if this router would forward its packets differently
/// from VPP.
fn via(c: &Context, path: &fib_path, table: u32) -> Result<Via, Code> {
    let (family, next_hop): (_, IpAddr) = match path.proto {
        fib_path_nh_proto::FIB_API_PATH_NH_PROTO_IP4 => {
            let [a, b, c, d, ..] = path.nh.address.0;
            (Family::V4, Ipv4Addr::new(a, b, c, d).into())
        }
        fib_path_nh_proto::FIB_API_PATH_NH_PROTO_IP6 => {
            (Family::V6, Ipv6Addr::from(path.nh.address.0).into())
        }
        _ => return Err(Code::UNSUPPORTED),
    };
    if path.n_labels > 0 || path.preference > 0 || path.flags != fib_path_flags::FIB_API_PATH_FLAG_NONE {
        return Err(Code::UNSUPPORTED);
    }
    let number = interface_index(path.sw_if_index);
    match path.r#type {
        fib_path_type::FIB_API_PATH_TYPE_NORMAL => {}
        fib_path_type::FIB_API_PATH_TYPE_LOCAL => return Ok(Via::Local),
        fib_path_type::FIB_API_PATH_TYPE_DROP => return Ok(Via::Drop),
        fib_path_type::FIB_API_PATH_TYPE_ICMP_UNREACH => return Ok(Via::Unreachable),
        fib_path_type::FIB_API_PATH_TYPE_ICMP_PROHIBIT => return Ok(Via::Prohibit),
        _ => return Err(Code::UNSUPPORTED),
    }
    let interface = match number {
        interface_index::NONE => None,
        number => Some(numbers::name(c, number)?),
    };
    Ok(match (next_hop.is_unspecified(), interface) {
        (true, Some(interface)) => Via::Attached(interface),
        (true, None) => Via::Table(family, change::table(c, path.table_id)?),
        // A next hop without an interface is looked up in the VRF of its route.
        (false, None) if path.table_id != table => return Err(Code::UNSUPPORTED),
        (false, interface) => Via::NextHop(next_hop, interface),
    })
}

/// Converts a route's path to the type of the API.
fn path_of<A: OfFamily>(c: &Context, path: Path, weight: u8) -> fib_path {
    let proto = match A::FAMILY {
        Family::V4 => fib_path_nh_proto::FIB_API_PATH_NH_PROTO_IP4,
        Family::V6 => fib_path_nh_proto::FIB_API_PATH_NH_PROTO_IP6,
    };
    let mut of = fib_path { sw_if_index: u32::MAX, rpf_id: u32::MAX, weight, proto, ..Default::default() };
    match path {
        Path::Via { next_hop, interface } => {
            of.nh = fib_path_nh { address: next_hop.into(), ..Default::default() };
            of.sw_if_index = interface.map_or(u32::MAX, |index| numbers::number(index).0);
        }
        Path::Attached(index) => of.sw_if_index = numbers::number(index).0,
        Path::Local => of.r#type = fib_path_type::FIB_API_PATH_TYPE_LOCAL,
        Path::Drop => of.r#type = fib_path_type::FIB_API_PATH_TYPE_DROP,
        Path::Unreachable => of.r#type = fib_path_type::FIB_API_PATH_TYPE_ICMP_UNREACH,
        Path::Prohibit => of.r#type = fib_path_type::FIB_API_PATH_TYPE_ICMP_PROHIBIT,
        Path::Table(fib) => of.table_id = c.system.router.vrfs().table(fib),
        Path::Feature(..) | Path::LinkLocal => {}
    }
    of
}

/// Converts a route to the type of the API.
fn route_of<A: OfFamily>(c: &Context, fib: u16, at: Prefix<A>, to: &PathState) -> ip_route {
    let is_host = at.len() == Prefix::host(at.address()).len();
    let owner = || c.system.router.owner(fib, at.address().into()).filter(|_| is_host);
    let path = |path: Path, weight: u8| match (path, path_of::<A>(c, path, weight)) {
        // A route to an own address names the interface with that address.
        (Path::Local, of) => {
            fib_path { sw_if_index: owner().map_or(u32::MAX, |i| numbers::number(i.index).0), ..of }
        }
        (_, of) => of,
    };
    let paths = to.list.weighted().map(|w| path(w.path, w.weight)).collect();
    ip_route {
        table_id: c.system.router.vrfs().table(fib),
        stats_index: NO_COUNTERS,
        prefix: prefix::new(at.address().into(), at.len()),
        paths,
        ..Default::default()
    }
}

/// Returns the route that is used for a prefix. If several sources have a route for it, this is the first route with resolved paths or, if
/// there is none, the first route.
fn used<A: OfFamily>(c: &Context, fib: u16, at: Prefix<A>) -> Option<ip_route> {
    let routes = c.system.router.routes::<A>();
    let resolved = routes.exact(fib, at).map(|(_, to)| to).find(|to| to.resolved.is_some());
    let to = resolved.or_else(|| routes.exact(fib, at).map(|(_, to)| to).next())?;
    Some(route_of(c, fib, at, to))
}

/// A dump of the routes of a VRF, one part of the FIB after the other. Routes may be added and removed between two parts.
pub(super) struct Dump<A: OfFamily> {
    fib: u16,
    /// Index of the next part of the FIB to read.
    part: usize,
    waiting: Vec<Prefix<A>>,
}

impl<A: OfFamily> Dump<A> {
    pub(super) fn new(fib: u16) -> Dump<A> {
        Dump { fib, part: 0, waiting: Vec::new() }
    }

    /// Returns the next route. Skips routes to link-local addresses: each belongs to one interface, which VPP's messages cannot name.
    pub(super) fn next(&mut self, c: &Context) -> Option<ip_route> {
        loop {
            while let Some(at) = self.waiting.pop() {
                if A::unscoped(at.bits()).1.is_none()
                    && let Some(route) = used(c, self.fib, at)
                {
                    return Some(route);
                }
            }
            if self.part >= Routes::<A>::PARTS {
                return None;
            }
            self.waiting.extend(c.system.router.routes::<A>().part(self.fib, self.part));
            self.part += 1;
        }
    }
}

/// Returns a function that returns the routes of a VRF, one at each call.
pub(super) fn all(c: &Context, table: &ip_table) -> impl FnMut(&Context) -> Option<ip_route> + use<> {
    let fib = c.system.router.fib(table.table_id).ok();
    let mut v4 = fib.filter(|_| !table.is_ip6).map(Dump::<Ipv4Addr>::new);
    let mut v6 = fib.filter(|_| table.is_ip6).map(Dump::<Ipv6Addr>::new);
    move |c| match &mut v4 {
        Some(dump) => dump.next(c),
        None => v6.as_mut()?.next(c),
    }
}

/// Returns the route of a prefix or, unless `exact`, the most specific route that covers the prefix.
pub(super) fn lookup(c: &Context, table: u32, exact: bool, prefix: &prefix) -> Result<ip_route, Code> {
    let table = change::table(c, table)?;
    let fib = c.system.router.fib(table).map_err(|_| Code::NO_SUCH_FIB)?;
    let route = match network(prefix)? {
        IpPrefix::V4(at) => found(c, fib, at, exact),
        IpPrefix::V6(at) => found(c, fib, at, exact),
    };
    route.ok_or(Code::NO_SUCH_ENTRY)
}

fn found<A: OfFamily>(c: &Context, fib: u16, at: Prefix<A>, exact: bool) -> Option<ip_route> {
    if exact {
        return used(c, fib, at);
    }
    (0..=at.len()).rev().find_map(|len| used(c, fib, Prefix::new(at.address(), len)))
}

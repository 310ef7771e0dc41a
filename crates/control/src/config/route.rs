//! VRFs and static routes.

use std::net::IpAddr;

use net::ip::IpPrefix;

use super::Reading;
use crate::intent::{Branch, Family, Key, Route, Table, Value, Via};
use model::yaml::{At, Fields, Node, Reader};

/// `tables`: the numbers of the VRFs besides table 0.
pub(super) fn tables(reading: &mut Reading<'_>, node: &Node) {
    for number in reading.r.list(node) {
        match reading.r.number(number, 1..=u16::MAX) {
            Some(table) => reading.set(number.at, Table::key(table), Table),
            None => reading.lost.tables = true,
        }
    }
}

/// Ways to go nowhere, by name.
pub(crate) const NOWHERE: [(&str, Via); 3] =
    [("drop", Via::Drop), ("unreachable", Via::Unreachable), ("prohibit", Via::Prohibit)];

/// `routes`: a list, whose members were [read] while the file was.
pub(super) fn list(reading: &mut Reading<'_>, node: &Node) {
    reading.r.list(node);
}

/// A member of `routes`: a map with the prefix and where its packets go.
pub(super) fn read(r: &mut Reader, node: &Node) -> Option<(Key, Value)> {
    let mut fields = r.fields(node);
    let prefix = match fields.take("prefix") {
        Some(node) => self::prefix(r, node),
        None => {
            r.fault(node.at, "a route needs a \"prefix\"");
            None
        }
    };
    let table = fields.take("table").map(|node| r.number(node, 0..=u16::MAX));
    // Of a route whose prefix nobody can read nothing becomes.
    let family = prefix.map_or(Family::V4, |p| Family::of(p.address()));
    let route = match fields.take("paths") {
        None => path(r, node.at, &mut fields, family).and_then(|path| Route::new(vec![path])),
        Some(node) => paths(r, node, family),
    };
    fields.end(r);
    Some((Route::key(table.unwrap_or(Some(0))?, prefix?), route?.into()))
}

/// `paths`: a list of maps, each with where it goes.
fn paths(r: &mut Reader, node: &Node, family: Family) -> Option<Route> {
    let mut paths = Vec::new();
    let members = r.list(node);
    for member in members {
        let mut fields = r.fields(member);
        paths.extend(path(r, member.at, &mut fields, family));
        fields.end(r);
    }
    if members.is_empty() {
        r.fault(node.at, "a route needs a path");
    }
    (paths.len() == members.len()).then(|| Route::new(paths)).flatten()
}

/// The fields that say where packets of a family go.
fn path(r: &mut Reader, at: At, fields: &mut Fields<'_>, family: Family) -> Option<Branch> {
    let (via, interface) = (fields.take("via"), fields.take("interface"));
    let other = fields.take("lookup-in-table");
    let weight = fields.take("weight").map(|node| r.number(node, 1..=u8::MAX));
    let interface = interface.map(|node| r.text(node).map(str::to_string));
    let via = match (via, interface, other) {
        (Some(via), interface, None) => next_hop(r, via, interface),
        (None, Some(interface), None) => interface.map(Via::Attached),
        (None, None, Some(node)) => r.number(node, 0..=u16::MAX).map(|table| Via::Table(family, table)),
        _ => {
            let ways = "\"via\" (with \"interface\", if you like), \"interface\" alone, \"lookup-in-table\", or a list of \
                        \"paths\" that share its flows";
            r.fault(at, format!("a route goes one way: {ways}"));
            None
        }
    };
    Some(Branch { via: via?, weight: weight.unwrap_or(Some(1))? })
}

/// `via`: a next hop or a word; `interface` is `Some(None)` when it is given but no name.
fn next_hop(r: &mut Reader, node: &Node, interface: Option<Option<String>>) -> Option<Via> {
    let text = r.text(node)?;
    if let Some((word, via)) = NOWHERE.into_iter().find(|(word, _)| *word == text) {
        if interface.is_some() {
            r.fault(node.at, format!("\"{word}\" needs no interface"));
        }
        return Some(via);
    }
    let address: IpAddr = r.parsed(node, "an IP address, nor drop, unreachable or prohibit")?;
    match interface {
        Some(None) => None,
        given => Some(Via::NextHop(address, given.flatten())),
    }
}

/// A prefix whose bits behind its length are zero.
fn prefix(r: &mut Reader, node: &Node) -> Option<IpPrefix> {
    let text = r.text(node)?;
    IpPrefix::exact(text).map_err(|e| r.fault(node.at, e)).ok()
}

//! Routes.

use std::fmt;
use std::net::Ipv4Addr;

use net::ip::{Path, Prefix4};

use super::{Key, Refused, Value, View, no_table, refuse};
use crate::cli::quote;
use crate::system::System;

/// Where a route's packets go, by names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Via {
    /// To a neighbour, by a certain interface or by whichever connected network it is on.
    NextHop(Ipv4Addr, Option<String>),
    /// To the destination itself, on the link of this interface.
    Attached(String),
    /// Nowhere.
    Drop,
    /// Nowhere, with an ICMP error.
    Unreachable,
    /// Nowhere, with an ICMP error that says so.
    Prohibit,
    /// To wherever another VRF says.
    Table(u16),
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
            Via::Table(t) => write!(f, "via ip4-lookup-in-table {t}"),
        }
    }
}

/// A route that the operator named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where its packets go.
    pub via: Via,
}

impl Route {
    pub(super) fn validate(&self, table: u16, prefix: Prefix4, view: &View<'_>) -> Result<(), Refused> {
        let has_table = |t: u16| t == 0 || view.get(&Key::Table(t)).is_some();
        if !has_table(table) {
            return refuse(no_table(table));
        }
        if let Some(interface) = self.own_next_hop(table, view) {
            return refuse(format!(
                "the next hop of {prefix} is the router's own address on {interface}: name a neighbour's"
            ));
        }
        match &self.via {
            Via::NextHop(ip, _) if ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast() => {
                refuse(format!("{ip} cannot be the next hop of {prefix}: it is no host's address"))
            }
            Via::NextHop(_, Some(i)) | Via::Attached(i) => view.must_have_interface(i).map(|_| ()),
            Via::Table(t) if !has_table(*t) => refuse(no_table(*t)),
            Via::Table(t) if *t == table => {
                refuse(format!("{prefix} would look itself up again in table {t}"))
            }
            _ => Ok(()),
        }
    }

    /// The interface of this router that has the address of the route's next hop, if one does.
    fn own_next_hop<'v>(&self, table: u16, view: &'v View<'_>) -> Option<&'v str> {
        let Via::NextHop(ip, by) = &self.via else { return None };
        view.index.owner(hop_table(by.as_deref(), table, view), *ip)
    }

    /// The interface that the route names, if it does.
    pub fn interface(&self) -> Option<&String> {
        match &self.via {
            Via::NextHop(_, Some(i)) | Via::Attached(i) => Some(i),
            _ => None,
        }
    }

    pub(super) fn apply(&self, table: u16, prefix: Prefix4, system: &mut System) -> Result<(), Refused> {
        let path = match &self.via {
            Via::NextHop(next_hop, interface) => {
                let interface = interface.as_deref().map(|i| system.index(i)).transpose()?;
                Path::Via { next_hop: *next_hop, interface }
            }
            Via::Attached(interface) => Path::Attached(system.index(interface)?),
            Via::Drop => Path::Drop,
            Via::Unreachable => Path::Unreachable,
            Via::Prohibit => Path::Prohibit,
            Via::Table(t) => Path::Table(*t),
        };
        Ok(system.router.add_route(table, prefix, path)?)
    }

    pub(super) fn withdraw(table: u16, prefix: Prefix4, system: &mut System) -> Result<(), Refused> {
        system.router.remove_route(table, prefix)?;
        Ok(())
    }

    pub(super) fn dump(&self, table: u16, prefix: Prefix4) -> String {
        let table = if table == 0 { String::new() } else { format!(" table {table}") };
        format!("ip route add {prefix}{table} {}", self.via)
    }
}

/// The VRF that the next hop of a route in `table` is in: that of the interface which the route names, if it does.
fn hop_table(by: Option<&str>, table: u16, view: &View<'_>) -> u16 {
    by.and_then(|i| view.interface(i)).map_or(table, |i| i.table)
}

/// The prefix of a route whose next hop is this address in this VRF, if there is one.
pub(super) fn leading_to(address: Ipv4Addr, table: u16, view: &View<'_>) -> Option<Prefix4> {
    let leads = |by: Option<&str>, t| hop_table(by, t, view) == table;
    if !view.index.leading_to(address).any(|(by, t)| leads(by, t)) {
        return None;
    }
    // It is refused, and may take its time to say why.
    let all = Prefix4::new(Ipv4Addr::UNSPECIFIED, 0)..=Prefix4::new(Ipv4Addr::BROADCAST, 32);
    let mut routes = view.range(Key::Route(0, *all.start())..=Key::Route(u16::MAX, *all.end()));
    routes.find_map(|(key, value)| match (key, value) {
        (Key::Route(t, prefix), Value::Route(Route { via: Via::NextHop(ip, by) })) => {
            (*ip == address && leads(by.as_deref(), *t)).then_some(*prefix)
        }
        _ => None,
    })
}

//! Routes.

use std::net::Ipv4Addr;

use net::ip::{Path, Prefix4};

use super::{Key, Refused, View, refuse};
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
            return refuse(format!("there is no table {table}: add it with \"ip table add {table}\""));
        }
        match &self.via {
            Via::NextHop(ip, _) if ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast() => {
                refuse(format!("{ip} cannot be the next hop of {prefix}: it is no host's address"))
            }
            Via::NextHop(_, Some(i)) | Via::Attached(i) => view.must_have_interface(i).map(|_| ()),
            Via::Table(t) if !has_table(*t) => refuse(format!("there is no table {t}")),
            Via::Table(t) if *t == table => {
                refuse(format!("{prefix} would look itself up again in table {t}"))
            }
            _ => Ok(()),
        }
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
        let via = match &self.via {
            Via::NextHop(ip, None) => format!("via {ip}"),
            Via::NextHop(ip, Some(i)) => format!("via {ip} {i}"),
            Via::Attached(i) => format!("via {i}"),
            Via::Drop => "via drop".into(),
            Via::Unreachable => "via unreachable".into(),
            Via::Prohibit => "via prohibit".into(),
            Via::Table(t) => format!("via ip4-lookup-in-table {t}"),
        };
        format!("ip route add {prefix}{table} {via}")
    }
}

//! The changeable state of a router.

use std::net::{Ipv4Addr, Ipv6Addr};

use control::system::Catalog;
use net::ethernet::Tags;
use net::interface::Kind;
use net::ip::{Address, IpPrefix, PathList, Source};
use net::neighbor::Config;
use net::router::{Receive, Routed, Router};
use wire::Mac;

/// The router's configuration. A refused change must leave it as it is.
#[derive(Debug, PartialEq)]
pub struct Configuration {
    neighbors: (Config, Config),
    interfaces: Vec<Interface>,
    routes: Vec<Route>,
    known: Vec<(String, Option<String>, &'static str)>,
}

#[derive(Debug, PartialEq)]
struct Interface {
    index: u32,
    name: String,
    is_up: bool,
    has_device: bool,
    mac: Mac,
    mtu: u16,
    fib: u16,
    addresses: Vec<Address>,
    settings: Vec<String>,
    kind: Kind,
    parent: u32,
    tags: Option<Tags>,
    own6: Vec<Address<Ipv6Addr>>,
    receive: Receive,
}

#[derive(Debug, PartialEq)]
struct Route {
    fib: u16,
    prefix: IpPrefix,
    paths: Vec<(Source, PathList)>,
}

impl Configuration {
    pub fn of(r: &Router, catalog: &Catalog) -> Configuration {
        let interfaces = r.interfaces().map(|i| Interface {
            index: i.index,
            name: i.name.clone(),
            is_up: i.admin_up,
            has_device: i.device.is_some(),
            mac: i.mac,
            mtu: i.mtu,
            fib: i.fib,
            addresses: i.addresses.clone(),
            settings: catalog.shown(r, i.index),
            kind: i.kind,
            parent: i.parent,
            tags: i.tags,
            own6: i.own_ip6().collect(),
            receive: i.receive.clone(),
        });
        let known = r.neighbors::<Ipv4Addr>().chain(r.neighbors::<Ipv6Addr>());
        Configuration {
            neighbors: (r.neighbor_config::<Ipv4Addr>(), r.neighbor_config::<Ipv6Addr>()),
            interfaces: interfaces.collect(),
            routes: [routes::<Ipv4Addr>(r), routes::<Ipv6Addr>(r)].into_iter().flatten().collect(),
            known: known.map(|n| (n.ip, n.mac, n.flags)).collect(),
        }
    }
}

fn routes<A: Routed>(r: &Router) -> Vec<Route> {
    let mut all = Vec::new();
    for fib in r.routes::<A>().tables() {
        let of_table = r.routes::<A>().iter(fib);
        all.extend(of_table.map(|(prefix, sources)| {
            let paths = sources.map(|(source, to)| (source, to.list.clone())).collect();
            Route { fib, prefix: prefix.into(), paths }
        }));
    }
    all
}

//! Generators of random configuration objects, for tests.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use drivers::memif;
use model::key::Need;
use net::ethernet::{Match, Tags};
use net::feature::Attached;
use net::ip::{Address, IpPrefix};
use net::objects;
use net::router::Receive;
use proptest::prelude::*;
use wire::Mac;

use super::*;
use crate::config;
use crate::neighbors::NeighborBounds;
use crate::ports::Generator;
use crate::system::{Loopback, Spec};
use crate::testing::catalog;

/// VRFs besides table 0. The first two are equal modulo 65536.
pub(super) const TABLES: [u32; 3] = [1, 65_537, u32::MAX];

fn table() -> impl Strategy<Value = u32> + Clone {
    prop::sample::select(TABLES.to_vec())
}

fn any_table() -> impl Strategy<Value = u32> {
    prop_oneof![1 => Just(0), 2 => table()]
}

pub(super) fn name_of(n: u16) -> String {
    ["pg0", "pg1", "pg2", "loop0", "bvi0", "pg0.5", "pg0.6", "pg1.5"][usize::from(n)].into()
}

/// The numbers that stand for interfaces other than sub-interfaces.
pub(super) const DEVICES: std::ops::Range<u16> = 0..5;

/// The numbers that stand for interfaces, including sub-interfaces.
pub(super) const ALL: std::ops::Range<u16> = 0..8;

pub(super) fn mac() -> impl Strategy<Value = Mac> {
    (0u8..4).prop_map(|n| Mac([2, 0, 0, 0, 7, n]))
}

/// Generates the fields of an interface itself. Fields that can conflict with other objects have values from a small set; all others follow
/// from the declaration of the fields.
fn fields() -> impl Strategy<Value = Interface> {
    let usual = Interface::new(Spec::by(Generator::default()));
    let all = prop::sample::select(config::body().examples());
    let base = prop_oneof![1 => Just(usual), 2 => all];
    let table = prop_oneof![3 => Just(0), 1 => table()];
    let up = prop::bool::weighted(0.8);
    let index = prop::option::weighted(0.1, 0u32..9);
    let conflicting = (up, prop::option::of(500u16..9500), prop::option::of(mac()), table, index);
    // Descriptions need quotes in many ways.
    let description = prop::option::weighted(0.2, "[ -~é]{1,9}");
    (base, conflicting, description).prop_map(|(base, (up, mtu, mac, table, index), description)| {
        let description = description.or(base.description);
        Interface { up, mtu, mac, table, index, description, ..base }
    })
}

pub(super) fn interface() -> impl Strategy<Value = (Key, Value)> {
    let takes = (any::<bool>(), 1u16..4, prop::option::of(1u16..3), 0u8..12).prop_map(
        |(outer_service, outer, inner, kind)| match kind {
            0 => Match::Untagged,
            1 => Match::Default,
            2 => Match::AnyOuter { outer_service },
            3 => Match::AnyInner { outer_service, outer },
            _ => Tags { outer_service, outer, inner }.into(),
        },
    );
    let nothing = || Just(Attached::default());
    let attached = catalog()
        .examples()
        .into_iter()
        .map(|all| prop_oneof![2 => nothing(), 1 => prop::sample::select(all)]);
    let attached: Vec<_> = attached.collect();
    let attached = attached.prop_map(|all| all.into_iter().fold(Attached::default(), Attached::and));
    (ALL, takes, any::<bool>(), attached, fields()).prop_map(|(n, takes, plain, attached, fields)| {
        let name = name_of(n);
        let spec = match name.split_once('.') {
            None => match Loopback::named(&name) {
                Some(loopback) => Spec::Loopback(loopback),
                None => Spec::by(Generator::default()),
            },
            Some((parent, id)) => {
                let id = id.parse().unwrap();
                let takes = if plain { numbered(id).unwrap() } else { takes };
                Spec::Sub { parent: parent.into(), id, takes }
            }
        };
        let receive = if spec.is_device() { fields.receive.clone() } else { Receive::default() };
        let key = if DEVICES.contains(&n) { Interface::key(&name) } else { Interface::sub_key(&name) };
        (key, Interface { spec, receive, attached, ..fields }.into())
    })
}

/// Generates memif clients. Servers would listen on a socket.
pub(super) fn memif() -> impl Strategy<Value = (Key, Value)> {
    let set = (any::<bool>(), prop::option::of("[a-z \"#]{1,8}"), prop::sample::select(vec![64u16, 1024]));
    (0u32..3, 0u32..2, 1usize..3, any::<bool>(), set).prop_map(
        |(socket, id, queues, up, (trusted, secret, size))| {
            let config = memif::Config {
                rx_queues: queues,
                ring_size: size,
                secret: secret.map(|s| memif::Secret::new(s).unwrap()),
                trusted,
                ..memif::Config::new(socket, id, memif::Role::Client)
            };
            let name = config.name();
            let interface = Interface { up, ..Interface::new(Spec::by(config)) };
            (Interface::key(&name), interface.into())
        },
    )
}

pub(super) fn family_of_two() -> impl Strategy<Value = Family> {
    prop::sample::select(Family::ALL.to_vec())
}

/// Generates a host address on one of a few networks.
pub(super) fn host() -> impl Strategy<Value = IpAddr> {
    family_of_two().prop_flat_map(host_of)
}

pub(super) fn host_of(family: Family) -> impl Strategy<Value = IpAddr> {
    (0u8..4, 1u8..5).prop_map(move |(net, host)| match family {
        Family::V4 => Ipv4Addr::new(10, 0, net, host).into(),
        // One of the networks is the link-local one.
        Family::V6 if net == 3 => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, host.into()).into(),
        Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 0, net.into(), 0, 0, 0, host.into()).into(),
    })
}

/// Generates a path target for routes of a family; sometimes with a next hop of the other family.
pub(super) fn via(family: Family) -> impl Strategy<Value = Via> {
    prop_oneof![
        3 => (prop_oneof![9 => Just(family), 1 => family_of_two()].prop_flat_map(host_of), prop::option::of(ALL)).prop_map(|(ip, i)| Via::NextHop(ip, i.map(name_of))),
        1 => ALL.prop_map(|i| Via::Attached(name_of(i))),
        1 => prop::sample::select(Via::WORDS.map(|(_, via)| via).to_vec()),
        1 => any_table().prop_map(move |t| Via::Table(family, t)),
    ]
}

/// Generates a route with one or more paths, possibly an invalid combination.
pub(super) fn route(family: Family) -> impl Strategy<Value = Route> {
    let branch = (via(family), 1u8..4).prop_map(|(via, weight)| Branch { via, weight });
    prop::collection::vec(branch, 1..4).prop_map(|branches| {
        let mut branches: Vec<Branch> = branches;
        branches.sort_by(|a, b| a.via.cmp(&b.via));
        branches.dedup_by(|a, b| a.via == b.via);
        Route::new(branches).unwrap()
    })
}

/// Generates an object from a small set, so that many conflict.
pub(super) fn object() -> impl Strategy<Value = (Key, Value)> {
    let address = (host(), 0usize..5).prop_map(|(host, n)| {
        let len = if host.is_ipv4() { [24, 24, 25, 30, 32] } else { [64, 64, 65, 126, 128] };
        Address::new(host, len[n])
    });
    let prefix = prop_oneof![
        (host(), 0usize..4).prop_map(|(host, n)| {
            let len = if host.is_ipv4() { [16, 24, 26, 32] } else { [48, 64, 122, 128] };
            IpPrefix::new(host, len[n])
        }),
        (family_of_two(), 0u8..3, 14u8..18).prop_map(|(family, n, len)| match family {
            Family::V4 => IpPrefix::new(Ipv4Addr::new(20, n, 0, 0).into(), len),
            Family::V6 => IpPrefix::new(Ipv6Addr::new(0x2000, n.into(), 0, 0, 0, 0, 0, 0).into(), len + 16),
        }),
        family_of_two().prop_map(|family| match family {
            Family::V4 => IpPrefix::new(Ipv4Addr::UNSPECIFIED.into(), 0),
            Family::V6 => IpPrefix::new(Ipv6Addr::UNSPECIFIED.into(), 0),
        }),
    ];
    prop_oneof![
        1 => (table(), prop::option::of(prop::sample::select(vec!["blue", "red"]))).prop_map(|(t, name)| {
            (Table::key(t), Table { name: name.map(str::to_string) }.into())
        }),
        1 => (family_of_two(), prop::option::of(0u32..6), prop::option::of(1u32..99)).prop_map(|(family, limit, age)| {
            (NeighborBounds::key(family), NeighborBounds { limit, age, announcements: None }.into())
        }),
        2 => prop::strategy::Union::new(catalog().entries().iter().map(|entry| prop::sample::select((entry.examples)()))),
        4 => interface(),
        1 => prop::strategy::Union::new(catalog().sections().iter().map(|section| prop::sample::select((section.examples)()))),
        1 => memif(),
        1 => ALL.prop_map(|n| {
            (FeatureOn::key(&name_of(n), "ip4-unicast", "ip4-count"), FeatureOn.into())
        }),
        1 => (ALL, ALL)
            .prop_map(|(n, lender)| (Unnumbered::key(&name_of(n)), Unnumbered(name_of(lender)).into())),
        6 => (ALL, prop::collection::vec(address, 1..4))
            .prop_map(|(n, list)| (Addresses::key(&name_of(n)), Addresses(list).into())),
        2 => (ALL, host(), mac()).prop_map(|(n, host, mac)| {
            (Neighbor::key(&name_of(n), host), Neighbor { mac }.into())
        }),
        6 => (any_table(), prefix.prop_flat_map(|p| (Just(p), route(Family::of(p.address()))))).prop_map(|(t, (p, route))| {
            (Route::key(t, p), route.into())
        }),
        // These routes follow from the declaration of the fields.
        1 => prop::sample::select(config::routes()),
    ]
}

/// Generates trees with all object types that a file can contain. The objects may be invalid. But the device of each sub-interface exists,
/// and so do the interfaces that other objects need.
pub(crate) fn tree_of_any_objects() -> impl Strategy<Value = Tree> {
    (prop::collection::vec(object(), 0..80), any::<bool>()).prop_map(|(objects, numbered)| {
        let mut tree: Tree = objects.into_iter().collect();
        // All interfaces have an index, or none.
        for (n, value) in (0..).zip(tree.values_mut()) {
            if let Some(i) = value.get_mut::<Interface>() {
                i.index = numbered.then_some(100 - n);
            }
        }
        let there = tree.clone();
        let roles: BTreeSet<Need> = there.keys().filter_map(Key::role).collect();
        tree.retain(|key, value| {
            let is_whole = |of: &Key| there.get(of).is_some_and(|value| has_all(of, value, &roles));
            let whole = has_all(key, value, &roles)
                && !value.needs_any(key, |need| match need.id().get::<String>() {
                    Some(name) if need.is(&objects::INTERFACE) => {
                        !is_whole(&Interface::key(&name)) && !is_whole(&Interface::sub_key(&name))
                    }
                    _ => false,
                });
            if let Some(i) = value.get_mut::<Interface>()
                && let Spec::Sub { parent, .. } = &i.spec
                && let Some(over) =
                    there.get(&Interface::key(parent)).and_then(|value| value.get::<Interface>())
            {
                (i.mtu, i.up) = (None, i.up && over.up);
            }
            let says_something = value.get() != Some(&NeighborBounds::default());
            whole && says_something
        });
        tree
    })
}

/// True if `roles`, the roles of the objects in a tree, contain all that an object needs, except VRFs.
pub(super) fn has_all(key: &Key, value: &Value, roles: &BTreeSet<Need>) -> bool {
    !value.needs_any(key, |need| !need.is(&objects::TABLE) && !roles.contains(need))
}

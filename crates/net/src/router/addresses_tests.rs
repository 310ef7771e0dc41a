//! Tests that a change of several addresses at once has the same result as a change of one address after the other.

use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;

use super::Router;
use super::tests::{address, router};
use crate::ip::Address;

/// Returns the addresses of interfaces, and the routes with their paths, as text.
fn shown(r: &Router) -> String {
    let addresses = r.interfaces().map(|i| format!("{} {:?}\n", i.name, i.addresses));
    let routes = r.routes::<Ipv4Addr>().iter(0).flat_map(|(prefix, sources)| {
        sources
            .map(move |(source, to)| format!("{prefix} {source:?} {:?} {:?}\n", to.list, to.resolved))
            .collect::<Vec<_>>()
    });
    addresses.chain(routes).collect()
}

/// Generates lists of addresses. Their networks may be adjacent, contain one another, or be the same.
fn lists() -> impl Strategy<Value = Vec<Address>> {
    let one = (0u8..6, 1u8..7, prop::sample::select(vec![24u8, 30, 31, 32]));
    let list = prop::collection::vec(one, 1..12);
    list.prop_map(|all| {
        all.iter().map(|(net, host, len)| Address::new(IpAddr::from([10, 9, *net, *host]), *len)).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A change of several addresses at once has the same result as single changes, and makes either all of them or none.
    #[test]
    fn addresses_change_together_as_they_do_alone(list in lists(), keep in 0usize..4) {
        let (mut together, mut alone) = (router(2), router(2));
        for r in [&mut together, &mut alone] {
            r.set_admin(0, true).unwrap();
            r.set_admin(1, true).unwrap();
        }
        let before = shown(&together);
        let added = list.iter().try_for_each(|a| alone.add_address(0, *a));
        prop_assert_eq!(together.add_addresses(0, &list).is_ok(), added.is_ok());
        if added.is_err() {
            prop_assert_eq!(shown(&together), before);
            return Ok(());
        }
        prop_assert_eq!(shown(&together), shown(&alone));
        let gone = &list[keep.min(list.len())..];
        let with_stranger = [gone, &[address("10.99.0.1/24")]].concat();
        let there = shown(&together);
        prop_assert!(together.remove_addresses(0, &with_stranger).is_err());
        prop_assert_eq!(shown(&together), there);
        together.remove_addresses(0, gone).unwrap();
        gone.iter().for_each(|a| alone.remove_address(0, *a).unwrap());
        prop_assert_eq!(shown(&together), shown(&alone));
    }
}

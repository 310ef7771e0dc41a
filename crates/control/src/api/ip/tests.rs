//! Tests of the messages about VRFs and routes.

use proptest::prelude::*;
use vapi::types::{fib_path, fib_path_nh, fib_path_nh_proto, fib_path_type, ip_route, prefix};

use super::tables::sweep;
use super::*;
use crate::api::change::refused;
use crate::testing::{Cli, FEATURES};

fn table(table_id: u32, is_ip6: bool) -> ip_table {
    ip_table { table_id, is_ip6, ..Default::default() }
}

fn tables(c: &Cli) -> Vec<(u32, bool)> {
    c.dump(&ip_table_dump {}).into_iter().map(|d| (d.table.table_id, d.table.is_ip6)).collect()
}

fn change_table(c: &mut Cli, table: ip_table, is_add: bool) {
    c.ask(&ip_table_add_del_v2 { table, create_mfib: true, is_add }).unwrap();
}

#[test]
fn a_vrf_of_one_family_shows_that_family_only() {
    let mut c = Cli::with(FEATURES);
    c.ok("ip table add 5");
    change_table(&mut c, table(7, false), true);
    assert_eq!(tables(&c), [(0, false), (5, false), (7, false), (0, true), (5, true)]);
    c.ok("ip route add 192.0.2.0/24 table 5 drop");
    c.ok("ip route add 2001:db8::/32 table 5 drop");
    change_table(&mut c, table(5, false), false);
    assert_eq!(tables(&c), [(0, false), (7, false), (0, true), (5, true)]);
    let config = c.ok("show config");
    assert!(!config.contains("192.0.2.0") && config.contains("2001:db8::"), "{config}");
    change_table(&mut c, table(5, true), false);
    change_table(&mut c, table(7, true), false);
    assert_eq!(tables(&c), [(0, false), (7, false), (0, true)]);
    assert!(!c.ok("show config").contains("table add 5"));
}

#[test]
fn a_removed_vrf_goes_with_its_last_interface() {
    let mut c = Cli::with(FEATURES);
    change_table(&mut c, table(7, false), true);
    let pg1 = c.context.system.router.interface_named("pg1").unwrap().index;
    let bind = |vrf_id| crate::api::interface::messages::sw_interface_set_table {
        sw_if_index: numbers::number(pg1),
        is_ipv6: false,
        vrf_id,
    };
    c.ask(&bind(7)).unwrap();
    change_table(&mut c, table(7, false), false);
    assert_eq!(tables(&c), [(0, false), (0, true)]);
    assert!(c.ok("show config").contains("ip table add 7"), "pg1 needs it");
    c.ask(&bind(0)).unwrap();
    assert!(!c.ok("show config").contains("ip table add 7"));
    assert_eq!(c.ask(&bind(7)).map(drop), Err(Code::NO_SUCH_FIB));
}

#[test]
fn routes_of_own_addresses_name_the_interface() {
    let c = Cli::with(FEATURES);
    let pg0 = numbers::number(c.context.system.router.interface_named("pg0").unwrap().index);
    let routes = c.dump(&ip_route_dump { table: table(0, false) });
    let own = routes.iter().find(|d| d.route.prefix.address.ip().to_string() == "10.0.0.1");
    assert_eq!(own.map(|d| d.route.paths[0].sw_if_index), Some(pg0.0));
}

#[test]
fn a_replacement_removes_the_routes_that_are_not_added_again() {
    let mut c = Cli::with(FEATURES);
    for n in 1..4 {
        c.ok(&format!("ip route add 192.0.{n}.0/24 drop"));
    }
    c.ok("ip route add 2001:db8::/32 drop");
    c.ask(&ip_table_replace_begin { table: table(0, false) }).unwrap();
    let routes = c.dump(&ip_route_dump { table: table(0, false) });
    let second =
        routes.into_iter().map(|d| d.route).find(|r| r.prefix.address.ip().to_string() == "192.0.2.0");
    let route = second.unwrap();
    c.ask(&ip_route_add_del { is_add: true, is_multipath: false, route }).unwrap();
    c.ask(&ip_table_replace_end { table: table(0, false) }).unwrap();
    let config = c.ok("show config");
    let left = ["192.0.1.0", "192.0.2.0", "192.0.3.0", "2001:db8::"].map(|text| config.contains(text));
    assert_eq!(left, [false, true, false, true], "{config}");
    let refused = c.ask(&ip_table_replace_end { table: table(0, false) }).map(drop);
    assert_eq!(refused, Err(Code::INVALID_VALUE));
}

#[test]
fn a_flush_of_many_routes_is_one_change() {
    let mut c = Cli::with(FEATURES);
    c.ok("ip table add 7");
    c.ok("ip route add count 300 192.0.0.0/24 table 7 drop");
    c.ok("ip route add 2001:db8::/32 table 7 drop");
    let before = c.ok("show config");
    c.ask(&ip_table_flush { table: table(7, false) }).unwrap();
    let left = c.ok("show config");
    assert!(!left.contains("192.0.") && left.contains("2001:db8::/32 table 7"), "{left}");
    c.ok("config rollback");
    assert_eq!(c.ok("show config"), before);
    // The VRF is removed after its many routes.
    change_table(&mut c, table(7, true), false);
    change_table(&mut c, table(7, false), false);
    sweep(&mut c.context);
    assert!(!c.ok("show config").contains("table 7") && !tables(&c).contains(&(7, false)));
}

/// Requests for few routes in few VRFs: valid ones, and ones with faults that are found at different stages.
fn route_request() -> impl Strategy<Value = (bool, bool, ip_route)> {
    let path = (0u8..6, 1u8..3).prop_map(|(kind, host)| {
        let next_hop: IpAddr = if kind == 4 { Ipv6Addr::LOCALHOST.into() } else { [10, 0, 0, host].into() };
        let kinds = [
            fib_path_type::FIB_API_PATH_TYPE_DROP,
            fib_path_type::FIB_API_PATH_TYPE_ICMP_UNREACH,
            // Of another version of VPP.
            fib_path_type(99),
        ];
        let no_interface = kind != 5;
        fib_path {
            // No interface, or one that does not exist.
            sw_if_index: if no_interface { u32::MAX } else { 99 },
            weight: host,
            r#type: kinds.get(usize::from(kind)).copied().unwrap_or(fib_path_type::FIB_API_PATH_TYPE_NORMAL),
            proto: match next_hop {
                IpAddr::V4(_) => fib_path_nh_proto::FIB_API_PATH_NH_PROTO_IP4,
                IpAddr::V6(_) => fib_path_nh_proto::FIB_API_PATH_NH_PROTO_IP6,
            },
            nh: fib_path_nh { address: next_hop.into(), ..Default::default() },
            ..Default::default()
        }
    });
    let at = (0u32..3, 0u8..3, 24u8..34);
    (any::<bool>(), any::<bool>(), at, prop::collection::vec(path, 0..3)).prop_map(
        |(add, multipath, (table_id, host, len), paths)| {
            let prefix = prefix::new([192, 0, 2, host << 6].into(), len);
            (add, multipath, ip_route { table_id, prefix, paths, ..Default::default() })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Requests in a batch get the same answers and have the same effect as the same requests made one by one. A batch of valid requests
    /// for different prefixes makes at most one change.
    #[test]
    fn batches_do_what_single_requests_do(
        batches in prop::collection::vec(prop::collection::vec(route_request(), 1..8), 1..5),
    ) {
        let router = || {
            let mut c = Cli::with(FEATURES);
            c.ok("ip table add 1");
            c
        };
        let (mut single, mut batched) = (router(), router());
        for batch in &batches {
            let one = |(add, multipath, route): &(bool, bool, ip_route)| {
                routes::add_del(&mut single.context, *add, *multipath, route)
            };
            let want: Vec<Result<(), Code>> = batch.iter().map(one).collect();
            let before = batched.context.journal.generation();
            let c = &mut batched.context;
            let mut got: Vec<Result<(), Code>> = batch
                .iter()
                .enumerate()
                .map(|(n, (add, multipath, route))| {
                    c.in_batch(n, |c| routes::add_del(c, *add, *multipath, route))
                })
                .collect();
            for (n, failure) in c.end_batch() {
                got[n] = Err(refused(failure));
            }
            prop_assert_eq!(&got, &want);
            let has_fault = want.iter().any(Result::is_err);
            let mut prefixes: Vec<String> = batch.iter().map(|(.., route)| format!("{:?}", route.prefix)).collect();
            prefixes.sort();
            prefixes.dedup();
            if !has_fault && prefixes.len() == batch.len() {
                prop_assert!(batched.context.journal.generation() <= before + 1);
            }
            prop_assert_eq!(single.ok("show config"), batched.ok("show config"));
        }
    }
}

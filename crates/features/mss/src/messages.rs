//! The module `mss_clamp` of VPP's binary API.
#![allow(non_camel_case_types)]

use net::feature::{App, message};
use vapi::table::Found;
use vapi::types::interface_index;
use vapi::{Caller, Code, Done, Table, define};

use crate::node::{Clamping, Clamps, Mss};

define! {
    /// The packets whose MSS is lowered.
    flags mss_clamp_dir: u8 {
        /// No packets.
        MSS_CLAMP_DIR_NONE = 0,
        /// Received packets.
        MSS_CLAMP_DIR_RX = 1,
        /// Sent packets.
        MSS_CLAMP_DIR_TX = 2,
    }
    /// Sets the largest MSS on an interface.
    request mss_clamp_enable_disable {
        sw_if_index: interface_index,
        ipv4_mss: u16,
        ipv6_mss: u16,
        ipv4_direction: mss_clamp_dir,
        ipv6_direction: mss_clamp_dir,
    }
    /// Asks for the largest MSS of one or all interfaces.
    get mss_clamp_get { sw_if_index: interface_index } -> mss_clamp_details {
        sw_if_index: interface_index,
        ipv4_mss: u16,
        ipv6_mss: u16,
        ipv4_direction: mss_clamp_dir,
        ipv6_direction: mss_clamp_dir,
    } -> mss_clamp_get_reply;
}

/// The directions with their flags.
const DIRECTIONS: [(Clamping, mss_clamp_dir); 4] = [
    (Clamping::Off, mss_clamp_dir::MSS_CLAMP_DIR_NONE),
    (Clamping::Rx, mss_clamp_dir::MSS_CLAMP_DIR_RX),
    (Clamping::Tx, mss_clamp_dir::MSS_CLAMP_DIR_TX),
    (Clamping::Both, mss_clamp_dir(3)),
];

/// Adds the module.
pub(crate) fn register<C: App>(table: &mut Table<C>) {
    table.module("mss_clamp", [1, 0, 0]).request::<mss_clamp_enable_disable>(set).get::<mss_clamp_get>(get);
}

fn wanted(direction: mss_clamp_dir, most: u16) -> Result<Mss, Code> {
    let known = DIRECTIONS.into_iter().find(|(_, flags)| *flags == direction);
    match known.ok_or(Code::INVALID_VALUE)?.0 {
        Clamping::Off => Ok(Mss::default()),
        clamping => Ok(Mss { clamping, most }),
    }
}

fn set<C: App>(c: &mut C, _: &Caller, q: mss_clamp_enable_disable) -> Result<Done, Code> {
    let ip4 = wanted(q.ipv4_direction, q.ipv4_mss)?;
    let ip6 = wanted(q.ipv6_direction, q.ipv6_mss)?;
    message::set(c, q.sw_if_index, |Clamps(limits)| (limits.ip4, limits.ip6) = (ip4, ip6))
}

/// Returns all limits at once, without a cursor: there is at most one entry per interface.
fn get<C: App>(c: &C, q: mss_clamp_get) -> Found<mss_clamp_get> {
    let router = c.router();
    if q.sw_if_index != interface_index::NONE
        && let Err(code) = message::interface(router, q.sw_if_index)
    {
        return (Vec::new(), Err(code));
    }
    let flags = |mss: Mss| {
        DIRECTIONS.into_iter().find(|(way, _)| *way == mss.clamping).map_or_else(Default::default, |d| d.1)
    };
    let details = message::wanted(router, q.sw_if_index).into_iter().filter_map(|i| {
        let Clamps(limits) = router.setting(i.index);
        (Clamps(limits) != Clamps::default()).then(|| mss_clamp_details {
            sw_if_index: message::number(i.index),
            ipv4_mss: limits.ip4.most,
            ipv6_mss: limits.ip6.most,
            ipv4_direction: flags(limits.ip4),
            ipv6_direction: flags(limits.ip6),
        })
    });
    (details.collect(), Ok(mss_clamp_get_reply { cursor: u32::MAX }))
}

#[cfg(test)]
mod tests {
    use control::testing::Cli;

    use super::*;

    #[test]
    fn an_mss_that_no_file_may_have_is_refused() {
        let mut c = Cli::with(&[&crate::Feature]);
        let pg0 = message::number(c.context.system.router.interface_named("pg0").expect("pg0").index);
        let both = mss_clamp_dir(3);
        let limit = |ipv4_mss| mss_clamp_enable_disable {
            sw_if_index: pg0,
            ipv4_mss,
            ipv6_mss: 0,
            ipv4_direction: both,
            ipv6_direction: mss_clamp_dir::MSS_CLAMP_DIR_NONE,
        };
        for wrong in [0, 1, 40, 47, 65_496, u16::MAX] {
            assert_eq!(c.ask(&limit(wrong)).map(drop), Err(Code::INVALID_VALUE), "{wrong}");
        }
        for right in [48, 1400, 65_495] {
            c.ask(&limit(right)).unwrap();
            assert!(c.yaml().contains(&format!("tcp-mss-clamp: {{ ip4: {right} }}")), "{}", c.yaml());
            let saved = c.yaml();
            c.apply(&saved).unwrap();
        }
    }
}

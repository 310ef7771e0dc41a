//! The module `ip6_nd` of VPP's binary API, as far as it is about router advertisements.
#![allow(non_camel_case_types)]

use net::feature::{App, message};
use net::ip::{Address, Prefix6};
use net::router::{InterfaceInfo, Router};
use vapi::types::{interface_index, prefix};
use vapi::wire::Count;
use vapi::{Caller, Code, Done, Table, define};
use wire::nd::PrefixInformation;

use crate::advertisement::{Advertisement, Advice, PrefixAdvice};
use crate::advertiser::Interval;
use crate::links::{Advertised, advertised_prefixes};

define! {
    /// An advertised prefix.
    struct ip6nd_ra_prefix {
        /// The prefix.
        prefix: prefix,
        /// True if the prefix is on the link.
        onlink_flag: bool,
        /// True if hosts may form addresses from the prefix.
        autonomous_flag: bool,
        /// Seconds for which the prefix is valid.
        val_lifetime: u32,
        /// Seconds for which addresses in the prefix are preferred.
        pref_lifetime: u32,
        /// Seconds until the prefix becomes invalid; 0: never.
        valid_lifetime_expires: f64,
        /// Seconds until addresses in the prefix become deprecated; 0: never.
        pref_lifetime_expires: f64,
        /// True if the advertised lifetimes decrease with time.
        decrement_lifetime_flag: bool,
        /// True if the prefix is not advertised.
        no_advertise: bool,
    }
    /// Sets or resets the advertisements of an interface.
    request sw_interface_ip6nd_ra_config {
        sw_if_index: interface_index,
        suppress: u8,
        managed: u8,
        other: u8,
        ll_option: u8,
        send_unicast: u8,
        cease: u8,
        is_no: bool,
        default_router: u8,
        max_interval: u32,
        min_interval: u32,
        lifetime: u32,
        initial_count: u32,
        initial_interval: u32,
    }
    /// Sets or removes an advertised prefix.
    request sw_interface_ip6nd_ra_prefix {
        sw_if_index: interface_index,
        prefix: prefix,
        use_default: bool,
        no_advertise: bool,
        off_link: bool,
        no_autoconfig: bool,
        no_onlink: bool,
        is_no: bool,
        val_lifetime: u32,
        pref_lifetime: u32,
    }
    /// Asks for the advertisements of one or all interfaces.
    dump sw_interface_ip6nd_ra_dump { sw_if_index: interface_index } -> sw_interface_ip6nd_ra_details {
        sw_if_index: interface_index,
        cur_hop_limit: u8,
        adv_managed_flag: bool,
        adv_other_flag: bool,
        adv_router_lifetime: u16,
        adv_neighbor_reachable_time: u32,
        adv_retransmit_interval: u32,
        adv_link_mtu: u32,
        send_radv: bool,
        cease_radv: bool,
        send_unicast: bool,
        adv_link_layer_address: bool,
        max_radv_interval: f64,
        min_radv_interval: f64,
        last_radv_time: f64,
        last_multicast_time: f64,
        next_multicast_time: f64,
        initial_adverts_count: u32,
        initial_adverts_interval: f64,
        initial_adverts_sent: bool,
        n_advertisements_sent: u32,
        n_solicitations_rcvd: u32,
        n_solicitations_dropped: u32,
        n_prefixes: Count<u32>,
        prefixes: Vec<ip6nd_ra_prefix>,
    }
}

/// Adds the messages.
pub(crate) fn register<C: App>(table: &mut Table<C>) {
    table
        .module("ip6_nd", [1, 1, 0])
        .request::<sw_interface_ip6nd_ra_config>(configure)
        .request::<sw_interface_ip6nd_ra_prefix>(set_prefix)
        .dump::<sw_interface_ip6nd_ra_dump, _>(|c, q| {
            let router = c.router();
            let all = message::wanted(router, q.sw_if_index).into_iter();
            vapi::all(all.filter_map(|i| details(router, i)).collect())
        });
}

/// Sets or resets fields of an interface's router advertisements. As with the command, the first change starts the advertisements,
/// unless they are suppressed.
fn configure<C: App>(c: &mut C, _: &Caller, q: sw_interface_ip6nd_ra_config) -> Result<Done, Code> {
    let name = message::name(c.router(), q.sw_if_index)?;
    let mut advice: Advice = c.configured(&name).map_err(message::refused)?;
    let on = !q.is_no;
    // These properties cannot be changed: advertisements have the link-layer address, go to all nodes, and are quick three times
    // at first.
    if on && (q.send_unicast != 0 || q.cease != 0) || !on && q.ll_option != 0 {
        return Err(Code::UNSUPPORTED);
    }
    let says = advice.says.get_or_insert_default();
    if q.managed != 0 {
        says.managed = on;
    }
    if q.other != 0 {
        says.other = on;
    }
    if q.max_interval != 0 {
        // VPP's default for the shortest interval: three quarters of the longest one.
        let min = if q.min_interval != 0 { q.min_interval } else { (q.max_interval / 4 * 3).max(3) };
        let given = Interval::new(min.into(), q.max_interval.into());
        let interval = if on { given } else { Ok(Interval::default()) };
        says.interval = interval.map_err(|_| Code::INVALID_VALUE)?;
    }
    if q.default_router != 0 {
        let given = u16::try_from(q.lifetime).map_err(|_| Code::INVALID_VALUE)?;
        says.lifetime = if on { given } else { Advertisement::default().lifetime };
    }
    if q.suppress != 0 {
        advice.suppressed = on;
    }
    message::set(c, q.sw_if_index, |setting: &mut Advice| *setting = advice)
}

fn set_prefix<C: App>(c: &mut C, _: &Caller, q: sw_interface_ip6nd_ra_prefix) -> Result<Done, Code> {
    let name = message::name(c.router(), q.sw_if_index)?;
    let (ip, len) = (q.prefix.address.ip(), q.prefix.len);
    if !ip.is_ipv6() || len > 128 {
        return Err(Code::INVALID_VALUE);
    }
    let prefix: Prefix6 = Address::new(ip, len).network().of().ok_or(Code::INVALID_VALUE)?;
    let mut advice: Advice = c.configured(&name).map_err(message::refused)?;
    if q.is_no {
        let says = advice.says.as_mut().ok_or(Code::NO_SUCH_ENTRY)?;
        says.prefixes.remove(&prefix).ok_or(Code::NO_SUCH_ENTRY)?;
    } else {
        let usual = PrefixAdvice::default();
        let given = PrefixAdvice {
            advertised: !q.no_advertise,
            on_link: !q.off_link && !q.no_onlink,
            autonomous: !q.no_autoconfig,
            valid: q.val_lifetime,
            preferred: q.pref_lifetime,
        };
        let wanted = match q.use_default {
            true => PrefixAdvice { valid: usual.valid, preferred: usual.preferred, ..given },
            false => given,
        };
        Advertisement::check(prefix, &wanted).map_err(|_| Code::INVALID_VALUE)?;
        advice.says.get_or_insert_default().prefixes.insert(prefix, wanted);
    }
    message::set(c, q.sw_if_index, |setting: &mut Advice| *setting = advice)
}

/// Returns the advertisements of an interface; `None` if there are none.
fn details(router: &Router, i: &InterfaceInfo) -> Option<sw_interface_ip6nd_ra_details> {
    let Advertised(says) = router.setting(i.index);
    let says = says?;
    let told = |p: PrefixInformation| ip6nd_ra_prefix {
        prefix: prefix::new(p.prefix.into(), p.len),
        onlink_flag: p.on_link,
        autonomous_flag: p.autonomous,
        val_lifetime: p.valid,
        pref_lifetime: p.preferred,
        ..Default::default()
    };
    Some(sw_interface_ip6nd_ra_details {
        sw_if_index: message::number(i.index),
        cur_hop_limit: crate::advertisement::HOP_LIMIT,
        adv_managed_flag: says.managed,
        adv_other_flag: says.other,
        adv_router_lifetime: says.lifetime,
        adv_link_mtu: i.mtu.into(),
        send_radv: true,
        adv_link_layer_address: true,
        max_radv_interval: says.interval.longest().into(),
        min_radv_interval: says.interval.shortest().into(),
        prefixes: advertised_prefixes(router, i).into_iter().map(told).collect(),
        ..Default::default()
    })
}

//! The messages of the module `arp`, and the messages of the module `ip6_nd` about proxy ND.
//!
//! In this router, proxy ARP and proxy ND are one setting of an interface. With it, the router answers for all hosts that it reaches
//! through other interfaces. Ranges of addresses are not supported.
#![allow(non_camel_case_types)]

use vapi::types::{interface_index, ip4_address, ip6_address};
use vapi::{Code, DONE, Done, Table, define};

use super::{change, numbers};
use crate::app::Context;

define! {
    /// A range of addresses for which the router answers ARP requests.
    struct proxy_arp {
        /// The VRF of these addresses.
        table_id: u32,
        /// The lowest address.
        low: ip4_address,
        /// The highest address.
        hi: ip4_address,
    }
    /// Adds or removes a range of addresses for which the router answers ARP requests. Adding is not supported.
    request proxy_arp_add_del { is_add: bool, proxy: proxy_arp }
    /// Asks for the ranges of addresses for which the router answers ARP requests. The router has none.
    dump proxy_arp_dump { } -> proxy_arp_details { proxy: proxy_arp }
    /// Enables or disables proxy ARP on an interface: the router answers ARP requests for hosts behind other interfaces.
    request proxy_arp_intfc_enable_disable { sw_if_index: interface_index, enable: bool }
    /// Asks for the interfaces with proxy ARP.
    dump proxy_arp_intfc_dump { } -> proxy_arp_intfc_details { sw_if_index: u32 }

    /// Enables or disables proxy ND on an interface: the router answers neighbor solicitations for hosts behind other interfaces.
    request ip6nd_proxy_enable_disable { sw_if_index: interface_index, is_enable: bool }
    /// Adds or removes an address for which the router answers neighbor solicitations. Adding is not supported.
    request ip6nd_proxy_add_del { sw_if_index: interface_index, is_add: bool, ip: ip6_address }
    /// Asks for the addresses for which the router answers neighbor solicitations. The router has none.
    dump ip6nd_proxy_dump { } -> ip6nd_proxy_details { sw_if_index: interface_index, ip: ip6_address }
}

/// Registers the messages in the modules `arp` and `ip6_nd`.
pub(super) fn register(table: &mut Table<Context>) {
    table
        .module("arp", [1, 0, 0])
        .request::<proxy_arp_add_del>(|c, _, q| {
            change::table(c, q.proxy.table_id)?;
            Err(if q.is_add { Code::UNSUPPORTED } else { Code::NO_SUCH_ENTRY })
        })
        .dump::<proxy_arp_dump, _>(|_, _| vapi::all(Vec::new()))
        .request::<proxy_arp_intfc_enable_disable>(|c, _, q| set(c, q.sw_if_index, q.enable))
        .dump::<proxy_arp_intfc_dump, _>(|c, _| {
            let all = c.system.router.interfaces().filter(|i| i.proxy);
            let details = all.map(|i| proxy_arp_intfc_details { sw_if_index: numbers::number(i.index).0 });
            vapi::all(details.collect())
        });
    table
        .module("ip6_nd", [1, 1, 0])
        .request::<ip6nd_proxy_enable_disable>(|c, _, q| set(c, q.sw_if_index, q.is_enable))
        .request::<ip6nd_proxy_add_del>(|c, _, q| {
            numbers::interface(c, q.sw_if_index)?;
            Err(if q.is_add { Code::UNSUPPORTED } else { Code::NO_SUCH_ENTRY })
        })
        .dump::<ip6nd_proxy_dump, _>(|_, _| vapi::all(Vec::new()));
}

fn set(c: &mut Context, interface: interface_index, on: bool) -> Result<Done, Code> {
    change::interface(c, interface, |i| i.proxy = on)?;
    DONE
}

//! Neighbors.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::Mac;

use crate::app::{Context, Output};
use crate::cli::{Args, CliError, Registry};
use crate::intent::{Change, Neighbor, OfFamily};

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    for words in ["set ip neighbor", "set ip arp", "ip neighbor"] {
        r.add(
            &format!("{words} [static] <interface:interface> <ip:ip> <mac:mac> [static]"),
            "Add a static neighbor. It never expires. \"static\" has no effect.",
            set,
        );
        r.add(
            &format!("{words} del <interface:interface> <ip:ip> [<mac:mac>]"),
            "Remove a static neighbor.",
            remove,
        );
    }
    family::<Ipv4Addr>(r);
    family::<Ipv6Addr>(r);
}

/// Declares the commands of an address family.
fn family<A: OfFamily>(r: &mut Registry<Context>) {
    let noun = A::FAMILY.noun();
    for words in [format!("clear {noun} neighbors"), format!("{noun} neighbor flush")] {
        r.add(&format!("{words} [<interface:interface>]"), "Remove learned neighbors.", flush::<A>)
            .for_operators();
    }
}

fn flush<A: OfFamily>(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let wanted = a.get::<String>("interface");
    let all: Vec<u32> = c
        .system
        .router
        .interfaces()
        .filter(|i| wanted.as_ref().is_none_or(|w| *w == i.name))
        .map(|i| i.index)
        .collect();
    for index in all {
        c.system.router.flush_neighbors::<A>(index)?;
    }
    Ok(Output::none())
}

fn set(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let key = Neighbor::key(&a.need::<String>("interface")?, a.need::<IpAddr>("ip")?);
    let mac = a.need::<Mac>("mac")?;
    let about = if mac.is_unicast() { "ip" } else { "mac" };
    c.transact(vec![Change::set(key, Neighbor { mac })]).map_err(|e| a.about(about, e))?;
    Ok(Output::none())
}

fn remove(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let key = Neighbor::key(&a.need::<String>("interface")?, a.need::<IpAddr>("ip")?);
    c.transact(vec![Change::remove(key)]).map_err(|e| a.about("ip", e))?;
    Ok(Output::none())
}

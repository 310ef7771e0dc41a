//! Neighbours.

use std::net::Ipv4Addr;

use wire::Mac;

use super::{Context, Output};
use crate::cli::{Args, CliError, Registry};
use crate::intent::{Change, Key, Neighbor, Value};

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    for noun in ["neighbor", "arp"] {
        r.add(
            &format!("set ip {noun} <interface:interface> <ip:ip4> <mac:mac> [static] [no-fib-entry]"),
            "Name a neighbour's Ethernet address.",
            set,
        );
        r.add(
            &format!("set ip {noun} del <interface:interface> <ip:ip4> [<mac:mac>]"),
            "Forget a neighbour that was named.",
            remove,
        );
    }
    r.add(
        "set ip neighbor-config ip4 [limit <limit:u32>] [age <age:u32>]",
        "Bound the table of neighbours: entries at most, and seconds after which one is asked again.",
        configure,
    );
    r.add("clear ip neighbors [<interface:interface>]", "Forget learned neighbours.", |c, a| {
        let wanted = a.get::<String>("interface");
        let all: Vec<u32> = c
            .system
            .router
            .interfaces()
            .filter(|i| wanted.as_ref().is_none_or(|w| *w == i.name))
            .map(|i| i.index)
            .collect();
        for index in all {
            c.system.router.flush_neighbors(index).map_err(|e| CliError::new(e.to_string()))?;
        }
        Ok(Output::none())
    });
}

fn set(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let key = Key::Neighbor(a.need::<String>("interface")?, a.need::<Ipv4Addr>("ip")?);
    c.transact(vec![Change::set(key, Value::Neighbor(Neighbor { mac: a.need::<Mac>("mac")? }))])?;
    Ok(Output::none())
}

fn remove(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    c.transact(vec![Change::remove(Key::Neighbor(
        a.need::<String>("interface")?,
        a.need::<Ipv4Addr>("ip")?,
    ))])?;
    Ok(Output::none())
}

fn configure(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let config = c.system.router.neighbor_config();
    if let Some(limit) = a.get::<u32>("limit") {
        config.max_entries = limit as usize;
    }
    if let Some(seconds) = a.get::<u32>("age") {
        if seconds == 0 {
            return Err(a.fault("age", "the age is at least one second"));
        }
        config.max_age = u64::from(seconds) * 1_000_000_000;
    }
    Ok(Output::none())
}

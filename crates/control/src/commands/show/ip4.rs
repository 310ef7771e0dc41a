//! IPv4 on interfaces.

use std::fmt::Write;
use std::net::Ipv4Addr;

use net::router::InterfaceInfo;
use serde::Serialize;

use super::interface::Chosen;
use crate::app::{Context, Output};
use crate::cli::{Registry, Rows};

/// Declares the command.
pub fn register(r: &mut Registry<Context>) {
    r.add(
        "show ip interface [<interface:interface>]",
        "Show the interfaces with their own or borrowed IPv4 addresses.",
        |c, a| Ok(Output::rows(Interfaces(Chosen::new(c, a)?), a.json())),
    );
}

#[derive(Serialize)]
struct Interface {
    name: String,
    admin_up: bool,
    table: u32,
    addresses: Vec<String>,
    /// The interface whose addresses this interface uses, if this interface is unnumbered.
    unnumbered: Option<String>,
    /// True if the interface answers ARP requests for hosts behind other interfaces.
    proxy_arp: bool,
}

impl Interface {
    fn of(c: &Context, i: &InterfaceInfo) -> Interface {
        let name = |index| c.system.router.interface(index).ok().map(|i| i.name.clone());
        Interface {
            name: i.name.clone(),
            admin_up: i.admin_up,
            table: c.system.router.vrfs().table(i.fib),
            addresses: i.addresses_of::<Ipv4Addr>().map(|a| a.to_string()).collect(),
            unnumbered: i.unnumbered.and_then(name),
            proxy_arp: i.proxy,
        }
    }
}

/// The chosen interfaces.
struct Interfaces(Chosen);

impl Rows<Context> for Interfaces {
    type Row = Interface;

    fn next(&mut self, c: &Context, page: &mut Vec<Interface>) -> bool {
        self.0.page(c, page, |i| Interface::of(c, i))
    }

    fn text(&mut self, page: &[Interface], out: &mut String) {
        for i in page {
            let state = if i.admin_up { "up" } else { "down" };
            let _ = writeln!(out, "{} is admin {state}, table {}", i.name, i.table);
            i.addresses.iter().for_each(|address| *out += &format!("  {address}\n"));
            i.unnumbered.iter().for_each(|lender| *out += &format!("  unnumbered, uses {lender}\n"));
            if i.proxy_arp {
                out.push_str("  answers ARP for other hosts\n");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Cli;

    #[test]
    fn ip4_on_interfaces_is_shown() {
        let mut cli = Cli::new();
        cli.ok("set interface ip address pg0 2001:db8::1/64");
        cli.ok("set interface proxy-arp pg0 enable");
        cli.ok("set interface unnumbered pg1 use pg0");
        let text = cli.ok("show ip interface");
        let expected = "pg0 is admin up, table 0\n  10.0.0.1/24\n  answers ARP for other hosts\n\
                        pg1 is admin up, table 0\n  unnumbered, uses pg0\n";
        assert_eq!(text, expected);
        let json = cli.json("show ip interface pg1");
        assert_eq!((&json[0]["unnumbered"], json.as_array().map(Vec::len)), (&"pg0".into(), Some(1)));
        cli.refused("show ip interface pg7", "pg7");
    }
}

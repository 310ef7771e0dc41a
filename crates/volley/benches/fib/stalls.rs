//! Commands about interfaces and VRFs in a router with very many routes: the longest time for which each keeps the
//! main thread busy without a pause.

use std::net::Ipv4Addr;
use std::rc::Rc;

use control::app::Context;
use control::cli::Registry;
use control::system::System;
use drivers::Guardian;
use net::router::{Parts, Router, Sizes};

use super::{Figure, Longest, REPETITIONS, Result, command};
use volley::features::declared;

/// Number of next hops of the routes, about as in the largest tables.
const HOPS: u32 = 40_000;
/// The command that adds the network of all next hops.
const NETWORK: &str = "set interface ip address pg0.5 10.0.0.1/8";

/// A router with one port, and its commands.
struct Lab {
    registry: Rc<Registry<Context>>,
    c: Context,
}

impl Lab {
    /// Returns a router with `of_each` routes for each next hop. If `named`, the routes name their interface. Otherwise the router finds
    /// the interface by the connected network of the next hop.
    fn new(of_each: u32, named: bool) -> Result<Lab> {
        let Parts { router, .. } =
            Router::build(volley::features::install, &Sizes { buffers: 1024, workers: 1 })?;
        let system = System::new(router, declared().1, Guardian::default());
        let mut lab = Lab { registry: Rc::new(declared().0), c: Context::new(system) };
        for line in [
            "create packet-generator interface pg0",
            "set interface state pg0 up",
            "create sub-interfaces pg0 5",
            "set interface state pg0.5 up",
            NETWORK,
        ] {
            lab.run(line)?;
        }
        let named = if named { " pg0.5" } else { "" };
        for n in 0..HOPS {
            let prefix = Ipv4Addr::from_bits(0x1400_0000 + ((n * of_each) << 8));
            let hop = Ipv4Addr::from_bits(0x0a00_0002 + n);
            lab.run(&format!("ip route add {prefix}/24 via {hop}{named} count {of_each}"))?;
        }
        Ok(lab)
    }

    /// Runs a command. Returns its longest step in milliseconds.
    fn run(&mut self, line: &str) -> Result<f64> {
        let mut longest = Longest::default();
        command(&self.registry, &mut self.c, line, &mut longest)?;
        longest.turns(&mut self.c.system.router);
        Ok(longest.0)
    }
}

/// Measures two lists of commands. Each list restores the initial state at its end. The commands of the first list are about objects that
/// no route depends on. The commands of the second list are about objects that all routes depend on. They run twice: with routes that name
/// their interface, and with routes that do not.
pub fn stalls() -> Result<Vec<Figure>> {
    let beside = [
        ("table-add", "ip table add 7"),
        ("table-bind", "set interface ip table pg0 7"),
        ("table-unbind", "set interface ip table pg0 0"),
        ("table-del", "ip table del 7"),
        ("sub-create", "create sub-interfaces pg0 6"),
        ("sub-delete", "delete sub-interface pg0.6"),
        ("loop-create", "create loopback interface instance 3"),
        ("loop-address", "set interface ip address loop3 11.0.0.1/24"),
        ("loop-address-del", "set interface ip address del loop3 11.0.0.1/24"),
        ("loop-delete", "delete loopback interface intfc loop3"),
    ];
    let below = [
        ("address-2", "set interface ip address pg0.5 11.0.0.1/24"),
        ("address-2-del", "set interface ip address del pg0.5 11.0.0.1/24"),
        ("mtu", "set interface mtu 1400 pg0.5"),
        ("down", "set interface state pg0.5 down"),
        ("up", "set interface state pg0.5 up"),
        ("port-down", "set interface state pg0 down"),
        ("port-up", "set interface state pg0 up"),
        ("address-del", "set interface ip address del pg0.5 10.0.0.1/8"),
        ("address-add", "set interface ip address pg0.5 10.0.0.1/8"),
        ("delete", "delete sub-interface pg0.5"),
        ("rollback", "config rollback"),
    ];
    let mut figures = Vec::new();
    measure("beside-1m", &beside, Lab::new(25, false)?, &mut figures)?;
    measure("below-240k", &below, Lab::new(6, false)?, &mut figures)?;
    measure("named-240k", &below, Lab::new(6, true)?, &mut figures)?;
    Ok(figures)
}

fn measure(group: &str, commands: &[(&str, &str)], mut lab: Lab, figures: &mut Vec<Figure>) -> Result<()> {
    let figure = |(word, _): &(&str, &str)| Figure::new(format!("{group}-{word}"), "ms", Some((false, 2.0)));
    let mut of: Vec<Figure> = commands.iter().map(figure).collect();
    for _ in 0..REPETITIONS {
        for ((_, line), figure) in commands.iter().zip(&mut of) {
            figure.samples.push(lab.run(line).map_err(|e| format!("{line}: {e}"))?);
        }
    }
    figures.extend(of);
    Ok(())
}

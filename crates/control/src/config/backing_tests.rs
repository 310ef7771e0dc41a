//! Tests with a feature that has its own interfaces: their section of the file, and their commands.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::LazyLock;

use graph::{Builder, GraphError};
use model::cli::Call;
use model::object::{self, World};
use model::schema::{Described, Schema, number};
use net::Tables;
use net::feature::{self, App, Backing, Interfaces, Opened, Prepared, Registrar, Unopened, free_number};
use net::interface::{InterfaceKind, InterfaceKindInfo};
use net::objects::Host;
use net::router::{Hooks, Sizes};
use wire::Mac;

use super::{read, write};
use crate::app::{Context, Feature};
use crate::features::{Selected, declared};
use crate::intent::{Interface, Refused, Store, can_be_name, refuse};
use crate::testing::{Cli, system};

/// A pipe that leads nowhere; `most` is the size of its largest packet in bytes.
#[derive(Clone, Debug, PartialEq)]
struct Pipe {
    most: u16,
}

/// The existing pipes, by the index of their interfaces.
struct Pipes {
    kind: InterfaceKind,
    there: BTreeSet<u32>,
}

impl Described for Pipe {
    fn schema() -> &'static Schema<Pipe> {
        static SCHEMA: LazyLock<Schema<Pipe>> = LazyLock::new(|| {
            Schema::new(Pipe { most: 1000 })
                .field("most", number(1..=9000), |p| p.most, |p, most| p.most = most, "The most at once.")
                .needed("a pipe needs a \"most\"")
        });
        &SCHEMA
    }
}

impl<W: Host> Backing<W> for Pipe {
    const DEVICE: bool = false;

    fn is_bare(&self) -> bool {
        true
    }

    fn validate(
        &self,
        _: &str,
        mtu: Option<u16>,
        _: &object::View<'_, W>,
        _: &<W as World>::Abilities,
    ) -> Result<(), Refused> {
        match mtu.filter(|mtu| *mtu > self.most) {
            Some(mtu) => refuse(format!("a pipe takes {} at once, less than an MTU of {mtu}", self.most)),
            None => Ok(()),
        }
    }

    fn open(&self, _: &str, _: Prepared, world: &mut W) -> Result<Opened, Unopened> {
        if self.most == 666 {
            return Err(Unopened::new("such a pipe cannot be opened"));
        }
        let pipes = world.router().state::<Pipes>().map_err(Unopened::new)?;
        Ok(Opened::Feature { kind: pipes.kind, mac: Mac([0; 6]), mtu: self.most })
    }

    fn made(&self, index: u32, world: &mut W) -> Result<(), Refused> {
        if self.most == 777 {
            return refuse("such a pipe leaks");
        }
        assert!(world.router().state_mut::<Pipes>()?.there.insert(index));
        Ok(())
    }

    fn leaves(&self, name: &str, world: &mut W) {
        if let Ok(index) = world.index(name)
            && let Ok(pipes) = world.router().state_mut::<Pipes>()
        {
            pipes.there.remove(&index);
        }
    }

    fn dump(&self, name: &str) -> String {
        format!("create {name} most {}", self.most)
    }
}

struct Plumbing;

impl<C: App> feature::Feature<C> for Plumbing {
    fn name(&self) -> &'static str {
        "plumbing"
    }

    fn about(&self) -> &'static str {
        "Lays pipes."
    }

    fn install(&self, b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
        let info = InterfaceKindInfo { name: "pipe", node: "error-drop", point_to_point: true };
        let kind = hooks.interface_kind(b, t, info)?;
        hooks.state(|_| Ok(Pipes { kind, there: BTreeSet::new() })).map(drop)
    }

    fn register(&self, r: &mut Registrar<'_, C>) {
        r.interfaces(Interfaces::of::<Pipe>("a pipe", "pipes", "pipe"));
        r.command("lay pipe [id <id:u32>] most <most:u16> [index <index:u32>]", "Lay a pipe.", |c, a| {
            let id = a.get("id").unwrap_or_else(|| free_number(c, "pipe"));
            c.create_interface(a, "most", &format!("pipe{id}"), Pipe { most: a.need("most")? })
        });
        r.command("take up pipe <interface:interface>", "Take up a pipe.", |c, a| {
            c.delete_interface::<Pipe>(a, "interface", &a.need::<String>("interface")?)
        });
    }
}

const FEATURES: &[&Feature] = &[&Plumbing];

fn small() -> Sizes {
    Sizes { buffers: 64, workers: 1 }
}

/// Returns the existing pipes.
fn there(system: &crate::system::System) -> Vec<u32> {
    system.router.state::<Pipes>().unwrap().there.iter().copied().collect()
}

#[test]
fn feature_interfaces_are_read_applied_and_written() {
    let (_, catalog) = declared(FEATURES);
    let (mut system, mut store) = (system(FEATURES, &small(), false), Store::default());
    let two = "pipes:\n  pipe0:\n    most: 1000\n  pipe7:\n    most: 1400\ninterfaces:\n  pipe0: {}\n  pipe7:\n    addresses: [ 10.7.0.1/30 ]\nroutes:\n  - { prefix: 10.9.0.0/16, interface: pipe7 }\n";
    let wider = two.replace("1400", "1500");
    let one = "pipes:\n  pipe0:\n    most: 1000\ninterfaces:\n  pipe0: {}\n";
    for (text, mtu) in
        [(two, Some(1400)), (&wider, Some(1500)), (one, None), (two, Some(1400)), ("{}\n", None)]
    {
        let wanted = read(text, "f", &catalog);
        assert_eq!(wanted.faults(&system.abilities), [], "{text}");
        store.transact(&mut system, store.diff(wanted.tree.tree())).unwrap();
        assert_eq!(write(store.tree(), &catalog), text);
        assert_eq!(system.router.interface_named("pipe7").map(|i| i.mtu), mtu);
        let indices: Vec<u32> = system.router.interfaces().map(|i| i.index).collect();
        assert_eq!(there(&system), indices);
    }
    // The interface exists even without an entry in `interfaces`.
    let wanted = read("pipes: { pipe0: { most: 1000 } }\n", "f", &catalog);
    assert!(wanted.tree.tree().contains_key(&Interface::key("pipe0")));
}

#[test]
fn faults_of_feature_interfaces_have_places() {
    let (_, catalog) = declared(FEATURES);
    let system = system(FEATURES, &small(), false);
    for (text, place, part) in [
        ("pipes: { tube: { most: 9 } }\n", "1:10", "pipes are named pipe0, pipe1, …"),
        ("pipes: { pipe0: { most: no } }\n", "1:25", "\"no\" is not a number"),
        ("pipes: { pipe0: {} }\n", "1:10", "a pipe needs a \"most\""),
        ("pipes: { pipe0: { most: 9, least: 1 } }\n", "1:28", "least"),
        ("interfaces: { pipe0: {} }\n", "1:15", "no such pipe in \"pipes\""),
        (
            "pipes: { pipe0: { most: 9 } }\ninterfaces: { pipe0: { mtu: 1500 } }\n",
            "2:15",
            "less than an MTU of 1500",
        ),
        (
            "pipes: { pipe0: { most: 9 } }\ninterfaces: { pipe0: { receive: { mode: polling } } }\n",
            "2:15",
            "this interface has no receive queues: it is not a device",
        ),
        (
            "pipes: { pipe0: { most: 9 } }\ninterfaces: { pipe0: { sub-interfaces: { 5: {} } } }\n",
            "2:42",
            "pipe0 cannot have sub-interfaces: it is not a device",
        ),
    ] {
        let faults = read(text, "f", &catalog).faults(&system.abilities);
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(faults.len(), 1, "{text}: {faults:?}");
        assert!(
            faults[0].starts_with(&format!("f:{place}: ")) && faults[0].contains(part),
            "{text}: {faults:?}"
        );
    }
}

#[test]
fn commands_create_and_dump_feature_interfaces() {
    let mut cli = Cli::with(FEATURES);
    assert_eq!(cli.ok("lay pipe most 1400"), "pipe0\n");
    assert_eq!(cli.ok("lay pipe id 3 most 900 index 9"), "pipe3\n");
    assert_eq!(there(&cli.context.system), [3, 9]);
    cli.ok("set interface state pipe0 up");
    cli.ok("set interface ip address pipe0 10.3.0.1/30");
    cli.ok("ip route add 10.4.0.0/16 via pipe0");
    assert!(cli.ok("show config").contains("create pipe3 most 900 index 9\n"));
    assert!(cli.refused("lay pipe id 0 most 1400", "1400").contains("there is an interface pipe0 already"));
    assert!(cli.refused("take up pipe pg0", "pg0").contains("is of another kind"));
    assert!(cli.refused("set interface mtu 1401 pipe0", "1401").contains("less than an MTU of 1401"));
    for (most, why) in [(666, "such a pipe cannot be opened"), (777, "such a pipe leaks")] {
        let told = cli.refused(&format!("lay pipe id 5 most {most}"), &most.to_string());
        assert!(told.contains(why), "{told}");
        assert!(cli.context.system.router.interface_named("pipe5").is_none());
    }
    cli.ok("lay pipe id 5 most 1000");
    cli.ok("take up pipe pipe0");
    assert!(!cli.ok("show config").contains("10.4.0.0/16"));
    assert_eq!(there(&cli.context.system).len(), 2);
}

#[test]
fn disabled_feature_is_refused_with_the_way_to_enable_it() {
    let (registry, catalog) = Selected::without(&[], FEATURES).declared();
    let mut context = Context::new(system(&[], &small(), false));
    let way = "write plugins { plugin plumbing { enable } } in startup.conf";
    let refused =
        Rc::new(registry).run(&mut context, "lay pipe most 7", Call::default()).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains(way), "{refused}");
    for text in ["pipes: { pipe0: { most: 9 } }\n", "interfaces: { pipe0: {} }\n"] {
        let faults = read(text, "f", &catalog).faults(&context.system.abilities);
        assert!(faults.len() == 1 && faults[0].to_string().contains(way), "{faults:?}");
    }
    // Commands that name interfaces of the feature are valid only on a router with the feature.
    assert!(!can_be_name("pipe0", &catalog) && can_be_name("pipe0", &declared(FEATURES).1));
}

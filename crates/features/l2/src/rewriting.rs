//! Rewritings of VLAN tags in the configuration, in commands and in messages.
#![allow(non_camel_case_types)]

use model::cli::{Args, CliError, Output, quote};
use model::key::{Key, Kind, Need};
use model::object::{Change, Object, Refused, View, World, refuse, refuse_as};
use model::reason::Reason;
use model::schema::{Parsed, Valued, parsed, text};
use model::yaml::quoted;
use net::feature::{self, App, Registrar, Section, Shown, message};
use net::objects::{self, Host, Port};
use serde::Serialize;
use vapi::types::interface_index;
use vapi::{Code, Done, Table, define};

use crate::rewrite::{Plans, Rewrite};

/// How the tags of the frames that an interface receives and sends are rewritten, while its frames are switched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagRewrite(pub Rewrite);

impl Kind for TagRewrite {
    /// The interface's name.
    type Key = String;
    const NAME: &'static str = "tag-rewrite";
    const PHASE: u16 = 112;

    fn title(interface: &String) -> String {
        format!("the tag rewriting of {interface}")
    }
}

impl<W: Host> Object<W> for TagRewrite {
    fn validate(
        &self,
        interface: &String,
        view: &View<'_, W>,
        _: &<W as World>::Abilities,
    ) -> Result<(), Refused> {
        let Port { tags: own, receives, .. } = Port::find(interface, view)?;
        if !receives {
            return refuse_as(
                Reason::Unfit,
                format!("{interface} is a loopback: rewrite the tags of the ports"),
            );
        }
        self.0.plans(own).or_else(|why| refuse_as(Reason::Unfit, format!("{interface}: {why}")))?;
        match self.0 == Rewrite::default() {
            true => refuse("a rewriting that changes nothing: leave it out"),
            false => Ok(()),
        }
    }

    fn apply(&self, interface: &String, _: Option<&Self>, world: &mut W) -> Result<(), Refused> {
        let index = world.index(interface)?;
        let router = world.router();
        let own = router.interface(index)?.tags;
        let plans =
            self.0.plans(own).or_else(|why| refuse_as(Reason::Unfit, format!("{interface}: {why}")))?;
        Ok(router.set(index, plans)?)
    }

    fn withdraw(&self, interface: &String, world: &mut W) -> Result<(), Refused> {
        let index = world.index(interface)?;
        Ok(world.router().set(index, Plans::default())?)
    }

    fn dump(&self, interface: &String, _: bool) -> Vec<String> {
        vec![format!("set interface l2 tag-rewrite {} {}", quote(interface), self.0)]
    }

    fn needs(&self, interface: &String, to: &mut dyn FnMut(Need)) {
        to(objects::interface(interface));
    }
}

impl Valued for TagRewrite {
    type Form = Parsed<Rewrite>;

    fn names() -> Parsed<String> {
        text("an interface's name", &["pg0", "pg1"])
    }

    fn form() -> Parsed<Rewrite> {
        let values = "`pop 1`, `pop 2`, `push dot1q VLAN [VLAN]`, or `translate 1-1 dot1q VLAN` (1-2, 2-1, 2-2; or dot1ad)";
        parsed(values, &["push dot1q 7", "push dot1ad 7 8"], Rewrite::parse, |rewrite| {
            quoted(&rewrite.to_string())
        })
    }

    fn value(&self) -> Rewrite {
        self.0
    }

    fn with(rewrite: Rewrite) -> TagRewrite {
        TagRewrite(rewrite)
    }
}

fn change<C: App>(interface: &str, rewrite: Rewrite) -> Change<C::World> {
    let key = Key::with::<TagRewrite>(interface);
    match rewrite == Rewrite::default() {
        true => Change::remove(key),
        false => Change::set(key, TagRewrite(rewrite)),
    }
}

/// Declares the section of the configuration file, and the commands.
pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    r.section(Section::values::<TagRewrite>("tag-rewrites"));
    r.command(
        "set interface l2 tag-rewrite <interface:interface> {disable | pop <count:1..2> | push {dot1q | dot1ad} <tag1:1..4094> [<tag2:1..4094>] | \
         translate {1-1 | 1-2 | 2-1 | 2-2} {dot1q | dot1ad} <tag1:1..4094> [<tag2:1..4094>]}",
        "Rewrite the VLAN tags of the frames that an interface receives, before they are switched: remove tags, put tags in front, or replace \
         them. Sent frames are rewritten the other way. Routed packets are not changed.",
        set,
    );
    r.command("show tag-rewrite", "Show the interfaces whose VLAN tags are rewritten.", |_, a| {
        Ok(feature::show(a, &["Interface", "Received frames", "Sent frames"], rows, cells))
    });
}

fn set<C: App>(c: &mut C, a: &Args) -> Result<Output<C>, CliError> {
    let interface = a.need::<String>("interface")?;
    let tags: Vec<String> =
        ["tag1", "tag2"].iter().filter_map(|tag| a.get::<u32>(tag)).map(|tag| tag.to_string()).collect();
    let kind = if a.has("dot1ad") { "dot1ad" } else { "dot1q" };
    let form = ["1-1", "1-2", "2-1", "2-2"].into_iter().find(|form| a.has(form)).unwrap_or_default();
    let (about, text) = match () {
        () if a.has("pop") => ("count", format!("pop {}", a.need::<u32>("count")?)),
        () if a.has("push") => ("push", format!("push {kind} {}", tags.join(" "))),
        () if a.has("translate") => ("translate", format!("translate {form} {kind} {}", tags.join(" "))),
        () => ("disable", String::new()),
    };
    let rewrite = match about {
        "disable" => Rewrite::default(),
        _ => Rewrite::parse(&text).map_err(|why| a.fault(about, why))?,
    };
    let key = Key::with::<TagRewrite>(&interface);
    if rewrite == Rewrite::default() {
        return feature::unset(c, key);
    }
    c.transact(vec![change::<C>(&interface, rewrite)]).map_err(|e| a.about("interface", e))?;
    Ok(Output::none())
}

/// A rewriting, as shown.
#[derive(Serialize)]
struct Row {
    interface: String,
    /// The tags of received frames, after the rewriting.
    received: String,
    /// The tags of sent frames, after the rewriting.
    sent: String,
}

fn rows(shown: &Shown<'_, Plans>) -> Vec<Row> {
    let Plans { rx, tx } = shown.value;
    vec![Row { interface: shown.interface.name.clone(), received: rx.to_string(), sent: tx.to_string() }]
}

fn cells(row: &Row) -> Vec<String> {
    vec![row.interface.clone(), row.received.clone(), row.sent.clone()]
}

define! {
    /// Rewrites the VLAN tags of the frames that an interface receives and sends.
    request l2_interface_vlan_tag_rewrite {
        sw_if_index: interface_index,
        vtr_op: u32,
        push_dot1q: u32,
        tag1: u32,
        tag2: u32,
    }
}

/// Adds the message.
pub(crate) fn messages<C: App>(table: &mut Table<C>) {
    table.module("l2", [3, 3, 0]).request::<l2_interface_vlan_tag_rewrite>(|c, _, q| answer(c, &q));
}

fn answer<C: App>(c: &mut C, q: &l2_interface_vlan_tag_rewrite) -> Result<Done, Code> {
    let interface = message::name(c.router(), q.sw_if_index)?;
    let rewrite = match q.vtr_op {
        0 => Rewrite::default(),
        op => Rewrite::numbered(op, q.push_dot1q == 0, [q.tag1, q.tag2]).map_err(|_| Code::INVALID_VALUE)?,
    };
    let has = c.store().get(&Key::with::<TagRewrite>(&interface)).is_some();
    if rewrite == Rewrite::default() && !has {
        return vapi::DONE;
    }
    message::make(c, vec![change::<C>(&interface, rewrite)])
}

//! Policers as objects of the configuration, by their names.

use model::cli::quote;
use model::key::{Key, Kind as ObjectKind, Need, Role};
use model::object::{Object, Refused, World, refuse};
use model::store::View;
use model::visible::hidden;
use model::yaml::{At, Node, Reader, Text, quoted};
use net::feature::{App, Objects, Registrar, Section};
use net::objects::Host;

use crate::action::Action;
use crate::rate::{Kind, Params, Round, Unit};
use crate::table::Policers;

/// Bytes of a name at most, as in VPP.
pub const MAX_NAME: usize = 63;

/// The largest frame on most links, without its check sequence: what a burst should have room for.
pub(crate) const USUAL_FRAME: u64 = 1514;

/// What an interface with a policer needs.
static POLICER: Role = Role {
    name: "policer",
    title: |id| id.get::<String>().map_or_else(|| "a policer".into(), |name| format!("policer {name}")),
};

impl ObjectKind for Params {
    /// Its name.
    type Key = String;
    const NAME: &'static str = "policer";
    const PHASE: u16 = 40;
    /// Interfaces may leave it without being made anew.
    const LAST: bool = true;
    const NEEDS: bool = false;

    fn title(name: &String) -> String {
        format!("policer {name}")
    }

    fn role(name: &String) -> Option<Need> {
        Some(Need::new(&POLICER, name))
    }
}

impl<W: Host> Object<W> for Params {
    fn validate(&self, name: &String, _: &View<'_, W>, _: &<W as World>::Abilities) -> Result<(), Refused> {
        if name.is_empty() || name.len() > MAX_NAME {
            return refuse(format!("the name of a policer has 1 to {MAX_NAME} bytes, not {}", name.len()));
        }
        if let Some(why) = hidden(name) {
            return refuse(why);
        }
        self.check().or_else(|bad| refuse(bad.why))
    }

    fn apply(&self, name: &String, _: Option<&Self>, world: &mut W) -> Result<(), Refused> {
        let router = world.router();
        let now = router.now();
        let policers = router.state_mut::<Policers>()?;
        match policers.find(name) {
            Some(index) => policers.change(index, *self, now)?,
            None => policers.add_named(name, *self, now).map(drop)?,
        }
        Ok(())
    }

    fn withdraw(&self, name: &String, world: &mut W) -> Result<(), Refused> {
        let policers = world.router().state_mut::<Policers>()?;
        match policers.find(name) {
            Some(index) => Ok(policers.remove(index)?),
            None => refuse(format!("the router has no policer {name}")),
        }
    }

    fn warnings(&self, to: &mut dyn FnMut(String)) {
        self.too_small_for(USUAL_FRAME).for_each(to);
    }

    /// What is VPP's default and not ours is written as well.
    fn dump(&self, name: &String, _: bool) -> Vec<String> {
        let unit = match self.unit {
            Unit::Kbps => "",
            Unit::Pps => " packets",
        };
        let mut line = format!("policer add name {} type {}", quote(name), self.kind.word());
        line += if self.aware { " color-aware" } else { "" };
        line += &format!(" rate {} cir {}", self.unit.word(), self.cir);
        line += &if self.eir == 0 { String::new() } else { format!(" eir {}", self.eir) };
        line += &format!(" cb {}{unit}", self.cb);
        line += &if self.eb == 0 { String::new() } else { format!(" eb {}{unit}", self.eb) };
        if self.round != Round::default() {
            line += &format!(" round {}", self.round.word());
        }
        for (parameter, action) in self.actions() {
            line += &format!(" {parameter} {action}");
        }
        vec![line]
    }
}

/// The key of a policer.
pub(crate) fn key(name: &str) -> Key {
    Key::with::<Params>(name)
}

/// Declares the section of the configuration's file.
pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    r.section(Section {
        name: "policers",
        kind: <Params as ObjectKind>::INFO,
        read: |file: &mut dyn Objects<C::World>, node: &Node| {
            for (name, at, node) in file.reader().entries(node) {
                if let Some(params) = read(file.reader(), at, node) {
                    file.ask(at, key(name), params.into());
                }
            }
        },
        write: |t, key, value| {
            if let (Some(name), Some(params)) = (key.get::<Params>(), value.get::<Params>()) {
                t.object(&name, |t| write(t, params));
            }
        },
    });
}

/// Reads a policer; `None` if it is faulty, which is noted.
fn read(r: &mut Reader, at: At, node: &Node) -> Option<Params> {
    let (before, usual) = (r.faults.len(), Params::default());
    let mut fields = r.fields(node);
    let kind = fields.take("type").and_then(|n| r.word(n, &Kind::ALL.map(Kind::word)));
    let unit = fields.take("rate").and_then(|n| r.word(n, &Unit::ALL.map(Unit::word)));
    let round = fields.take("round").and_then(|n| r.word(n, &Round::ALL.map(Round::word)));
    let aware = fields.take("color-aware").and_then(|n| r.truth(n));
    let [cir, eir, cb, eb] = ["cir", "eir", "cb", "eb"]
        .map(|name| fields.take(name).and_then(|n| r.number(n, 0..=u64::MAX)).unwrap_or_default());
    let [conform, exceed, violate] = usual.actions().map(|(name, usual)| {
        let action = fields.take(name).and_then(|n| action(r, n));
        action.unwrap_or(usual)
    });
    let params = Params {
        kind: kind.and_then(Kind::parse).unwrap_or_default(),
        unit: unit.and_then(Unit::parse).unwrap_or_default(),
        round: round.and_then(Round::parse).unwrap_or_default(),
        aware: aware.unwrap_or_default(),
        cir,
        eir,
        cb,
        eb,
        conform,
        exceed,
        violate,
    };
    // What could not be read is no value to check.
    if r.faults.len() == before
        && let Err(bad) = params.check()
    {
        let at = fields.take(bad.parameter).map_or(at, |n| n.at);
        r.fault(at, bad.why);
    }
    fields.end(r);
    (r.faults.len() == before).then_some(params)
}

fn action(r: &mut Reader, node: &Node) -> Option<Action> {
    let action = Action::parse(r.text(node)?);
    action.map_err(|why| r.fault(node.at, why)).ok()
}

/// Writes the fields of a policer, but for those that say what is usual.
fn write(t: &mut Text<'_>, params: &Params) {
    let usual = Params::default();
    t.field("type", (params.kind != usual.kind).then(|| quoted(params.kind.word())));
    t.field("rate", (params.unit != usual.unit).then(|| params.unit.word()));
    t.field("color-aware", params.aware.then_some(true));
    t.field("cir", Some(params.cir));
    t.field("eir", (params.eir != 0).then_some(params.eir));
    t.field("cb", Some(params.cb));
    t.field("eb", (params.eb != 0).then_some(params.eb));
    t.field("round", (params.round != usual.round).then(|| params.round.word()));
    for ((name, action), (_, usual)) in params.actions().into_iter().zip(usual.actions()) {
        t.field(name, (action != usual).then(|| quoted(&action.to_string())));
    }
}

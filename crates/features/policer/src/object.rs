//! Policers as objects of the configuration, by their names.

use std::sync::LazyLock;

use model::cli::quote;
use model::key::{Key, Kind as ObjectKind, Need, Role};
use model::object::{Object, Refused, View, World, refuse};
use model::schema::{Described, Parsed, Schema, number, parsed, truth, words};
use model::visible::hidden;
use model::yaml::quoted;
use net::feature::{App, Registrar, Section};
use net::objects::Host;

use crate::action::Action;
use crate::rate::{Kind, MAX_BURST, MOST_RATE, Params, Round, Unit};
use crate::table::Policers;

/// Maximum length of a name in bytes, as in VPP.
pub const MAX_NAME: usize = 63;

/// Size of the largest frame on most links in bytes, without its FCS. A policer with a smaller burst is
/// hardly useful.
pub(crate) const USUAL_FRAME: u64 = 1514;

/// The role by which interfaces refer to policers. An interface with a policer needs the object that has this role and the
/// policer's name.
static POLICER: Role = Role {
    name: "policer",
    title: |id| id.get::<String>().map_or_else(|| "a policer".into(), |name| format!("policer {name}")),
};

impl ObjectKind for Params {
    /// The policer's name.
    type Key = String;
    const NAME: &'static str = "policer";
    const PHASE: u16 = 40;
    /// True: a policer is removed only after the interfaces have been changed. So an interface that stops using the policer is
    /// changed in place, and not removed together with the policer and made again.
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
            return refuse(format!(
                "the name of a policer must have 1 to {MAX_NAME} bytes, not {}",
                name.len()
            ));
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

    /// Returns the command that makes the policer, with the type, the unit and all actions, even if they are
    /// the defaults.
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

/// Returns the configuration's key of the policer `name`.
pub(crate) fn key(name: &str) -> Key {
    Key::with::<Params>(name)
}

/// Declares the section `policers` of the configuration file.
pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    r.section(Section::of::<Params>("policers"));
}

fn action() -> Parsed<Action> {
    let values =
        "`transmit`, `drop`, or `mark-and-transmit` with a DSCP: `\"mark-and-transmit AF12\"`, or a number";
    parsed(
        values,
        &["transmit", "drop", "mark-and-transmit EF", "mark-and-transmit 1"],
        Action::parse,
        |action| quoted(&action.to_string()),
    )
}

impl Described for Params {
    fn schema() -> &'static Schema<Self> {
        static SCHEMA: LazyLock<Schema<Params>> = LazyLock::new(|| {
            let (rate, burst) = (|| number(0..=MOST_RATE), || number(0..=MAX_BURST));
            Schema::new(Params::default())
                .field(
                    "type",
                    words(&Kind::ALL, Kind::word),
                    |p| p.kind,
                    |p, kind| p.kind = kind,
                    "The type: one rate with two or three colors (RFC 2697), or two rates with three colors, by RFC 2698 (where `eir` and \
                      `eb` are the peak rate and burst) or by RFC 4115.",
                )
                .field(
                    "rate",
                    words(&Unit::ALL, Unit::word),
                    |p| p.unit,
                    |p, unit| p.unit = unit,
                    "`kbps`: rates in kbit/s of 1,000 bits, 8 to 400,000,000, bursts in bytes. `pps`: rates in packets a second, 1 to \
                     1,000,000,000, bursts in packets.",
                )
                .field(
                    "color-aware",
                    truth(),
                    |p| p.aware,
                    |p, aware| p.aware = aware,
                    "The policer takes a packet's color on arrival from its DSCP (assured forwarding): AFx3 is red, AFx2 yellow, all others green. It \
                     never improves this color. With `1r2c`, the violate action applies to packets that arrive yellow or red.",
                )
                .field("cir", rate(), |p| p.cir, |p, rate| p.cir = rate, "The committed rate.")
                .always()
                .field("eir", rate(), |p| p.eir, |p, rate| p.eir = rate, "The excess rate, for types with two rates.")
                .field(
                    "cb",
                    burst(),
                    |p| p.cb,
                    |p, burst| p.cb = burst,
                    "The committed burst. A packet larger than the burst never conforms.",
                )
                .always()
                .field(
                    "eb",
                    burst(),
                    |p| p.eb,
                    |p, burst| p.eb = burst,
                    "The excess burst, for types with three colors.",
                )
                .field(
                    "round",
                    words(&Round::ALL, Round::word),
                    |p| p.round,
                    |p, round| p.round = round,
                    "Accepted, but without effect: rates are exact.",
                )
                .field(
                    "conform-action",
                    action(),
                    |p| p.conform,
                    |p, action| p.conform = action,
                    "The action for green packets.",
                )
                .field(
                    "exceed-action",
                    action(),
                    |p| p.exceed,
                    |p, action| p.exceed = action,
                    "The action for yellow packets.",
                )
                .field(
                    "violate-action",
                    action(),
                    |p| p.violate,
                    |p, action| p.violate = action,
                    "The action for red packets.",
                )
                .check(Params::check)
        });
        &SCHEMA
    }
}

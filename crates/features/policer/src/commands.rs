//! The commands that change policers, in VPP's grammar.

use std::time::{Duration, Instant};

use model::cli::{Args, CliError, Job, Output, Step, quote};
use model::object::Change;
use model::schema::Described;
use net::feature::{self, App, Registrar};
use wire::{EthernetHeader, VlanTag};

use crate::action::{self, Action};
use crate::configured::PolicedBy;
use crate::node::Policing;
use crate::object;
use crate::rate::{Kind, Params, Round, Unit};
use crate::table::Policers;

/// Returns the grammar of a policer's parameters in commands; they may come in any order.
fn parameters() -> String {
    let schema = Params::schema();
    let word = |field| schema.syntax(field, "");
    let (rate, round, cir, eir) =
        (word("rate"), word("round"), schema.syntax("cir", "cir"), schema.syntax("eir", "eir"));
    // VPP's last type is refused with a hint.
    let types = Kind::ALL.map(Kind::word).join(" | ");
    // The number of milliseconds of a burst may exceed the limit for packets, so the grammar allows any
    // number.
    let burst = |name: &str| format!("[{name} <{name}-size:u64> [{{bytes | packets | ms}}]]");
    let actions = Params::default().actions().map(|(name, _)| {
        let dscp = name.replace("action", "dscp");
        format!("[{name} {{drop | transmit | {} <{dscp}:word>}}]", action::MARK)
    });
    format!(
        "[type {{{types} | 2r3c-mef5cf1}}] [color-aware] [rate {rate}] [cir {cir}] [eir {eir}] {} {} [round {round}] {}",
        burst("cb"),
        burst("eb"),
        actions.join(" ")
    )
}

/// The grammar by which a command names an existing policer.
const ONE: &str = "{name <policer:policer> | index <index:u32>}";

/// Declares the commands.
pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    let parameters = parameters();
    r.command(
        &format!("policer add [name <policer:word>] {parameters}"),
        "Make a policer. With \"rate kbps\" (default), rates are in kbit/s and bursts in bytes. With \"rate pps\", rates \
         are in packets per second; a burst is in milliseconds at that rate (as in VPP), or in packets if \"packets\" \
         follows it. \"round\" has no effect: rates are exact. By default, conforming packets are transmitted and all others \
         dropped.",
        |c, a| {
            let Some(name) = a.get::<String>("policer") else {
                return Err(a.fault("add", "give the policer a name: policer add name NAME ..."));
            };
            if c.store().get(&object::key(&name)).is_some() {
                let message = format!("there is a policer {name} already: \"configure policer\" changes it");
                return Err(a.fault("policer", message));
            }
            set(c, a, &name)
        },
    );
    r.command(
        &format!("configure policer {{name <policer:word> | index <index:u32>}} {parameters}"),
        "Change a policer. Parameters that are not given get their defaults. Each bucket keeps its fill level as \
         a share of the burst, and counters continue. If no policer has the name, it is made, as in older versions of VPP.",
        |c, a| {
            let name = named(c, a)?;
            set(c, a, &name)
        },
    );
    r.command(&format!("policer del {ONE}"), "Remove an unused policer.", remove);
    r.command(&format!("configure policer {ONE} del"), "Remove an unused policer.", remove);
    r.command(
        "policer {input | output} [unapply] [name <policer:policer>] [index <index:u32>] [<interface:interface>]",
        "Police the packets received or sent on an interface; \"unapply\" ends it. Give an interface and a policer, in \
         any order. Several interfaces may share a policer.",
        police,
    );
    r.command(
        &format!("policer reset {ONE}"),
        "Fill the buckets of a policer. Its counters continue.",
        |c, a| {
            let index = index(c, a)?;
            let now = c.router().now();
            let policers = c.router_mut().state_mut::<Policers>()?;
            policers.reset(index, now).map_err(|e| about(a, e.into()))?;
            Ok(Output::none())
        },
    );
    r.command(
        &format!("policer bind [unbind] {ONE} [<worker:u32>]"),
        "Does nothing: all workers share each policer, and together keep its rate exactly.",
        |c, a| {
            named(c, a)?;
            Ok(Output::text("not needed: all workers share each policer"))
        },
    );
    r.command(
        &format!("clear policer [{ONE}]"),
        "Reset the counters of a policer, or of all policers.",
        |c, a| match a.has("name") || a.has("index") {
            true => {
                let index = index(c, a)?;
                Ok(Output::job(Clear { next: index, last: index }))
            }
            false => Ok(Output::job(Clear { next: 0, last: u32::MAX })),
        },
    )
    .for_operators();
}

/// Attributes the error `e` to the argument that names the policer in a command.
fn about(a: &Args, e: CliError) -> CliError {
    a.about(if a.has("index") { "index" } else { "policer" }, e)
}

/// If interfaces use a policer, returns an error that names the first one and the command that removes the
/// policer from it; otherwise `None`.
fn in_use<C: App>(c: &C, name: &str) -> Option<CliError> {
    let (router, index) = (c.router(), c.router().state::<Policers>().ok()?.find(name)?);
    let mut users = router.interfaces_from(0).flat_map(|i| {
        let Policing { input, output } = router.setting(i.index);
        let ways = [("input", input), ("output", output)];
        ways.into_iter().filter(|(_, policer)| *policer == Some(index)).map(|(way, _)| (&i.name, way))
    });
    let (interface, way) = users.next()?;
    let more = match users.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let cure = format!("policer {way} unapply name {} {}", quote(name), quote(interface));
    Some(CliError::new(format!("policer {name} is in use, by {interface} {way}{more}: run \"{cure}\" first")))
}

/// Returns the name of the policer that a command gives by its name or index.
fn named<C: App>(c: &C, a: &Args) -> Result<String, CliError> {
    let Some(index) = a.get::<u32>("index") else { return a.need("policer") };
    let name = c.router().state::<Policers>().ok().and_then(|policers| policers.name(index));
    name.map(str::to_string).ok_or_else(|| a.fault("index", format!("no policer has the index {index}")))
}

/// Returns the index of the policer that a command gives by its name or index.
pub(crate) fn index<C: App>(c: &C, a: &Args) -> Result<u32, CliError> {
    let name = named(c, a)?;
    let index = c.router().state::<Policers>().ok().and_then(|policers| policers.find(&name));
    index.ok_or_else(|| about(a, CliError::new(format!("there is no policer {name}"))))
}

/// Removes a policer.
fn remove<C: App>(c: &mut C, a: &Args) -> Result<Output<C>, CliError> {
    let name = named(c, a)?;
    let done = c.transact(vec![Change::remove(object::key(&name))]);
    done.map_err(|e| about(a, in_use(c, &name).unwrap_or(e)))?;
    Ok(Output::none())
}

/// Makes or changes a policer.
fn set<C: App>(c: &mut C, a: &Args, name: &str) -> Result<Output<C>, CliError> {
    let params = params(a)?;
    c.transact(vec![Change::set(object::key(name), params)]).map_err(|e| about(a, e))?;
    Ok(warned(&params, object::USUAL_FRAME))
}

/// Returns warnings about bursts smaller than `frame`, the size of a frame in bytes with its link header.
fn warned<C: App>(params: &Params, frame: u64) -> Output<C> {
    let warnings: Vec<_> = params.too_small_for(frame).map(|why| format!("warning: {why}")).collect();
    if warnings.is_empty() { Output::none() } else { Output::text(warnings.join("\n")) }
}

/// Returns the policer's parameters that a command gives.
fn params(a: &Args) -> Result<Params, CliError> {
    let kind = match a.behind("type") {
        Some("2r3c-mef5cf1") => {
            return Err(a.fault(
                "2r3c-mef5cf1",
                "type 2r3c-mef5cf1 is not supported: use 2r3c-4115, which is similar",
            ));
        }
        word => word.and_then(Kind::parse).unwrap_or_default(),
    };
    let unit = a.behind("rate").and_then(Unit::parse).unwrap_or_default();
    let [cir, eir] = ["cir", "eir"].map(|name| a.get::<u64>(name).unwrap_or_default());
    let cb = burst(a, "cb", unit, cir)?;
    let eb = burst(a, "eb", unit, if eir == 0 { cir } else { eir })?;
    let usual = Params::default();
    let [conform, exceed, violate] = usual.actions().map(|(name, usual)| action(a, name, usual));
    let params = Params {
        kind,
        unit,
        cir,
        eir,
        cb,
        eb,
        aware: a.has("color-aware"),
        round: a.behind("round").and_then(Round::parse).unwrap_or_default(),
        conform: conform?,
        exceed: exceed?,
        violate: violate?,
    };
    let place = |parameter| match parameter {
        "cb" if a.has("cb") => "cb-size",
        "eb" if a.has("eb") => "eb-size",
        parameter if a.has(parameter) => parameter,
        _ => "policer",
    };
    params.check().map_err(|bad| a.fault(place(bad.field), bad.why))?;
    Ok(params)
}

/// Returns the burst `name` (`cb` or `eb`) of a command in bytes or packets, whichever `unit` uses; 0 if the
/// command has no such burst. A burst in milliseconds is converted with `rate` in packets per second.
fn burst(a: &Args, name: &str, unit: Unit, rate: u64) -> Result<u64, CliError> {
    let size = format!("{name}-size");
    let Some(burst) = a.get::<u64>(&size) else { return Ok(0) };
    let said = a.behind(&size).filter(|word| matches!(*word, "bytes" | "packets" | "ms"));
    match (unit, said) {
        (Unit::Kbps, None | Some("bytes")) | (Unit::Pps, Some("packets")) => Ok(burst),
        // VPP's unit for packet rates.
        (Unit::Pps, None | Some("ms")) => {
            let packets = (u128::from(burst) * u128::from(rate)).div_ceil(1000);
            u64::try_from(packets).map_err(|_| a.fault(&size, format!("{name} {burst} ms is too long")))
        }
        (Unit::Kbps, _) => Err(a.fault(&size, format!("with \"rate kbps\", {name} is in bytes"))),
        (Unit::Pps, _) => Err(a.fault(&size, format!("with \"rate pps\", {name} is in ms or packets"))),
    }
}

/// Returns the action that a command gives in the argument `name`; without it, `usual`.
fn action(a: &Args, name: &str, usual: Action) -> Result<Action, CliError> {
    Ok(match a.behind(name) {
        None => usual,
        Some("drop") => Action::Drop,
        Some("transmit") => Action::Transmit,
        Some(_) => {
            let dscp = name.replace("action", "dscp");
            let word = a.need::<String>(&dscp)?;
            Action::Mark(action::dscp(&word).map_err(|why| a.fault(&dscp, why))?)
        }
    })
}

/// Sets or removes the policer of an interface, for received or for sent packets.
fn police<C: App>(c: &mut C, a: &Args) -> Result<Output<C>, CliError> {
    let outward = a.has("output");
    let way = if outward { "output" } else { "input" };
    match [a.has("name"), a.has("index"), a.get::<String>("interface").is_some()] {
        [true, true, _] => return Err(a.fault("index", "give a name or an index, not both")),
        [true, _, true] | [_, true, true] => {}
        [false, false, _] => {
            return Err(a.fault(way, format!("name the policer: policer {way} name NAME INTERFACE")));
        }
        _ => return Err(a.fault(way, format!("name the interface: policer {way} name NAME INTERFACE"))),
    }
    let (name, interface) = (named(c, a)?, a.need::<String>("interface")?);
    let index = index(c, a)?;
    if a.has("unapply") {
        let policing =
            c.router().interface_named(&interface).map(|i| c.router().setting::<Policing>(i.index));
        let policing = policing.unwrap_or_default();
        if (if outward { policing.output } else { policing.input }) != Some(index) {
            return Err(
                a.fault("interface", format!("policer {name} does not police the {way} of {interface}"))
            );
        }
    }
    let name = (!a.has("unapply")).then_some(name);
    let on = name.is_some();
    feature::set(c, a, |by: &mut PolicedBy| *(if outward { &mut by.output } else { &mut by.input }) = name)?;
    let params = c.router().state::<Policers>().ok().and_then(|policers| policers.get(index));
    Ok(match params.zip(c.router().interface_named(&interface)).filter(|_| on) {
        Some((params, i)) => {
            let tags = i.tags.map_or(0, |tags| 1 + usize::from(tags.inner.is_some()));
            let link = EthernetHeader::LEN + tags * VlanTag::LEN;
            warned(params, u64::from(i.mtu) + link as u64)
        }
        None => Output::none(),
    })
}

/// How long a step of the job runs before the main thread does other work.
const SLICE: Duration = Duration::from_micros(500);

/// A job that clears the counters of the policers with the indexes `next` to `last`, in steps.
struct Clear {
    next: u32,
    last: u32,
}

impl<C: App> Job<C> for Clear {
    fn step(&mut self, c: &mut C, _: &mut String) -> Step {
        let start = Instant::now();
        let Ok(policers) = c.router_mut().state_mut::<Policers>() else { return Step::Done };
        while start.elapsed() < SLICE {
            let next = policers.from(self.next).next();
            match next.filter(|index| *index <= self.last) {
                None => return Step::Done,
                Some(index) => {
                    policers.clear(index);
                    self.next = index.saturating_add(1);
                }
            }
        }
        Step::Again
    }
}

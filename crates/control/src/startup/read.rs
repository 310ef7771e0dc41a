//! Reads sections into a [`Startup`], by the table of parameters.

use super::{
    Startup, Workers, for_role,
    parameters::{Effect, Parameter, SECTIONS, find},
    tree::{Item, Section},
    unused,
    value::{Cursor, Listen},
};
use crate::cli::{Role, roots};
use infra::cpu::Policy;
use model::place::{Fault, Place, closest, hint};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Reads `sections` into `startup`. Also returns the faults: unknown names, invalid values, and values that exclude each other.
pub fn read(sections: &[Section], startup: Startup) -> (Startup, Vec<Fault>) {
    let mut reader = Reader { startup, faults: Vec::new(), given: BTreeMap::new(), warned: BTreeSet::new() };
    sections.iter().for_each(|section| reader.section(section));
    reader.check_cores();
    reader.check_scheduler();
    reader.check_listen();
    reader.check_sockets();
    reader.check_metrics();
    reader.startup.places = reader.given.iter().map(|(name, place)| (*name, (*place).clone())).collect();
    (reader.startup, reader.faults)
}

struct Reader<'a> {
    startup: Startup,
    faults: Vec<Fault>,
    /// The place where each parameter was last given, in sections that Volley uses.
    given: BTreeMap<&'static str, &'a Place>,
    /// Sections and parameters without effect about which the operator was already warned.
    warned: BTreeSet<&'static str>,
}

impl<'a> Reader<'a> {
    fn section(&mut self, section: &'a Section) {
        let name = section.name.text.as_str();
        if let Some((name, parameters)) = SECTIONS.iter().find(|(known, _)| *known == name) {
            self.parameters(name, parameters, Cursor::new(&section.items, &section.end));
        } else if let Some((name, faults)) = unused::faults(name, &section.items, &section.end) {
            self.faults.extend(faults);
            self.warn_once(name, &section.name.place, || {
                format!("section '{name}' is not used by this version")
            });
        } else {
            let used = SECTIONS.iter().map(|(name, _)| *name);
            let unused = closest(name, unused::names());
            let hint = hint(name, used.chain(unused));
            self.faults.push(Fault::new(&section.name.place, format!("unknown section '{name}': {hint}")));
        }
    }

    fn parameters(&mut self, section: &str, parameters: &'static [Parameter], mut cursor: Cursor<'a>) {
        while let Some(item) = cursor.first() {
            let Some(parameter) = find(parameters, &mut cursor) else {
                self.faults.push(unknown(item, section, parameters));
                cursor.take();
                skip_values(parameters, &mut cursor);
                continue;
            };
            if let Err(mut fault) = (parameter.read)(&mut self.startup, &mut cursor) {
                // Skip the wrong value. But if it is the name of a parameter, the value is missing, and the next parameter must not be
                // skipped.
                if cursor.first().is_some_and(|next| *next.place() == fault.place)
                    && !parameters.iter().any(|p| p.next_name(&cursor).is_some())
                {
                    cursor.take();
                }
                fault.message += &format!("; usage: {} {}", parameter.name, parameter.values);
                self.faults.push(fault);
                continue;
            }
            self.note(parameter, item.place());
        }
    }

    /// Records that `parameter` was given, and warns if it is repeated or has no effect.
    fn note(&mut self, parameter: &'static Parameter, place: &'a Place) {
        let name = parameter.name;
        if let Some(earlier) = self.given.insert(parameter.key, place)
            && !parameter.repeats
        {
            let warning = format!("{place}: '{name}' was given before, at {earlier}: the last one counts");
            self.startup.warnings.push(warning);
        }
        if parameter.effect == Effect::Ignored {
            self.warn_once(parameter.key, place, || format!("'{name}' has no effect: {}", parameter.help));
        }
    }

    fn warn_once(&mut self, name: &'static str, place: &Place, message: impl Fn() -> String) {
        if self.warned.insert(name) {
            self.startup.warnings.push(format!("{place}: {}", message()));
        }
    }

    /// Checks that a priority is set only with a real-time policy.
    fn check_scheduler(&mut self) {
        let real_time = matches!(self.startup.cpu.policy, Some(Policy::Fifo | Policy::RoundRobin));
        if let Some(place) = self.given.get("scheduler-priority").filter(|_| !real_time) {
            let message = "scheduler-priority needs a real-time policy: set scheduler-policy to fifo or rr";
            self.faults.push(Fault::new(place, message));
        }
    }

    /// Checks that the sockets of the CLI have different names. They must also differ from the names of root's own sockets: each socket
    /// `NAME` has a second one, `NAME.root`.
    fn check_sockets(&mut self) {
        let unix = &self.startup.unix;
        let at = |path: &PathBuf| unix.runtime_dir.join(path);
        let mut before = Vec::new();
        if let Listen::Socket(path) = &unix.cli_listen {
            before.push((Role::Admin, at(path)));
        }
        for (role, given) in &unix.cli_listen_for {
            let (path, shown, name) = (at(given), given.display(), "use another name for this socket");
            let conflict = before.iter().find_map(|(of, other)| match *other == path {
                true => Some(format!("{shown} is already the socket of {}: {name}", for_role("cli-listen", *of))),
                false => (roots(&path) == *other || roots(other) == path).then(|| {
                    format!(
                        "{shown} conflicts with root's own socket (each socket NAME has a second one, NAME.root): {name}"
                    )
                }),
            });
            before.push((*role, path));
            let place = self.given.get(&*for_role("cli-listen", *role));
            self.faults.extend(conflict.zip(place).map(|(message, place)| Fault::new(place, message)));
        }
    }

    /// Refuses a CLI socket that other machines can reach, unless `cli-allow-remote` is set.
    fn check_listen(&mut self) {
        if let Listen::Tcp(address) = &self.startup.unix.cli_listen
            && !address.ip().is_loopback()
            && !self.startup.unix.cli_allow_remote
            && let Some(place) = self.given.get("cli-listen")
        {
            let message = format!(
                "the CLI has no password, and {address} is not a loopback address: use 127.0.0.1:{}, or add \
                 cli-allow-remote if everybody who reaches it may configure the router",
                address.port()
            );
            self.faults.push(Fault::new(place, message));
        }
    }

    /// Refuses an address for the metrics that other machines can reach, unless `allow-remote` is set.
    fn check_metrics(&mut self) {
        if let Some(address) = &self.startup.metrics.listen
            && !address.ip().is_loopback()
            && !self.startup.metrics.allow_remote
            && let Some(place) = self.given.get("listen")
        {
            let message = format!(
                "{address} is not a loopback address: use 127.0.0.1:{}, or add allow-remote if everybody who reaches it may \
                 read the metrics",
                address.port()
            );
            self.faults.push(Fault::new(place, message));
        }
    }

    /// Checks that the parameters that place threads do not conflict.
    fn check_cores(&mut self) {
        let ways = ["workers", "corelist-workers", "coremask-workers"];
        let mut ways: Vec<_> = ways.iter().filter_map(|way| Some((self.given.get(way)?, way))).collect();
        ways.sort();
        if let [(_, first), .., (place, last)] = ways.as_slice() {
            let message = format!("'{last}' and '{first}' exclude each other: give one of them");
            self.faults.push(Fault::new(place, message));
        }
        if let (Some(core), Workers::Cores(cores)) = (self.startup.cpu.main_core, &self.startup.cpu.workers)
            && cores.contains(&core)
            && let Some(place) = self.given.get("main-core")
        {
            let message = format!("core {core} is also a worker's: use a core without a worker");
            self.faults.push(Fault::new(place, message));
        }
        if self.startup.cpu.workers == Workers::Count(0)
            && let Some(place) = self.given.get("workers")
        {
            let warning =
                format!("{place}: 'workers 0' runs one worker: the main thread never forwards packets");
            self.startup.warnings.push(warning);
        }
    }
}

/// Skips the values of an unknown parameter: all words before the next known parameter, or before a word that is similar to the name of
/// one.
fn skip_values(parameters: &[Parameter], cursor: &mut Cursor<'_>) {
    let names = || parameters.iter().flat_map(Parameter::names);
    while let Some(item) = cursor.first() {
        match item {
            Item::Word(word)
                if names().any(|name| cursor.starts_with(name)) || closest(&word.text, names()).is_some() =>
            {
                return;
            }
            _ => cursor.take(),
        };
    }
}

fn unknown(item: &Item, section: &str, parameters: &[Parameter]) -> Fault {
    match item {
        Item::Word(word) => {
            let hint = hint(&word.text, parameters.iter().flat_map(Parameter::names));
            let message = format!("section '{section}' has no parameter '{}': {hint}", word.text);
            Fault::new(&word.place, message)
        }
        Item::Block(block) => {
            Fault::new(&block.open, format!("expected a parameter of section '{section}', found '{{'"))
        }
    }
}

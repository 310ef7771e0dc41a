//! The drivers of interfaces: a file or folder each, with the driver's configuration fields and commands.

mod af_packet;
mod af_xdp;
mod generator;
pub mod memif;
mod pcap;
mod tap;

use model::visible::hidden;
use net::feature::number_of;

use crate::app::Feature;
use crate::cli::{Args, CliError};
use crate::intent::{Interface, Reason, Refused, View, refuse, refuse_as};
use crate::system::System;

/// All drivers, in the order of the configuration reference.
pub const ALL: &[&Feature] = &[
    &af_packet::Feature,
    &af_xdp::Feature,
    &memif::Feature,
    &pcap::Feature,
    &tap::Feature,
    &generator::Feature,
];

/// Maximum length of a Linux interface's name in bytes (`IFNAMSIZ` without the final zero).
const LONGEST_LINUX_NAME: usize = 15;

const FORCE: &str = "Takes the Linux interface even if it carries the default route.";

/// Checks that a text of an API request can be saved. It must not have characters that control terminals, because files and typed
/// commands cannot have them.
fn can_be_written(text: &str) -> Result<(), Refused> {
    hidden(text).map_or(Ok(()), |why| refuse_as(Reason::Value, why))
}

/// Checks the name of a Linux interface as the kernel does (`dev_valid_name`).
fn check_linux_name(name: &str) -> Result<(), Refused> {
    if name.len() > LONGEST_LINUX_NAME {
        return refuse(format!(
            "invalid Linux interface name \"{name}\": it has more than {LONGEST_LINUX_NAME} bytes"
        ));
    }
    can_be_written(name)?;
    let odd = |c: char| matches!(c, '/' | ':' | '\0') || c.is_ascii_whitespace();
    if matches!(name, "" | "." | "..") || name.contains(odd) {
        return refuse(format!(
            "invalid Linux interface name \"{name}\": \"/\", \":\" and blanks are not allowed, nor \".\" and \"..\""
        ));
    }
    Ok(())
}

/// Refuses the Linux interface `host_interface` if the router's interface `other`, which has another driver, already uses it. Also refuses
/// the host's end of one of the router's own taps, because packets would loop.
fn taken_once(host_interface: &str, other: &str, view: &View<'_>) -> Result<(), Refused> {
    // Sub-interfaces do not count: `xdp-eth0.5` may be one of xdp-eth0.
    if view.get(&Interface::key(other)).is_some() {
        return refuse(format!("{other} already uses the Linux interface {host_interface}"));
    }
    match tap::taps(view, host_interface).next() {
        Some(tap) => refuse(format!("{host_interface} is the host's end of {tap}, the router's own tap")),
        None => Ok(()),
    }
}

/// True if the interface `name` may take a Linux interface in spite of its default route. Two conditions must hold: the operator has
/// accepted the interface before, and the route comes from a router advertisement. Any host on the link can send router advertisements, so
/// they must not keep the router from starting.
fn ignores_default_route(name: &str, host_interface: &str, system: &System) -> bool {
    let ignores = system.has_accepted(name) && drivers::has_only_learned_default_route(host_interface);
    if ignores {
        tracing::warn!(
            event = "device",
            "{name}: ignoring the default route through {host_interface}: the kernel learned it from a router advertisement"
        );
    }
    ignores
}

/// Returns a check of interface names. A name must be `prefix` and the name of a Linux interface. The check returns `None` for names
/// without the prefix.
fn is_linux(prefix: &'static str) -> impl Fn(&str) -> Option<Result<(), Refused>> + Send + Sync {
    move |name| {
        let name = name.strip_prefix(prefix).filter(|name| !name.is_empty())?;
        Some(check_linux_name(name))
    }
}

/// Returns the name of a device from a command, and the number in it. A number has only one valid spelling, because the device's
/// Ethernet address follows from the number alone.
fn numbered_name(a: &Args, prefix: &str, what: &str) -> Result<(String, u16), CliError> {
    let name = a.need::<String>("name")?;
    match number_of(&name, prefix) {
        Some(number) => Ok((name, number)),
        None => {
            let last = u16::MAX;
            let names = format!("{prefix}0, {prefix}1, … {prefix}{last}");
            Err(a.fault("name", format!("invalid name \"{name}\" for a {what}: use one of {names}")))
        }
    }
}

#[cfg(test)]
pub(crate) use generator::Generator;

//! What interfaces of the router itself are made of: a folder or file for each driver, with all that an operator sees of it.

mod af_packet;
mod af_xdp;
mod generator;
pub mod memif;
mod pcap;
mod tap;

use net::feature::number_of;

use crate::cli::{Args, CliError};
use crate::commands::Feature;
use crate::config::DEVICE_TYPES;
use crate::intent::{Interface, Refused, View, refuse, taps};

/// Every one, in the order of the configuration's reference.
pub const ALL: &[&Feature] = &[
    &af_packet::Feature,
    &af_xdp::Feature,
    &memif::Feature,
    &pcap::Feature,
    &tap::Feature,
    &generator::Feature,
];

/// Bytes of the name of a Linux interface (`IFNAMSIZ`, less the zero at its end).
const LONGEST_LINUX_NAME: usize = 15;

const FORCE: &str = "Takes the Linux interface even if it carries the default route.";

/// Whether a Linux interface can have this name, as the kernel sees it (`dev_valid_name`).
fn check_linux_name(name: &str) -> Result<(), Refused> {
    if name.len() > LONGEST_LINUX_NAME {
        return refuse(format!(
            "no Linux interface has a name of more than {LONGEST_LINUX_NAME} bytes, as \"{name}\" has"
        ));
    }
    let odd = |c: char| matches!(c, '/' | ':' | '\0') || c.is_ascii_whitespace();
    if matches!(name, "" | "." | "..") || name.contains(odd) {
        return refuse(format!(
            "no Linux interface has the name \"{name}\": it would have no \"/\", \":\" or blank"
        ));
    }
    Ok(())
}

/// A Linux interface is a port of the router in one way, not in the other as well. And the host's end of one of the router's own
/// taps is none: packets would go around in circles.
fn taken_once(host_interface: &str, other: &str, view: &View<'_>) -> Result<(), Refused> {
    // Not a sub-interface of that name: `xdp-eth0.5` may be one of xdp-eth0.
    if view.get(&Interface::key(other)).is_some() {
        return refuse(format!("{other} has the Linux interface {host_interface} already"));
    }
    match taps(view, host_interface).next() {
        Some(tap) => {
            refuse(format!("{host_interface} is the host's end of {tap}, which is the router's own"))
        }
        None => Ok(()),
    }
}

/// Whether this is a prefix and the name of a Linux interface.
fn is_linux(prefix: &'static str) -> impl Fn(&str) -> Option<Result<(), Refused>> + Send + Sync {
    move |name| {
        let name = name.strip_prefix(prefix).filter(|name| !name.is_empty())?;
        Some(check_linux_name(name))
    }
}

/// The name of a device, and the number in it: one name a number, as the Ethernet address follows from it.
fn numbered_name(a: &Args, prefix: &str, what: &str) -> Result<(String, u16), CliError> {
    let name = a.need::<String>("name")?;
    match number_of(&name, prefix) {
        Some(number) => Ok((name, number)),
        None => {
            let last = u16::MAX;
            let names = format!("{prefix}0, {prefix}1, … {prefix}{last}");
            Err(a.fault("name", format!("\"{name}\" is no name for a {what}: they are {names}")))
        }
    }
}

#[cfg(test)]
pub(crate) use generator::Generator;

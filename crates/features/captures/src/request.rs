//! The capture that a command requests.

use buf::bpf::Program;
use model::cli::{Args, CliError};
use net::feature::App;

use crate::rings::{MOST_BYTES, Point};

/// The packets of a capture.
pub(crate) struct Request {
    pub(crate) points: Vec<Point>,
    pub(crate) scope: Scope,
    /// Maximum number of bytes kept of each packet.
    pub(crate) keep: u32,
    pub(crate) filter: Option<Program>,
}

/// The interfaces of a capture, including those made while it runs.
pub(crate) enum Scope {
    /// All interfaces.
    Any,
    /// This device with its sub-interfaces.
    Device(String),
}

impl Request {
    /// Reads the request of a capture command with the optional words `rx`, `tx` and `drop`, and the optional arguments `packets`,
    /// `interface` and `bytes`. Without any of the three words, packets are captured at the points `usual`. Without the argument
    /// `bytes`, the value of the parameter `bytes` applies.
    pub(crate) fn of<C: App>(
        c: &C,
        a: &Args,
        usual: &[Point],
        bytes: u32,
        filter: Option<Program>,
    ) -> Result<Request, CliError> {
        let words = [("rx", Point::Rx), ("tx", Point::Tx), ("drop", Point::Drop)];
        let mut points: Vec<Point> =
            words.into_iter().filter(|(word, _)| a.has(word)).map(|(_, point)| point).collect();
        if points.is_empty() {
            points = usual.to_vec();
        }
        let keep = a.get::<u32>("bytes").unwrap_or(bytes);
        if !(32..=MOST_BYTES as u32).contains(&keep) {
            return Err(
                a.fault("bytes", format!("the number of bytes of each packet must be 32 to {MOST_BYTES}"))
            );
        }
        if a.get::<u32>("packets") == Some(0) {
            return Err(a.fault("packets", "the number of packets of a capture must be at least 1"));
        }
        Ok(Request { points, scope: scope(c, a)?, keep, filter })
    }
}

/// Returns the interfaces in a command's arguments.
pub(crate) fn scope<C: App>(c: &C, a: &Args) -> Result<Scope, CliError> {
    let Some(name) = a.get::<String>("interface").filter(|name| name != "any") else { return Ok(Scope::Any) };
    match c.router().interface_named(&name) {
        Some(i) if i.parent != i.index => Err(a.fault(
            "interface",
            format!("{name} is a sub-interface, but captures are of whole devices: name its device instead"),
        )),
        Some(_) => Ok(Scope::Device(name)),
        None => Err(a.fault("interface", format!("there is no interface {name}; use \"any\" for all"))),
    }
}

//! The capture that a command requests.

use buf::bpf::Program;
use model::cli::{Args, CliError};
use net::feature::App;

use crate::rings::{MOST_BYTES, Point};

/// The packets of a capture.
pub(crate) struct Request {
    pub(crate) points: Vec<Point>,
    pub(crate) scope: Scope,
    /// Bytes kept of each packet.
    pub(crate) keep: u32,
    pub(crate) filter: Option<Program>,
}

/// The interfaces of a capture, including those made while it runs.
pub(crate) enum Scope {
    /// All.
    Any,
    /// This device with its sub-interfaces.
    Device(String),
}

impl Request {
    /// Reads the request of a command whose syntax has `[rx] [tx] [drop]`, and arguments `packets`,
    /// `interface` and `bytes`. Without any of the first three, packets are captured at `usual`; without the
    /// last one, `bytes` of each are kept.
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
            return Err(a.fault("bytes", format!("out of range: 32 to {MOST_BYTES} bytes of each packet")));
        }
        if a.get::<u32>("packets") == Some(0) {
            return Err(a.fault("packets", "a capture has at least one packet"));
        }
        Ok(Request { points, scope: scope(c, a)?, keep, filter })
    }
}

/// Returns the interfaces in a command's arguments.
pub(crate) fn scope<C: App>(c: &C, a: &Args) -> Result<Scope, CliError> {
    let Some(name) = a.get::<String>("interface").filter(|name| name != "any") else { return Ok(Scope::Any) };
    match c.router().interface_named(&name) {
        Some(i) if i.parent != i.index => {
            Err(a
                .fault("interface", format!("{name} is a sub-interface: packets are captured on its device")))
        }
        Some(_) => Ok(Scope::Device(name)),
        None => Err(a.fault("interface", format!("there is no interface {name}; use \"any\" for all"))),
    }
}

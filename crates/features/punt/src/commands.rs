//! The commands for punted packets.

use graph::PuntReason;
use model::cli::{Args, CliError, Output, Table};
use model::object::Change;
use model::schema::{Form, Valued};
use net::feature::{self, App, Registrar};
use serde::Serialize;

use crate::rate::PuntRate;

/// Declares the commands.
pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    r.command(
        "show punt",
        "Show the packets punted to the main thread, and those dropped because they exceeded the maximum rate of their reason.",
        |c, _| Ok(show(c)),
    );
    r.supports("show punt".into());
    r.command(
        &format!("set punt rate <reason:punt-reason> {}", PuntRate::form().syntax("rate")),
        "Set the maximum rate of a punt reason, in packets a second from each worker to the main thread.",
        set,
    );
    r.command(
        "set punt rate <reason:punt-reason> default",
        "Reset the maximum rate of a punt reason to the default.",
        |c, a| feature::unset(c, PuntRate::key(&a.need::<String>("reason")?)),
    );
}

fn set<C: App>(c: &mut C, a: &Args) -> Result<Output<C>, CliError> {
    let rate = PuntRate(a.need("rate")?);
    c.transact(vec![Change::set(PuntRate::key(&a.need::<String>("reason")?), rate)])?;
    Ok(Output::none())
}

#[derive(Serialize)]
struct Punted {
    reason: &'static str,
    rate_per_second: u32,
    default_rate_per_second: u32,
    passed: u64,
    policed: u64,
}

fn show<C: App>(c: &C) -> Output<C> {
    let graph = c.router().graph();
    let reasons = (0..).zip(graph.punt_reasons());
    let all: Vec<Punted> = reasons
        .map(|(i, r)| {
            let [passed, policed] = graph.stats().punted(PuntReason(i));
            let (rate_per_second, default_rate_per_second) = (r.rate(), r.default_rate);
            Punted { reason: r.name, rate_per_second, default_rate_per_second, passed, policed }
        })
        .collect();
    let mut t = Table::new(&["Reason", "Max rate/s per worker", "Passed", "Policed"]);
    for p in &all {
        let numbers = [u64::from(p.rate_per_second), p.passed, p.policed].map(|n| n.to_string());
        t.row([vec![p.reason.to_string()], numbers.to_vec()].concat());
    }
    Output::show(&all, t.to_string())
}

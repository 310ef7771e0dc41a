//! Packets that go to the main thread.

use graph::PuntReason;
use serde::Serialize;

use super::{Context, Output};
use crate::cli::{Args, CliError, Registry, Table};
use crate::intent::{Change, PUNT_RATES, PuntRate};

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add("show punt", "Show what went to the main thread, and what its policers held back.", show);
    r.add(
        "set punt rate <reason:punt-reason> <rate:u32>",
        "Set how many packets a second each worker lets through to the main thread for a reason.",
        set,
    );
    r.add(
        "set punt rate <reason:punt-reason> default",
        "Give a reason the router's own rate again.",
        |c, a| c.unset(PuntRate::key(&a.need::<String>("reason")?)),
    );
}

fn set(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let rate = a.need("rate")?;
    if !PUNT_RATES.contains(&rate) {
        let (least, most) = PUNT_RATES.into_inner();
        return Err(a.fault("rate", format!("packets of a reason a second are {least} to {most}")));
    }
    c.transact(vec![Change::set(PuntRate::key(&a.need::<String>("reason")?), PuntRate(rate))])?;
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

fn show(c: &mut Context, _: &Args) -> Result<Output, CliError> {
    let graph = c.system.router.graph();
    let reasons = (0..).zip(graph.punt_reasons());
    let all: Vec<Punted> = reasons
        .map(|(i, r)| {
            let [passed, policed] = graph.stats().punted(PuntReason(i));
            let (rate_per_second, default_rate_per_second) = (r.rate(), r.default_rate);
            Punted { reason: r.name, rate_per_second, default_rate_per_second, passed, policed }
        })
        .collect();
    let mut t = Table::new(&["Reason", "Rate/s of a worker", "Passed", "Policed"]);
    for p in &all {
        let numbers = [u64::from(p.rate_per_second), p.passed, p.policed].map(|n| n.to_string());
        t.row([vec![p.reason.to_string()], numbers.to_vec()].concat());
    }
    Ok(Output::show(&all, t.to_string()))
}

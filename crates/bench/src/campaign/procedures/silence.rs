//! Describes why a router forwards nothing, as far as the tester can tell.

use super::super::trial::Trial;
use crate::engine::receiver::Damaged;

/// Returns an error text about a router that forwarded nothing. `said` is the router's last output.
pub(super) fn told(trial: &Trial, counters: &[(String, String)], said: &str) -> String {
    let mut all = Vec::new();
    let directions = trial.flows.iter().map(|flow| flow.direction + 1).max().unwrap_or(0);
    for direction in 0..directions {
        let of = || trial.flows.iter().filter(|flow| flow.direction == direction);
        let sent: u64 = of().map(|flow| flow.sent).sum();
        // The first direction is from the first port to the second.
        let (from, to) = (direction % 2, 1 - direction % 2);
        let mut damaged = Damaged::default();
        of().for_each(|flow| damaged.add(&flow.damaged));
        if damaged.all() > 0 {
            let Damaged { length, checksum, ttl, payload } = damaged;
            all.push(format!(
                "port {from} sent {sent} frames, and all frames that port {to} received were damaged (wrong length: {length}, wrong \
                 checksum: {checksum}, wrong TTL: {ttl}, wrong payload: {payload})"
            ));
            if ttl > 0 {
                all.push("a router lowers the TTL by one: for a bridge set bridge = true, for a chain of routers set hops".into());
            }
            continue;
        }
        all.push(format!("port {from} sent {sent} frames, port {to} received none of them"));
        all.push(match trial.asked.get(to) {
            None | Some(0) => {
                format!("no ARP or Neighbor Discovery request arrived at port {to}: check the router's routes and that forwarding is on")
            }
            Some(n) => format!("port {to} answered {n} ARP or Neighbor Discovery requests"),
        });
    }
    if trial.astray > 0 {
        all.push(format!("{} frames came back to the port that sent them", trial.astray));
    }
    let answered: u64 = trial.asked.iter().sum();
    if let others @ 1.. = trial.foreign.saturating_sub(answered) {
        all.push(format!("{others} other frames arrived"));
    }
    if !counters.is_empty() {
        let counted: Vec<_> = counters.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        all.push(format!("the router's counters: {}", counted.join(", ")));
    }
    let said: Vec<_> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if !said.is_empty() {
        all.push(format!("its last output: {}", said.join(" / ")));
    }
    format!("the router forwards nothing: {}", all.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trial of 300 frames in each direction, all lost.
    fn trial(asked: [u64; 2], astray: u64, foreign: u64) -> Trial {
        let flow = |direction: usize| {
            serde_json::json!({
                "direction": direction, "name": "a", "intended": 300, "sent": 300, "refused": 0, "unmade": 0, "received": 0,
                "duplicated": 0, "reordered": 0, "lag": 0, "fastest": 1.0, "late": 1.0, "last_lost": 0.3, "last_received": null,
            })
        };
        let request =
            serde_json::json!({ "load_fps": 1000.0, "duration": { "secs": 0, "nanos": 300_000_000 } });
        serde_json::from_value(serde_json::json!({
            "key": { "dut": "linux", "traffic": "rfc2544", "size": 64, "bidirectional": true },
            "procedure": "warm-up", "repetition": 1, "at": "now",
            "outcome": {
                "request": request, "intended": 600, "sent": 600, "received": 0, "took": { "secs": 1, "nanos": 0 }, "invalid": [],
            },
            "flows": [flow(0), flow(1)], "asked": asked, "astray": astray, "foreign": foreign,
            "delays": null, "usage": { "seconds": 1.0, "busy": null, "dut_busy": null, "meters": [] },
        }))
        .unwrap()
    }

    #[test]
    fn a_silent_router_is_described_with_all_facts() {
        let counters = [("d0 rx".to_owned(), "300".to_owned())];
        let said = told(&trial([0, 2], 0, 5), &counters, "starting\n\n no route\n");
        assert_eq!(
            said,
            "the router forwards nothing: port 0 sent 300 frames, port 1 received none of them; port 1 answered 2 ARP or Neighbor \
             Discovery requests; port 1 sent 300 frames, port 0 received none of them; no ARP or Neighbor Discovery request arrived at \
             port 0: check the router's routes and that forwarding is on; 3 other frames arrived; the router's counters: d0 rx: 300; \
             its last output: starting / no route"
        );
        let said = told(&trial([1, 1], 600, 2), &[], "");
        assert!(said.contains("600 frames came back to the port that sent them"), "{said}");
        assert!(
            !said.contains("other frames") && !said.contains("counters") && !said.contains("output"),
            "{said}"
        );
    }
}

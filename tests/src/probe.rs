//! Runs `ping` and `traceroute` and reads their output.

use std::time::Duration;

use testkit::netns::{Host, LIMIT};
use testkit::process::poll;

/// The result of one run of `ping`.
#[derive(Debug)]
pub struct Ping {
    /// Round-trip times of the replies, in milliseconds, in order of arrival.
    pub rtts: Vec<f64>,
    /// Requests sent.
    pub sent: usize,
    /// Duplicate replies.
    pub duplicates: usize,
    /// The whole output, including ICMP errors from routers.
    pub text: String,
}

impl Ping {
    /// Runs `ping` on `host` with these arguments.
    ///
    /// # Panics
    /// When it cannot run at all. A ping without a reply is a result.
    pub fn run(host: &Host, arguments: &str) -> Ping {
        let done = host.attempt(&format!("ping -n {arguments}"), LIMIT);
        let text = done.stdout.clone();
        let Some(summary) = text.lines().find(|line| line.contains("packets transmitted")) else {
            panic!("{done}");
        };
        let sent = summary.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0);
        let replies = || text.lines().filter(|line| line.contains(" time="));
        let rtts = replies()
            .filter(|line| !line.contains("DUP!"))
            .filter_map(|line| line.split(" time=").nth(1)?.split_whitespace().next()?.parse().ok());
        Ping {
            rtts: rtts.collect(),
            sent,
            duplicates: replies().filter(|line| line.contains("DUP!")).count(),
            text: text.clone(),
        }
    }

    /// Pings `target` with single requests until it answers, for at most `limit`.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn until_answered(host: &Host, target: &str, limit: Duration) {
        let answered = poll(limit, || Ping::answered(host, target).then_some(()));
        assert!(answered.is_some(), "{target} does not answer {} within {limit:?}", host.name());
    }

    /// True if `target` answers one request within a quarter of a second.
    pub fn answered(host: &Host, target: &str) -> bool {
        !Ping::run(host, &format!("-c 1 -W 0.25 {target}")).rtts.is_empty()
    }

    /// True if every request was answered exactly once.
    pub fn complete(&self) -> bool {
        self.sent > 0 && self.rtts.len() == self.sent && self.duplicates == 0
    }

    /// Returns the median round-trip time in microseconds.
    ///
    /// # Panics
    /// When there was no reply.
    pub fn median_us(&self) -> f64 {
        let mut sorted = self.rtts.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2] * 1000.0
    }
}

/// Returns the hops that `traceroute` prints with these arguments, with one probe for each hop.
///
/// # Panics
/// When it fails.
pub fn traceroute(host: &Host, arguments: &str) -> Vec<String> {
    let text = host.run(&format!("traceroute -n -q 1 -w 2 {arguments}"));
    let hop = |line: &str| line.split_whitespace().nth(1).map(str::to_string);
    text.lines().skip(1).filter_map(hop).collect()
}

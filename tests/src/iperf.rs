//! Runs `iperf3` and reads its report.

use std::time::Duration;

use serde_json::Value;
use testkit::netns::{Host, LIMIT};
use testkit::process::{Process, until};

use crate::snmp;

/// A run of `iperf3` from a client to a server.
#[derive(Debug)]
pub struct Iperf {
    client: Process,
    // Held so that it lives as long as the client.
    _server: Process,
}

impl Iperf {
    /// Starts a server on `server` that listens on `address`, and a client on `client` with these arguments.
    ///
    /// # Panics
    /// When the server does not come up.
    pub fn start(client: &Host, server: &Host, address: &str, arguments: &str) -> Iperf {
        let mut listener = server.spawn(&format!("iperf3 -s -1 --forceflush -B {address}"));
        until("iperf3 listens", LIMIT, || {
            assert!(listener.running(), "iperf3 ended: {}", listener.stderr());
            listener.stdout().contains("Server listening")
        });
        let client = client.spawn(&format!("iperf3 -J -c {address} {arguments}"));
        Iperf { client, _server: listener }
    }

    /// Runs `iperf3` to its end and returns the `end` part of its report.
    ///
    /// # Panics
    /// When it fails.
    pub fn run(client: &Host, server: &Host, address: &str, arguments: &str) -> Value {
        Iperf::start(client, server, address, arguments).finish()
    }

    /// True while the client runs.
    pub fn running(&mut self) -> bool {
        self.client.running()
    }

    /// Waits for the end and returns the `end` part of its report.
    ///
    /// # Panics
    /// When it fails.
    pub fn finish(mut self) -> Value {
        let text = self.client.finish(LIMIT + Duration::from_secs(10)).expect_ok();
        let mut report: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        report["end"].take()
    }
}

/// Returns the number of datagrams of a UDP run that were lost between the hosts. `iperf3` also counts datagrams that
/// overflowed the receiver's socket on a busy machine; those are subtracted. `receiver` must take part in no other run.
///
/// # Panics
/// When the report or the kernel's statistics lack the figure.
pub fn lost_on_the_way(end: &Value, receiver: &Host) -> u64 {
    let lost = end["sum"]["lost_packets"].as_u64().unwrap_or_else(|| panic!("no lost_packets: {end}"));
    lost.saturating_sub(snmp(receiver, "Udp", "RcvbufErrors"))
}

/// Returns the number of datagrams of a UDP run that arrived out of order within their flow.
pub fn out_of_order(end: &Value) -> u64 {
    let streams = end["streams"].as_array().into_iter().flatten();
    streams.filter_map(|s| s["udp"]["out_of_order"].as_u64()).sum()
}

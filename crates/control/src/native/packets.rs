//! Captures and traces of packets. For all protocols.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use graph::NodeId;
use graph::trace::Tracer;
use hyper::StatusCode;
use model::cli::{Call, CliError, quote_last};
use tokio::time::sleep;

use super::client::Client;
use super::commands::{Running, Shown};
use super::problem::{Problem, bad};

/// Maximum number of packets of a trace. The log of a worker has room for many times as many.
const MOST_TRACED: u32 = 1000;
/// Maximum time for which a trace waits for its packets.
const LONGEST: Duration = Duration::from_secs(60);
/// The time for which a trace waits by default.
const USUAL: Duration = Duration::from_secs(10);
/// Interval at which a trace checks for its packets. The last packet also gets this time to pass through the graph.
const LOOK: Duration = Duration::from_millis(20);

/// The packets that a client wants to capture.
#[derive(Default)]
pub(super) struct Wanted {
    /// Any of `rx`, `tx` and `drop`. If empty, received and sent packets are captured.
    pub(super) points: Vec<&'static str>,
    /// Name of a device's interface. The packets of the device and of its sub-interfaces are captured. If empty, packets of all devices
    /// are captured.
    pub(super) interface: String,
    /// Number of packets after which the capture ends.
    pub(super) packets: Option<u32>,
    /// Maximum number of bytes of each packet.
    pub(super) bytes: Option<u32>,
    /// An expression of tcpdump; all packets if it is empty.
    pub(super) filter: String,
}

impl Wanted {
    /// Returns the command for the capture.
    fn line(&self) -> String {
        let mut line = String::from("capture");
        // The command takes each word once, in this order.
        let points = ["rx", "tx", "drop"].into_iter().filter(|point| self.points.contains(point));
        points.for_each(|point| line += &format!(" {point}"));
        let text = |text: &str| (!text.is_empty()).then(|| quote_last(text).into_owned());
        let number = |number: Option<u32>| number.map(|number| number.to_string());
        let arguments = [
            ("interface", text(&self.interface)),
            ("max", number(self.packets)),
            ("max-bytes-per-pkt", number(self.bytes)),
            ("filter", text(&self.filter)),
        ];
        for (word, value) in arguments {
            line.extend(value.map(|value| format!(" {word} {value}")));
        }
        line
    }
}

/// A capture while a client reads it.
pub(super) struct Captured {
    running: Running,
    /// The first piece of the capture file.
    first: Option<Vec<u8>>,
}

impl Captured {
    /// Begins a capture. The capture ends when it has its number of packets. It also ends when it is dropped, because its client has
    /// disconnected.
    ///
    /// # Errors
    /// If another capture is running, if there is no such interface, or if the filter or a number is not valid.
    pub(super) async fn begin(client: &Client, wanted: &Wanted) -> Result<Captured, Problem> {
        let call = Call { binary: true, json: false, ..client.call() };
        let mut running = Running::begin(client, &wanted.line(), call).await?;
        let first = running.data(client).await?;
        Ok(Captured { running, first })
    }

    /// Returns the next piece of the capture file (pcap); `None` at its end.
    ///
    /// # Errors
    /// If the capture fails.
    pub(super) async fn next(&mut self, client: &Client) -> Result<Option<Vec<u8>>, CliError> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.running.data(client).await,
        }
    }
}

/// The packets that a client wants to trace.
pub(super) struct Traced {
    /// The input node whose packets are traced.
    pub(super) node: String,
    pub(super) packets: u32,
    /// An expression of tcpdump; all packets if it is empty.
    pub(super) filter: String,
    /// Maximum time to wait for the packets; [`USUAL`] if `None`.
    pub(super) wait: Option<Duration>,
}

/// Traces the next packets of an input node. Waits until they have passed through the graph, or until the time expires. Returns the traced
/// packets, as `show trace` shows them.
///
/// # Errors
/// If there is no such input node, if the filter is invalid, if the numbers are out of range, if the client may not trace packets, if
/// another client traces packets of the node, or if the log of traces is full.
pub(super) async fn traced(client: &Client, wanted: &Traced) -> Result<Shown, Problem> {
    let Traced { node, packets, filter, wait } = wanted;
    let wait = wait.unwrap_or(USUAL);
    if *packets > MOST_TRACED {
        return Err(bad(format!("at most {MOST_TRACED} packets can be traced, not {packets}")));
    }
    if wait > LONGEST {
        return Err(bad(format!("a trace can wait for at most {} s", LONGEST.as_secs())));
    }
    let mut line = format!("trace add {} {packets}", quote_last(node));
    if !filter.is_empty() {
        line += &format!(" filter {}", quote_last(filter));
    }
    if client.look(|c| c.system.router.graph().tracer().is_full()) {
        return Err(Problem::new(StatusCode::CONFLICT, "the log of traces is full: run clear trace"));
    }
    let armed = Armed::begin(client, node, *packets)?;
    let from = client.look(|c| c.system.router.graph().tracer().next());
    let mut adding = Running::begin(client, &line, client.call()).await?;
    while adding.data(client).await?.is_some() {}
    let until = Instant::now() + wait;
    while armed.left() > 0 && Instant::now() < until {
        // A client that waits for packets may have to make room for another one.
        client.rests();
        sleep(LOOK).await;
    }
    armed.withdraw();
    sleep(LOOK).await;
    client.works();
    // `armed` keeps others away from the node until the packets are chosen.
    Shown::begin(client, &format!("show trace max {packets} from {from} node {}", quote_last(node))).await
}

/// A trace that still waits for packets of a node. When this value is dropped, the rest of the trace is canceled: a trace without a client
/// would only slow the node.
struct Armed {
    tracer: Tracer,
    /// The index of the node, if it exists.
    id: Option<NodeId>,
    /// Number of packets of the node that were still to be traced when this trace began, for other clients.
    before: u32,
    name: String,
    packets: u32,
    /// The nodes whose packets clients trace.
    traced: Rc<RefCell<BTreeSet<String>>>,
}

impl Armed {
    /// Begins a trace of a node.
    ///
    /// # Errors
    /// If another client traces packets of this node: there is one filter for a node.
    fn begin(client: &Client, node: &str, packets: u32) -> Result<Armed, Problem> {
        let traced = client.traced.clone();
        if !traced.borrow_mut().insert(node.to_owned()) {
            let why = format!("another client traces packets of {node}: try again when it has got them");
            return Err(Problem::new(StatusCode::CONFLICT, why));
        }
        let (tracer, id) = client.look(|c| {
            let graph = c.system.router.graph();
            (graph.tracer().clone(), graph.node(node))
        });
        let before = id.map_or(0, |id| tracer.left(id));
        Ok(Armed { tracer, id, before, name: node.to_owned(), packets, traced })
    }

    /// Returns the number of packets that this trace still waits for.
    fn left(&self) -> u32 {
        self.id.map_or(0, |id| self.tracer.left(id).saturating_sub(self.before)).min(self.packets)
    }

    /// Cancels the tracing of the packets that have not been received yet.
    fn withdraw(&self) {
        if let Some(id) = self.id {
            self.tracer.withdraw(id, self.left());
        }
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        self.withdraw();
        self.traced.borrow_mut().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_is_a_command() {
        assert_eq!(Wanted::default().line(), "capture");
        let wanted = Wanted {
            points: vec!["drop", "rx", "drop"],
            interface: "host-eth0".into(),
            packets: Some(5),
            bytes: Some(64),
            filter: "icmp or arp".into(),
        };
        let line = "capture rx drop interface host-eth0 max 5 max-bytes-per-pkt 64 filter \"icmp or arp\"";
        assert_eq!(wanted.line(), line);
    }
}

//! Where all packets came from, and where they ended.

use graph::stats::NodeBooks;
use serde::Serialize;

use crate::app::{Context, Output};
use crate::cli::{Registry, Table};

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add(
        "show accounting",
        "Show where all packets since the start came from, and where they ended.",
        |c, _| Ok(accounting(c)),
    );
}

/// The accounting of packets since the router's start. The counts add up: received + injected + made = sent + dropped + consumed + handled
/// + waiting + unaccounted. The table in [`accounting`] explains each of them.
#[derive(Serialize)]
struct Accounting {
    received: u64,
    injected: u64,
    made: u64,
    sent: u64,
    dropped: u64,
    consumed: u64,
    handled: u64,
    /// Number of packets in `handled` that the main thread dropped. `show errors` has the reasons for these drops, and for those in
    /// `dropped`.
    handled_dropped: u64,
    waiting: i64,
    unaccounted: i64,
    /// Number of dropped packets that have no receive interface, because the router made them. Counts drops by nodes and by the
    /// main thread.
    dropped_own: u64,
    nodes: Vec<Node>,
}

/// The packets of a node.
#[derive(Serialize)]
struct Node {
    node: &'static str,
    packets: u64,
    made: u64,
    dropped: u64,
    consumed: u64,
    kept: i64,
}

fn accounting(c: &mut Context) -> Output {
    let router = &c.system.router;
    let a = router.accounts();
    let ran = |n: &NodeBooks| n.packets > 0 || n.made > 0 || n.kept != 0;
    let nodes = router.graph().stats().node_books().filter(ran).map(|n| Node {
        node: n.name,
        packets: n.packets,
        made: n.made,
        dropped: n.dropped,
        consumed: n.freed,
        kept: n.kept,
    });
    let all = Accounting {
        received: a.received,
        injected: a.injected,
        made: a.made,
        sent: a.sent,
        dropped: a.dropped,
        consumed: a.consumed,
        handled: a.handled,
        handled_dropped: a.handled_dropped,
        waiting: a.waiting,
        unaccounted: a.unaccounted(),
        dropped_own: router.graph().stats().drops_total(buf::NO_INTERFACE),
        nodes: nodes.collect(),
    };
    let mut t = Table::new(&["Packets", "Count", "What"]);
    for (name, count, what) in [
        ("received", a.received as i64, "received by devices"),
        ("injected", a.injected as i64, "sent into the graph by the main thread"),
        ("made", a.made as i64, "made by nodes: ICMP errors, fragments, requests to the main thread"),
        ("sent", a.sent as i64, "taken by devices"),
        ("dropped", a.dropped as i64, "dropped by nodes: show errors"),
        ("consumed", a.consumed as i64, "ended in nodes: ignored, fragmented, segmented, or reassembled"),
        ("handled", a.handled as i64, "handled by the main thread: show punt"),
        (" dropped", a.handled_dropped as i64, "of these, dropped by the main thread: show errors"),
        ("waiting", a.waiting, "waiting for next hops, for fragments, or for another thread"),
        ("unaccounted", all.unaccounted, "not counted yet: 0 if no packet is in transit"),
    ] {
        t.row(vec![name.into(), count.to_string(), what.into()]);
    }
    Output::show(&all, t.to_string())
}

//! The feature `ip4-count` of the arc `ip4-unicast`.

use std::io;

use buf::Frame;
use graph::{Builder, Cx, FrameNode, GraphError, NoReason, Out, Verdict, edges};
use infra::counters::{CounterSet, Lane};
use net::interface::Runs;
use net::router::Hooks;
use net::setting::{Setting, Switch};

/// The setting by which the router counts packets for each interface. It has no value: the operator switches the feature on and off with
/// `set interface feature`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count;

impl Setting for Count {
    /// Numbers of packets and bytes.
    type Counts = CounterSet<2>;
    const COUNTED: &'static str = "/feature/ip4-count";

    fn switches(&self) -> Vec<Switch> {
        Vec::new()
    }
}

/// Adds the node.
///
/// # Errors
/// Fails if address space for the table of settings cannot be reserved.
pub fn install(b: &mut Builder, hooks: &mut Hooks) -> Result<(), GraphError> {
    let counts = hooks.setting::<Count>()?.counts;
    b.frame(move |s| Ip4Count::new(&counts, s.worker));
    b.feature("ip4-unicast", Ip4Count::NAME, &[], &[]);
    Ok(())
}

edges! { pub enum Next { Continue = "next-feature" } }

struct Ip4Count {
    counted: Lane<2>,
}

impl Ip4Count {
    fn new(set: &CounterSet<2>, worker: usize) -> io::Result<Ip4Count> {
        Ok(Ip4Count { counted: set.lane(worker)? })
    }
}

impl FrameNode for Ip4Count {
    const NAME: &'static str = "ip4-count";
    type Next = Next;
    type Drop = NoReason;

    fn run(&mut self, _: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, NoReason>) {
        let mut counted = Runs::new(&mut self.counted);
        for p in frame.packets() {
            counted.packet(p.rx_if(), p.total_len());
        }
        out.all(Verdict::Next(Next::Continue));
    }
}

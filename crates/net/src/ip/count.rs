//! `ip4-count`: a feature of the unicast arc that counts packets and bytes by interface. What a feature costs that does
//! nothing else.

use std::io;

use buf::Frame;
use graph::{Cx, FrameNode, NoReason, Out, Verdict, edges};
use infra::counters::{CounterSet, Lane};

use crate::interface::Runs;

edges! { pub enum Next { Continue = "next-feature" } }

pub struct Ip4Count {
    counted: Lane<2>,
}

impl Ip4Count {
    pub fn new(set: &CounterSet<2>, worker: usize) -> io::Result<Ip4Count> {
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

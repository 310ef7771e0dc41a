//! `ip4-count`: a feature of the unicast arc that counts packets and bytes by interface. What a feature costs that does
//! nothing else.

use std::io;

use buf::Frame;
use graph::{Cx, FrameNode, NoReason, Out, Verdict, edges};
use infra::counters::CounterSet;

use crate::interface::Lanes;

edges! { pub enum Next { Continue = "next-feature" } }

pub struct Ip4Count {
    counted: Lanes,
}

impl Ip4Count {
    pub fn new(set: &CounterSet<2>, worker: usize) -> io::Result<Ip4Count> {
        Ok(Ip4Count { counted: Lanes::new(set, worker)? })
    }
}

impl FrameNode for Ip4Count {
    const NAME: &'static str = "ip4-count";
    type Next = Next;
    type Drop = NoReason;

    fn run(&mut self, _: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, NoReason>) {
        for p in frame.packets() {
            self.counted.packet(p.rx_if(), p.total_len());
        }
        self.counted.flush();
        out.all(Verdict::Next(Next::Continue));
    }
}

//! Type-erased nodes: a worker calls nodes of all types by the same trait.

use std::io;
use std::marker::PhantomData;

use buf::Frame;
use kernels::Codes;

use crate::edge::{Outcome, UNSAID};
use crate::node::{Cx, FrameNode, InputNode, More, Out, PacketNode, Setup, WaitSet};
use crate::rest::Eager;
use crate::ways::Sink;

/// A type-erased node.
pub(crate) trait Erased: Send {
    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, codes: &mut Codes, sink: Sink<'_>) -> Outcome;
    fn hold(&mut self, _cx: &mut Cx<'_>, _frame: &mut Frame, _codes: &mut Codes, _sink: Sink<'_>) {}
    fn held(&mut self, _cx: &mut Cx<'_>, _packet: buf::Held, _codes: &mut Codes, _sink: Sink<'_>) {}
    fn poll(
        &mut self,
        _cx: &mut Cx<'_>,
        _frame: &mut Frame,
        _codes: &mut Codes,
        _sink: Sink<'_>,
    ) -> (Outcome, More) {
        (Outcome::All(UNSAID), More::No)
    }
    fn wait<'a>(&'a self, _wait: &mut WaitSet<'a>) {}
    fn eager(&self) -> Eager {
        Eager::NONE
    }
}

pub(crate) struct OfPacket<T>(pub(crate) T);
pub(crate) struct OfFrame<T>(pub(crate) T);
pub(crate) struct OfInput<T>(pub(crate) T);

fn out<'o, N, D>(codes: &'o mut Codes, sink: Sink<'o>) -> Out<'o, N, D> {
    Out { codes, outcome: Outcome::All(UNSAID), sink, types: PhantomData }
}

impl<T: PacketNode> Erased for OfPacket<T> {
    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, codes: &mut Codes, sink: Sink<'_>) -> Outcome {
        let mut out: Out<'_, T::Next, T::Drop> = out(codes, sink);
        out.each(frame, |_, p| self.0.one(cx, p));
        out.outcome
    }
}

impl<T: FrameNode> Erased for OfFrame<T> {
    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, codes: &mut Codes, sink: Sink<'_>) -> Outcome {
        let mut out = out(codes, sink);
        self.0.run(cx, frame, &mut out);
        out.outcome
    }
    fn hold(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, codes: &mut Codes, sink: Sink<'_>) {
        self.0.hold(cx, frame, &mut out(codes, sink));
    }
    fn held(&mut self, cx: &mut Cx<'_>, packet: buf::Held, codes: &mut Codes, sink: Sink<'_>) {
        self.0.held(cx, packet, &mut out(codes, sink));
    }
}

impl<T: InputNode> Erased for OfInput<T> {
    fn run(&mut self, _: &mut Cx<'_>, _: &mut Frame, _: &mut Codes, _: Sink<'_>) -> Outcome {
        Outcome::All(UNSAID)
    }
    fn poll(
        &mut self,
        cx: &mut Cx<'_>,
        frame: &mut Frame,
        codes: &mut Codes,
        sink: Sink<'_>,
    ) -> (Outcome, More) {
        let mut out = out(codes, sink);
        let more = self.0.poll(cx, frame, &mut out);
        (out.outcome, more)
    }
    fn wait<'a>(&'a self, wait: &mut WaitSet<'a>) {
        self.0.wait(wait);
    }
    fn eager(&self) -> Eager {
        self.0.eager()
    }
}

/// A function that makes a node for a worker.
pub(crate) type Make = Box<dyn Fn(&mut Setup) -> io::Result<Box<dyn Erased>> + Send + Sync>;

//! Tests that accounting errors of nodes are detected: debug builds panic at the node, release builds count
//! lost packets.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use buf::{Frame, Held};

use super::Rig;
use super::toys::{End, HOLD, Kept, SILENT, STRAY, Spec, Toy, free_kept, specs};
use crate::{Cx, EdgeId, FrameNode, InputNode, More, NoNext, NoReason, Out, Verdict, WaitSet};

/// Runs a turn. In debug builds, the turn must panic because of `node`, with the numbers in `sum`.
fn stops(rig: &mut Rig, node: &str, sum: &str) {
    let turn = catch_unwind(AssertUnwindSafe(|| rig.turn()));
    if cfg!(debug_assertions) {
        let panic = turn.expect_err("the books do not balance");
        let said = panic.downcast_ref::<String>().expect("a message");
        assert_eq!(*said, format!("node \"{node}\" loses or duplicates packets: {sum}"));
    } else {
        assert!(turn.is_ok());
    }
}

fn toy() -> Rig {
    Rig::new(|b, log| {
        End::install(b, log, "end");
        Toy::install(b, log, &Kept::default(), "a", &["end"]).expect("a toy");
        b.edge("source", "a").expect("an edge");
    })
}

#[test]
fn an_invalid_edge_is_detected() {
    let mut rig = toy();
    rig.source.push(vec![
        Spec { id: 1, bytes: vec![STRAY], ..Spec::default() },
        Spec { id: 2, bytes: vec![0], ..Spec::default() },
    ]);
    stops(&mut rig, "a", "2 in + 0 made is not 1 out + 0 dropped + 0 freed + 0 kept");
    assert_eq!(rig.pool.stats().lost, 1);
    rig.turn();
    assert_eq!(rig.log.at("end"), [2], "the others go on");
    assert_eq!(rig.end().used, 0);
}

#[test]
fn an_invalid_edge_of_a_held_packet_is_detected() {
    let mut rig = toy();
    rig.source.push(vec![Spec { id: 1, bytes: vec![HOLD, 127], ..Spec::default() }]);
    stops(&mut rig, "a", "1 in + 0 made is not 0 out + 0 dropped + 0 freed + 0 kept");
    let s = rig.end();
    assert_eq!((s.used, s.lost), (0, 1));
}

#[test]
fn missing_verdicts_are_detected() {
    let mut rig = toy();
    // The previous node's verdict was "end" for every packet; a node without verdicts must not repeat it.
    rig.source.push(specs(2, &[0]));
    rig.turn();
    rig.source.push(specs(3, &[SILENT]));
    stops(&mut rig, "a", "3 in + 0 made is not 0 out + 0 dropped + 0 freed + 0 kept");
    assert_eq!(rig.log.at("end"), [0, 1]);
    let s = rig.end();
    assert_eq!((s.used, s.lost), (0, 3));
}

/// What a [`Clumsy`] node does wrong. "The packet" is the last packet of a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    /// The packet's buffer is never freed.
    Forget,
    /// The packet goes out of scope and is lost.
    Scope,
    /// The packet goes to a queue that the accounting does not know.
    Hoard,
    /// A copy of the packet goes to the same queue.
    HoardCopy,
    /// The node sends a packet that the test put into the queue.
    Appear,
    /// The node reports the packet as kept, but sends it on.
    Boast,
}

struct Clumsy(Wrong, Kept);

impl FrameNode for Clumsy {
    const NAME: &'static str = "clumsy";
    type Next = NoNext;
    type Drop = NoReason;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, NoNext, NoReason>) {
        let last = frame.len() - 1;
        if self.0 == Wrong::HoardCopy {
            let copy = frame.get(last).and_then(|p| p.duplicate(cx.bufs));
            self.1.lock().expect("a queue").extend(copy);
        }
        out.each(frame, |i, _| match self.0 {
            Wrong::Forget | Wrong::Scope | Wrong::Hoard if i == last => Verdict::Hold,
            _ => Verdict::Edge(EdgeId::from_raw(0)),
        });
        match self.0 {
            Wrong::Boast => cx.bufs.note_kept(1),
            Wrong::Appear => {
                let mut hoard = self.1.lock().expect("a queue");
                hoard.drain(..).for_each(|packet| out.emit_edge(EdgeId::from_raw(0), packet));
            }
            _ => {}
        }
    }

    fn held(&mut self, _: &mut Cx<'_>, packet: Held, _: &mut Out<'_, NoNext, NoReason>) {
        match self.0 {
            Wrong::Forget => std::mem::forget(packet),
            Wrong::Hoard => self.1.lock().expect("a queue").push(packet),
            _ => drop(packet),
        }
    }
}

#[test]
fn a_node_that_loses_or_duplicates_packets_is_detected() {
    // Buffers still in use at the end, and how many of them are in the queue.
    for (wrong, sum, used) in [
        (Wrong::Forget, "5 in + 0 made is not 4 out + 0 dropped + 0 freed + 0 kept", (1, 0)),
        (Wrong::Scope, "5 in + 0 made is not 4 out + 0 dropped + 0 freed + 0 kept", (0, 0)),
        (Wrong::Hoard, "5 in + 0 made is not 4 out + 0 dropped + 0 freed + 0 kept", (1, 1)),
        (Wrong::HoardCopy, "5 in + 1 made is not 5 out + 0 dropped + 0 freed + 0 kept", (1, 1)),
        (Wrong::Appear, "5 in + 0 made is not 6 out + 0 dropped + 0 freed + 0 kept", (0, 0)),
        (Wrong::Boast, "5 in + 0 made is not 5 out + 0 dropped + 0 freed + 1 kept", (0, 0)),
    ] {
        let hoard = Kept::default();
        let mut rig = Rig::new(|b, log| {
            End::install(b, log, "end");
            let hoard = hoard.clone();
            b.frame(move |_| Ok(Clumsy(wrong, hoard.clone())));
            b.edge("clumsy", "end").expect("an edge");
            b.edge("source", "clumsy").expect("an edge");
        });
        let mut cache = rig.pool.cache();
        if wrong == Wrong::Appear {
            hoard.lock().expect("a queue").extend(Held::alloc(&mut cache));
        }
        drop(cache);
        rig.source.push(specs(5, &[0]));
        stops(&mut rig, "clumsy", sum);
        let pool = rig.pool.clone();
        rig.end();
        assert_eq!((pool.stats().used, free_kept(&hoard)), used, "{wrong:?}");
    }
}

/// An input node that leaks one of its packets.
struct Forgets(Arc<Mutex<bool>>);

impl InputNode for Forgets {
    type Next = NoNext;
    type Drop = NoReason;

    fn poll(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, NoNext, NoReason>) -> More {
        if std::mem::take(&mut *self.0.lock().expect("a flag")) {
            assert_eq!(frame.alloc(cx.bufs, 3), 3);
            std::mem::forget(frame.pop());
        }
        out.all(Verdict::Edge(EdgeId::from_raw(0)));
        More::No
    }

    fn wait<'a>(&'a self, _: &mut WaitSet<'a>) {}
}

#[test]
fn an_input_node_that_loses_packets_is_detected() {
    let mut rig = Rig::new(|b, log| {
        End::install(b, log, "end");
        b.input("forgets", |_| Ok(Forgets(Arc::new(Mutex::new(true)))));
        b.edge("forgets", "end").expect("an edge");
        b.edge("source", "end").expect("an edge");
    });
    stops(&mut rig, "forgets", "0 in + 3 made is not 2 out + 0 dropped + 0 freed + 0 kept");
    assert_eq!(rig.end().used, 1);
}

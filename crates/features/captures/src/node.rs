//! `pcap-rx`, `pcap-tx`, `pcap-drop`: features that copy packets for a capture.

use std::marker::PhantomData;

use buf::Frame;
use graph::{Builder, Cx, FrameNode, NoReason, Out, Verdict, edges};

use crate::rings::{Copies, Point, Rings};

edges! { pub enum Next { Continue = "next-feature" } }

/// A type for each of the three points at which packets are copied.
trait Place: Send + 'static {
    const NAME: &'static str;
    const POINT: Point;
}

struct RxPlace;
impl Place for RxPlace {
    const NAME: &'static str = "pcap-rx";
    const POINT: Point = Point::Rx;
}

struct TxPlace;
impl Place for TxPlace {
    const NAME: &'static str = "pcap-tx";
    const POINT: Point = Point::Tx;
}

struct DropPlace;
impl Place for DropPlace {
    const NAME: &'static str = "pcap-drop";
    const POINT: Point = Point::Drop;
}

struct Pcap<P> {
    copies: Copies,
    place: PhantomData<P>,
}

impl<P: Place> FrameNode for Pcap<P> {
    const NAME: &'static str = P::NAME;
    type Next = Next;
    type Drop = NoReason;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, NoReason>) {
        let wanted = self.copies.wanted(cx.guard);
        for mut p in frame.packets() {
            self.copies.copy(cx.now, wanted, &mut p);
        }
        out.all(Verdict::Next(Next::Continue));
    }
}

/// Adds the nodes, and makes them features of their arcs.
pub(crate) fn install(b: &mut Builder, rings: &Rings) {
    for point in Point::ALL {
        let (arc, feature) = point.feature();
        b.feature(arc, feature, &[], &[]);
    }
    add::<RxPlace>(b, rings);
    add::<TxPlace>(b, rings);
    add::<DropPlace>(b, rings);
}

fn add<P: Place>(b: &mut Builder, rings: &Rings) {
    let rings = rings.clone();
    b.frame(move |_| Ok(Pcap::<P> { copies: rings.copies(P::POINT), place: PhantomData }));
}

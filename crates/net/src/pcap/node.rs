//! `pcap-rx`, `pcap-tx`, `pcap-drop`: features that copy packets for a capture.

use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use buf::{Frame, Packet};
use graph::{Cx, FrameNode, NoReason, Out, Verdict, edges};

use super::{Captures, Copies, Point, Wanted};

edges! { pub enum Next { Continue = "next-feature" } }

/// One of the three places.
pub trait Place: Send + 'static {
    const NAME: &'static str;
    const POINT: Point;
}

pub struct RxPlace;
impl Place for RxPlace {
    const NAME: &'static str = "pcap-rx";
    const POINT: Point = Point::Rx;
}

pub struct TxPlace;
impl Place for TxPlace {
    const NAME: &'static str = "pcap-tx";
    const POINT: Point = Point::Tx;
}

pub struct DropPlace;
impl Place for DropPlace {
    const NAME: &'static str = "pcap-drop";
    const POINT: Point = Point::Drop;
}

pub struct Pcap<P> {
    copies: Copies,
    captures: Captures,
    place: PhantomData<P>,
}

impl<P: Place> Pcap<P> {
    pub fn new(captures: &Captures) -> Pcap<P> {
        Pcap { copies: captures.copies(P::POINT), captures: captures.clone(), place: PhantomData }
    }

    fn copy(&mut self, now: u64, wanted: &Wanted, p: &mut Packet<'_>) {
        if P::POINT == Point::Drop {
            // Its node may have looked at what is behind the link header.
            p.rewind_to_l2();
        }
        if wanted.filter.as_ref().is_some_and(|filter| !p.matches(filter)) {
            return;
        }
        let Some(mut copy) = self.copies.empty.pop() else {
            self.captures.0.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        (copy.interface, copy.reason) = match P::POINT {
            Point::Rx => (p.rx_if(), 0),
            Point::Tx => (p.tx_if(), 0),
            Point::Drop => (p.rx_if(), p.fwd()),
        };
        (copy.time, copy.capture, copy.len) = (now, wanted.capture, p.total_len() as u32);
        copy.order = self.captures.0.copied.fetch_add(1, Ordering::Relaxed);
        let mut room = &mut copy.bytes[..wanted.keep];
        for segment in p.segments() {
            let n = segment.len().min(room.len());
            room[..n].copy_from_slice(&segment[..n]);
            room = &mut room[n..];
        }
        copy.kept = (wanted.keep - room.len()) as u16;
        // There is room for as many as there are.
        let _ = self.copies.filled.push(copy);
    }
}

impl<P: Place> FrameNode for Pcap<P> {
    const NAME: &'static str = P::NAME;
    type Next = Next;
    type Drop = NoReason;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, NoReason>) {
        let wanted = self.captures.0.wanted.get(cx.guard);
        for mut p in frame.packets() {
            self.copy(cx.now, wanted, &mut p);
        }
        out.all(Verdict::Next(Next::Continue));
    }
}

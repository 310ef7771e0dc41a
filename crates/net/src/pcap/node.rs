//! `pcap-rx`, `pcap-tx`, `pcap-drop`: features that copy packets for a capture.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use buf::{Frame, Packet};
use graph::{Cx, FrameNode, NoReason, Out, Verdict, edges};
use infra::ring::Producer;

use super::{Captured, Captures, MOST_BYTES, Point, Shared};

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
    ring: Producer<Captured>,
    shared: Arc<Shared>,
    place: PhantomData<P>,
}

impl<P: Place> Pcap<P> {
    pub fn new(captures: &Captures) -> Pcap<P> {
        Pcap { ring: captures.ring(), shared: captures.0.clone(), place: PhantomData }
    }

    fn copy(&mut self, now: u64, keep: usize, p: &mut Packet<'_>) {
        let (interface, reason) = match P::POINT {
            Point::Rx => (p.rx_if(), 0),
            Point::Tx => (p.tx_if(), 0),
            Point::Drop => {
                // Its node may have looked at what is behind the link header.
                p.rewind_to_l2();
                (p.rx_if(), p.fwd())
            }
        };
        let mut captured = Captured {
            time: now,
            interface,
            point: P::POINT,
            reason,
            len: p.total_len() as u32,
            kept: 0,
            bytes: [0; MOST_BYTES],
        };
        let mut room = &mut captured.bytes[..keep];
        for segment in p.segments() {
            let n = segment.len().min(room.len());
            room[..n].copy_from_slice(&segment[..n]);
            room = &mut room[n..];
        }
        captured.kept = (keep - room.len()) as u16;
        if self.ring.push(captured).is_err() {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<P: Place> FrameNode for Pcap<P> {
    const NAME: &'static str = P::NAME;
    type Next = Next;
    type Drop = NoReason;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, NoReason>) {
        let keep = (self.shared.keep.load(Ordering::Relaxed) as usize).min(MOST_BYTES);
        for mut p in frame.packets() {
            self.copy(cx.now, keep, &mut p);
        }
        out.all(Verdict::Next(Next::Continue));
    }
}

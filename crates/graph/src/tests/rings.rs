//! Tests packets to and from the main thread.

use buf::Held;

use super::Rig;
use super::toys::{End, Kept, Spec, Toy, specs};
use crate::{Builder, PUNT, PuntReason};

const SECOND: u64 = 1_000_000_000;

/// `source` → `classify` → `error-punt`. The first byte of a packet is the number of its punt reason;
/// `classify` sets it as the forwarding index.
fn punting(rates: &[u32]) -> Rig {
    struct Classify;
    crate::edges! { enum Next { Punt = "error-punt" } }
    impl crate::PacketNode for Classify {
        const NAME: &'static str = "classify";
        type Next = Next;
        type Drop = crate::NoReason;
        fn one(
            &mut self,
            _: &crate::Cx<'_>,
            p: &mut buf::Packet<'_>,
        ) -> crate::Verdict<Next, crate::NoReason> {
            let reason = p.bytes().first().map_or(u32::MAX, |b| u32::from(*b));
            p.set_fwd(reason);
            crate::Verdict::Next(Next::Punt)
        }
    }
    Rig::new(|b: &mut Builder, _| {
        b.edge("source", "classify").expect("an edge");
        b.packet(|_| Ok(Classify));
        for (i, rate) in rates.iter().enumerate() {
            assert_eq!(b.punt_reason(["arp", "icmp"][i], *rate), PuntReason(i as u32));
        }
        assert_eq!(PUNT, "error-punt");
    })
}

fn take(rig: &mut Rig) -> Vec<(u32, u32)> {
    let mut got = Vec::new();
    while let Some(mut p) = rig.port.punted() {
        got.push((p.reason.0, p.packet.packet().hash()));
        p.packet.discard();
    }
    got
}

#[test]
fn punted_packets_have_their_reason_and_ring_the_bell_once() {
    let mut rig = punting(&[1000, 1000]);
    assert!(!rig.bell.clear());
    rig.source.push((0..20).map(|id| Spec { id, bytes: vec![(id % 2) as u8], ..Spec::default() }).collect());
    rig.turn();
    assert!(rig.bell.clear(), "the main thread is woken");
    assert!(take(&mut rig).into_iter().eq((0..20).map(|id| (id % 2, id))));
    assert_eq!([0, 1].map(|r| rig.blueprint.stats().punted(PuntReason(r))), [[10, 0], [10, 0]]);
    rig.turn();
    assert!(!rig.bell.clear(), "no new packets, no bell");
    rig.source.push(specs(1, &[0]));
    rig.turn();
    assert!(rig.bell.clear());
    rig.source.push(specs(1, &[1]));
    rig.turn();
    assert!(!rig.bell.clear(), "the main thread is awake if it left packets in the ring");
    assert_eq!(take(&mut rig).len(), 2);
    rig.ends_clean();
}

#[test]
fn each_reason_has_its_own_policer() {
    let mut rig = punting(&[10, 1000]);
    let passed = |rig: &mut Rig, now: u64, reason: u8, n: u32| {
        rig.source.push(specs(n, &[reason]));
        rig.turn_at(now);
        take(rig).len()
    };
    // A burst of a tenth of a second, and the packet that is due.
    assert_eq!(passed(&mut rig, SECOND, 0, 100), 2);
    assert_eq!(passed(&mut rig, SECOND, 1, 200), 101);
    assert_eq!(passed(&mut rig, SECOND, 0, 100), 0);
    // One more packet every tenth of a second.
    assert_eq!(passed(&mut rig, SECOND + SECOND / 10, 0, 5), 1);
    // After any pause, no more than the burst may pass.
    assert_eq!(passed(&mut rig, 1000 * SECOND, 0, 100), 2);
    assert_eq!(rig.blueprint.stats().punted(PuntReason(0)), [5, 300]);
    assert_eq!(rig.dropped("punt", "punt-policed"), 300 + 99);
    // In the long run the rate applies, whatever the load.
    let mut all = 0;
    for ms in 0..10_000u64 {
        all += passed(&mut rig, 2000 * SECOND + ms * 1_000_000, 1, 3);
    }
    assert!((10_000..=10_101).contains(&all), "{all}");
    // A new rate applies immediately.
    rig.blueprint.punt_reasons()[0].set_rate(100);
    assert_eq!(rig.blueprint.punt_reasons()[0].default_rate, 10);
    assert_eq!(passed(&mut rig, 3000 * SECOND, 0, 100), 11);
    rig.ends_clean();
}

#[test]
fn an_undeclared_reason_passes_nothing() {
    let mut rig = punting(&[1000]);
    rig.source.push(vec![
        Spec { id: 1, bytes: vec![200], ..Spec::default() },
        Spec { id: 2, bytes: vec![], ..Spec::default() },
    ]);
    rig.turn();
    assert_eq!((take(&mut rig).len(), rig.dropped("punt", "punt-policed")), (0, 2));
    rig.ends_clean();
}

#[test]
fn a_full_ring_drops_and_counts() {
    let mut rig = punting(&[1_000_000]);
    for _ in 0..5 {
        rig.source.push(specs(256, &[0]));
    }
    rig.turn();
    assert_eq!(rig.dropped("punt", "punt-ring-full"), 5 * 256 - 1024);
    assert_eq!(take(&mut rig).len(), 1024);
    rig.source.push(specs(1, &[0]));
    rig.turn();
    assert_eq!(take(&mut rig).len(), 1);
    // Packets in the ring when both ends are dropped are lost and counted.
    rig.source.push(specs(3, &[0]));
    rig.turn();
    let s = rig.end();
    assert_eq!((s.used, s.lost), (0, 3));
}

#[test]
fn injected_packets_enter_at_their_edge() {
    let mut edges = Vec::new();
    let mut rig = Rig::new(|b, log| {
        End::install(b, log, "end");
        Toy::install(b, log, &Kept::default(), "a", &["end"]).expect("a toy");
        edges = ["a", "end"].map(|n| b.inject_to(n).expect("an edge")).to_vec();
    });
    let mut cache = rig.pool.cache();
    let mut packet = |id: u32| {
        let mut held = Held::alloc(&mut cache).expect("a buffer");
        assert!(held.packet().fill(&[0]));
        held.packet().set_hash(id);
        held
    };
    for id in 0..1024 {
        assert!(rig.port.inject(edges[id as usize % 2], packet(id)).is_ok());
    }
    rig.port.inject(edges[0], packet(0)).expect_err("the ring is full").discard();
    // One frame a turn, so that other inputs get their turn.
    assert_eq!((rig.turn(), rig.turn()), (256, 256));
    assert_eq!((rig.turn(), rig.turn(), rig.turn()), (256, 256, 0));
    assert!(rig.log.at("a").into_iter().eq((0..1024).step_by(2)));
    assert_eq!(rig.ran("inject").1, 1024);
    let mut end = rig.log.at("end");
    end.sort_unstable();
    assert!(end.into_iter().eq(0..1024));
    drop(cache);
    rig.ends_clean();
}

//! Thousands of policers, without the graph around them. In the graph, this would need tens of thousands of interfaces, because an
//! interface has at most one policer in each direction. These interfaces would dominate the result.

use infra::clock::tsc;
use infra::hash::mix64;
use infra::quiesce::Domain;
use policer::{Color, Kind, Load, MAX_POLICERS, Params, Policers, Vector};

use super::{Figures, PACKETS, REPETITIONS};

/// Returns the parameters of a policer that passes all packets.
pub fn wide(kind: Kind) -> Params {
    let two = matches!(kind, Kind::TwoRates2698 | Kind::TwoRates4115);
    let eir = if two { 400_000_000 } else { 0 };
    let eb = if kind == Kind::OneRateTwoColors { 0 } else { 1 << 40 };
    Params { kind, cir: 400_000_000, eir, cb: 1 << 40, eb, ..Params::default() }
}

/// Polices vectors of packets by random policers of one kind. Returns the clocks per packet.
pub fn run(kind: Kind) -> Result<Figures, Box<dyn std::error::Error>> {
    let domain = Domain::new();
    let mut policers = Policers::new(&domain)?;
    let shared = policers.shared();
    let mut lane = shared.lane(0)?;
    for _ in 0..MAX_POLICERS {
        policers.add(wide(kind), 0)?;
    }
    let mut participant = domain.register();
    let section = participant.enter();
    let view = shared.policers.view(section.guard());
    let mut vector = Vector::default();
    let (mut number, mut now) = (0, 1 << 40);
    let load = Load { packets: 1, bytes: 64, came: Color::Green };
    let mut figures = Figures { totals: Vec::new(), nodes: Vec::new() };
    let (vectors, packets) = (PACKETS / buf::FRAME_SIZE, buf::FRAME_SIZE);
    for repetition in 0..=REPETITIONS {
        let start = tsc();
        for _ in 0..vectors {
            now += 10_000;
            vector.begin();
            for i in 0..packets {
                number += 1;
                let index = mix64(number) as u32 % MAX_POLICERS;
                if let Some(policer) = view.get(index) {
                    vector.add(i, index, policer, load);
                }
            }
            vector.police(&view, &mut lane, 0, now);
        }
        let clocks = tsc().wrapping_sub(start);
        if repetition > 0 {
            figures.totals.push(clocks as f64 / (vectors * packets) as f64);
        }
    }
    drop(section);
    let lost: u64 = policers.iter().map(|(index, _)| policers.counted(index)[2].packets).sum();
    if lost > 0 { Err(format!("{lost} packets were policed").into()) } else { Ok(figures) }
}

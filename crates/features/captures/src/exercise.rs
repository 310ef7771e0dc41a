//! Actions by which the whole-graph fuzzer tests captures. They are needed because captures begin by a command, not by a setting of
//! an interface.

use buf::bpf::Program;
use net::feature::Exercise;
use net::router::Router;

use crate::capture::Captures;
use crate::rings::Point;

/// The exercise for the whole-graph fuzzer: copies packets at all three capture points (receive, transmit and drop), on all
/// interfaces where the capture features are on.
pub(crate) const EXERCISE: Exercise = Exercise { begin, act: |_, _| (), look };

/// Bytes kept of each packet.
const KEPT: usize = 256;

/// Begins a capture at all points. It includes all interfaces where the features are on.
fn begin(router: &mut Router, filter: Option<Program>) {
    if let Ok(captures) = Captures::of(router) {
        captures.rings.begin(&Point::ALL, KEPT, filter);
    }
}

/// Takes the waiting copies from the rings.
///
/// # Errors
/// Fails if a copy does not have all kept bytes.
fn look(router: &mut Router) -> Result<(), String> {
    let rings = &Captures::of(router).map_err(|e| e.to_string())?.rings;
    let mut wrong = None;
    rings.take(usize::MAX, |copy| {
        let (has, keeps) = (copy.bytes().len(), KEPT.min(copy.len as usize));
        if has != keeps {
            wrong = Some(format!("a copy has {has} bytes of a packet, and should have {keeps}"));
        }
    });
    wrong.map_or(Ok(()), Err)
}

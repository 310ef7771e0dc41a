//! Vectors whose frames all come from one known station and go to another, as those of a single flow do: one decision serves all of them.

use buf::{Flags, Frame, Packet};
use infra::class_b::View;
use infra::counters::Lane;
use infra::quiesce::Guard;
use net::ethernet::HEADER;
use wire::ethernet::EthernetHeader;

use super::mac::{self, Kind, Place};
use super::node::{Domains, In, LAST_REASON, Next, TO_BVI, lookup};

/// Flags of frames that are handled one by one, because the length of their first buffer is not theirs.
const NEVER: Flags = Flags::CHAINED.or(Flags::GSO);

/// Returns the words of a frame's addresses: source and destination.
#[inline(always)]
fn addresses(p: &mut Packet<'_>) -> (u64, u64) {
    let header: &mut EthernetHeader = p.peek();
    (header.src_word(), header.dst_word())
}

/// Prepares all frames of a vector that `from` has received, if they have the same addresses, nothing is to be learned, and no frame changes.
/// Returns the way of all of them. Otherwise returns `None`: then nothing was changed but output interfaces, which are not decided yet.
#[inline(always)]
pub(super) fn alike(
    domains: &Domains,
    guard: &Guard,
    view: View<'_>,
    from: &In<'_>,
    counters: &mut Lane<2>,
    frame: &mut Frame,
) -> Option<Next> {
    let rx = frame.uniform_rx()?;
    let last = frame.len().checked_sub(1)?;
    let [first, other] = [0, last].map(|n| frame.get(n).map(|mut p| addresses(&mut p)));
    if first != other || frame.any().any(NEVER) || !from.plan.is_empty() {
        return None;
    }
    let first = first?;
    let key = |word| mac::key(from.port.domain, mac::of_word(word));
    let (src, dst) = (key(first.0), key(first.1));
    if !is_known_here(view, from, rx, src) {
        return None;
    }
    let station = lookup(view, from, dst, view.hash(dst));
    let bvi = from.bvi.filter(|bvi| station == TO_BVI && (bvi.group == 0 || bvi.group != from.port.group));
    let (tx, mtu) = match bvi {
        Some(_) => (rx, usize::MAX - HEADER),
        None if station <= LAST_REASON => return None,
        None => {
            let to = domains.output(guard, from, Place::of(station).port)?;
            if !to.plan.is_empty() || !to.is_open(from, station) {
                return None;
            }
            (to.interface, to.mtu)
        }
    };
    let (mut differ, mut longest) = (0, 0);
    for mut p in frame.packets_ahead() {
        let (src, dst) = addresses(&mut p);
        differ |= (src ^ first.0) | (dst ^ first.1);
        longest = longest.max(p.len());
        p.set_tx_if(tx);
    }
    if differ != 0 || longest > HEADER + mtu {
        return None;
    }
    let Some(bvi) = bvi else { return Some(Next::Output) };
    frame.packets().for_each(|mut p| p.set_rx_if(bvi.interface));
    frame.forget_uniform_rx();
    counters.add(bvi.interface, [frame.len() as u64, frame.total_len() as u64]);
    Some(Next::Bvi)
}

/// True if a station may send from the port on which it is heard, and nothing about it must be learned.
#[inline(always)]
fn is_known_here(view: View<'_>, from: &In<'_>, rx: u32, src: u64) -> bool {
    let number = src & mac::ADDRESS;
    if mac::is_group(number)
        || number == 0
        || from.bvi.is_some_and(|bvi| src == bvi.key && rx != bvi.interface)
    {
        return false;
    }
    if !from.learns {
        return true;
    }
    let here = |value: u64| {
        let place = Place::of(value);
        value == from.word || place.kind == Kind::Static && place.port == rx
    };
    view.find(src, view.hash(src)).is_some_and(|entry| here(entry.value))
}

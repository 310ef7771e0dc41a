//! The contents of a node for a given depth.

use super::{build::Item, change::Slot};
use crate::lpm::Address;
use std::{borrow::Cow, ops::Range};

/// A piece of a node's contents. A point is an address truncated to the node's depth. Points are numbered from the node's first one.
pub(super) struct Piece {
    pub points: Range<u64>,
    pub what: What,
}

pub(super) enum What {
    /// The item covers all points of the piece completely.
    Whole(Item),
    /// The piece needs a node of its own. The node has those items of this range whose prefixes are longer than the depth, and this
    /// slot for all other addresses.
    Below(Range<usize>, Slot),
}

/// Returns the number of intervals of a list with these pieces. The gaps between pieces count as intervals,
/// too.
pub(super) fn intervals(pieces: &[Piece]) -> usize {
    pieces.len() + pieces.windows(2).filter(|pair| pair[0].points.end < pair[1].points.start).count()
}

/// Splits each item that has a prefix longer than `depth` but spans several points, so that each part is within one point. There
/// are such items because neighbors with the same leaf are merged.
pub(super) fn apart(items: &[Item], depth: u8) -> Cow<'_, [Item]> {
    let point = |address: u128| address.down(128 - depth);
    let is_wide = |item: &Item| item.slot.len > depth && point(item.first) != point(item.last);
    if !items.iter().any(is_wide) {
        return Cow::Borrowed(items);
    }
    let mut all = Vec::with_capacity(items.len() + 1);
    for item in items {
        let mut rest = *item;
        while is_wide(&rest) {
            let last = rest.first.last(depth);
            all.push(Item { last, ..rest });
            rest.first = last + 1;
        }
        all.push(rest);
    }
    Cow::Owned(all)
}

/// Returns the pieces of a node of depth `depth` with these items. [`apart`] must have split the items.
pub(super) fn cut_up(items: &[Item], depth: u8) -> Vec<Piece> {
    let start = items.first().map_or(0, |item| item.first.down(128 - depth));
    let point = |address: u128| (address.down(128 - depth) - start) as u64;
    let mut pieces: Vec<Piece> = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let (mut points, is_below) = (point(item.first)..point(item.last) + 1, item.slot.len > depth);
        // The last piece is one point with more below, and this item begins in it.
        if let Some(Piece { points: of, what: What::Below(range, under) }) = pieces.last_mut()
            && of.start == points.start
        {
            range.end = i + 1;
            if is_below {
                take_over(under, item.under, depth);
                continue;
            }
            *under = item.slot;
            points.start += 1;
            if points.is_empty() {
                continue;
            }
        }
        if is_below {
            let mut under = Slot::default();
            take_over(&mut under, item.under, depth);
            pieces.push(Piece { points, what: What::Below(i..i + 1, under) });
            continue;
        }
        // The next item is longer, and begins in this item's last point.
        let next =
            items.get(i + 1).filter(|next| next.slot.len > depth && point(next.first) + 1 == points.end);
        points.end -= u64::from(next.is_some());
        let after = points.end..points.end + 1;
        if !points.is_empty() {
            pieces.push(Piece { points, what: What::Whole(*item) });
        }
        if next.is_some() {
            pieces.push(Piece { points: after, what: What::Below(i..i + 1, item.slot) });
        }
    }
    pieces
}

/// Sets `under`, the default of a point, to `of_child`, the default of a child in this point, if `of_child` is from a prefix of at most
/// `depth` bits. Such a prefix covers the whole point. If `of_child` is from no prefix (its length is 0), does nothing.
fn take_over(under: &mut Slot, of_child: Slot, depth: u8) {
    if of_child.len > 0 && of_child.len <= depth {
        *under = of_child;
    }
}

//! Forwarding kinds of features. Packets with a forwarding kind are passed to a node of the feature that
//! registered the kind.

/// A forwarding kind that a feature registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ForwardingKind(u8);

/// Maximum number of forwarding kinds that features can register. The lowest byte of an [`Object`](super::Object)'s word encodes the kind.
/// Of its 256 values, the router's own kinds use 16.
pub(crate) const MOST: usize = 240;

impl ForwardingKind {
    pub(crate) fn to_raw(self) -> u8 {
        self.0
    }

    pub(crate) fn from_raw(raw: u8) -> ForwardingKind {
        ForwardingKind(raw)
    }
}

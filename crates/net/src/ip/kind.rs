//! Forwarding kinds of features: their packets go to a node of the feature.

/// A forwarding kind registered by a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ForwardingKind(u8);

/// Maximum number of kinds: the values of the low byte of an [`Object`](super::Object)'s word besides the
/// router's own kinds.
pub(crate) const MOST: usize = 240;

impl ForwardingKind {
    pub(crate) fn to_raw(self) -> u8 {
        self.0
    }

    pub(crate) fn from_raw(raw: u8) -> ForwardingKind {
        ForwardingKind(raw)
    }
}

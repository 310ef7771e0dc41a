//! Interface kinds of features, such as tunnels.
//!
//! Frames sent out of such an interface have an Ethernet header, like all others. So captures and features on the arc
//! `interface-output` need no special case. After the arc they go to the feature's node, which removes the
//! header if it is not needed. Received packets enter at `ethernet-input`, or, without an Ethernet header, at
//! `ip4-input` and `ip6-input`, with interface and VRF set.

/// An interface kind that a feature registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceKind {
    pub(crate) number: u8,
    pub(crate) point_to_point: bool,
    pub(crate) name: &'static str,
}

/// The declaration of an interface kind.
pub struct InterfaceKindInfo {
    /// Name of the kind for operators.
    pub name: &'static str,
    /// The node for frames sent out of such an interface.
    pub node: &'static str,
    /// True if the link has at most one other station, like a tunnel. Its Ethernet address is then all zeros, and is
    /// never resolved.
    pub point_to_point: bool,
}

/// Maximum number of kinds.
pub(crate) const MOST: usize = 64;

//! Interface kinds of features, such as tunnels.
//!
//! Frames sent out of such an interface have an Ethernet header, like frames of all other interfaces. So captures and features on the arc
//! `interface-output` need no special case. After the arc, the frames are passed to the feature's node, which removes the header if the
//! feature does not need it. The feature passes received frames to `ethernet-input`. It passes packets without an Ethernet header to
//! `ip4-input` or `ip6-input`, with interface and VRF set.

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
    /// Name of the node that gets the frames sent out of interfaces of this kind.
    pub node: &'static str,
    /// True if the link has at most one other station, like a tunnel. That station's Ethernet address is then all zeros, and is never
    /// resolved.
    pub point_to_point: bool,
}

/// Maximum number of kinds.
pub(crate) const MOST: usize = 64;

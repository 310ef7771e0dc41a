//! Port modes: features that take an interface's received frames before routing, such as bridges and cross-connects.

/// A port mode that a feature registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortMode {
    pub(crate) number: u8,
    /// Name of the mode for operators.
    pub name: &'static str,
    /// True if the mode also takes the frames of the device's sub-interfaces.
    pub whole: bool,
}

/// The description of a port mode.
#[derive(Clone, Copy, Debug)]
pub struct PortModeInfo {
    /// Name of the mode for operators.
    pub name: &'static str,
    /// The node that gets the frames received on an interface in the mode.
    pub node: &'static str,
    /// True if a device in the mode passes all its frames to the node, also those of its sub-interfaces. Otherwise, the frames that match
    /// none of its sub-interfaces.
    pub whole: bool,
}

/// Maximum number of modes.
pub(crate) const MOST: usize = 32;

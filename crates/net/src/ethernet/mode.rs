//! Port modes: features that take an interface's received frames before routing, such as bridges and cross-connects.

/// A port mode that a feature registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortMode {
    pub(crate) number: u8,
    /// Name of the mode for operators.
    pub name: &'static str,
}

/// Maximum number of modes.
pub(crate) const MOST: usize = 32;

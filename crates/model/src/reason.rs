//! The reasons for which requests are refused, for front ends that report errors as numbers.

/// Why a request was refused, for front ends that report errors as numbers. Other front ends show the message
/// instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reason {
    /// None of the following.
    #[default]
    Other,
    /// There is no such interface.
    NoInterface,
    /// There is no such VRF.
    NoTable,
    /// There is no such object.
    NotThere,
    /// A value is not allowed.
    Value,
    /// The interface does not support what was requested.
    Unfit,
    /// There is such an object, or an object with this name.
    There,
    /// The interface has no such address.
    NoAddress,
    /// Another interface has the address, or an address in its network.
    AddressTaken,
    /// Other objects need this one.
    InUse,
    /// The router cannot do this.
    Unsupported,
    /// Another long change is running.
    Busy,
    /// The command ran to its end, and its result is negative: an error only for scripts that test the result.
    Negative,
}

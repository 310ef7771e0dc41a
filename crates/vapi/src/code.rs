//! Return values of requests, with the numbers that VPP's clients know.

/// The return value of a request: a negative number, which says why the router refused the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub i32);

impl Code {
    /// The request was refused for a reason without a code of its own. The log contains the reason.
    pub const UNSPECIFIED: Code = Code(-1);
    /// The role of the client's socket does not permit requests that may change something. VPP has no code of its own for this, so the
    /// number is that of [`UNIMPLEMENTED`](Self::UNIMPLEMENTED).
    pub const READ_ONLY: Code = Code(-9);
    /// There is no interface with this number.
    pub const INVALID_SW_IF_INDEX: Code = Code(-2);
    /// The routing table in the request does not exist.
    pub const NO_SUCH_FIB: Code = Code(-3);
    /// There is no such object.
    pub const NO_SUCH_ENTRY: Code = Code(-6);
    /// A value is out of its range.
    pub const INVALID_VALUE: Code = Code(-7);
    /// The router does not support the request.
    pub const UNIMPLEMENTED: Code = Code(-9);
    /// The feature is off.
    pub const FEATURE_DISABLED: Code = Code(-30);
    /// The client already has the requested registration for events, or has no registration to end.
    pub const INVALID_REGISTRATION: Code = Code(-31);
    /// There is no such VLAN.
    pub const INVALID_VLAN: Code = Code(-55);
    /// The VLAN already exists.
    pub const VLAN_ALREADY_EXISTS: Code = Code(-56);
    /// The interface does not have this address.
    pub const ADDRESS_NOT_FOUND_FOR_INTERFACE: Code = Code(-60);
    /// There is no node with this name.
    pub const NO_SUCH_NODE: Code = Code(-63);
    /// There is no such table.
    pub const NO_SUCH_TABLE: Code = Code(-65);
    /// The sub-interface already exists.
    pub const SUBIF_ALREADY_EXISTS: Code = Code(-68);
    /// The interface does not support the request.
    pub const INVALID_INTERFACE: Code = Code(-71);
    /// An argument is wrong.
    pub const INVALID_ARGUMENT: Code = Code(-73);
    /// The state of the object does not allow the request; for example, the object is in use.
    pub const UNEXPECTED_INTF_STATE: Code = Code(-74);
    /// The interface already exists.
    pub const IF_ALREADY_EXISTS: Code = Code(-79);
    /// The value already exists.
    pub const VALUE_EXIST: Code = Code(-81);
    /// Another interface has the address.
    pub const ADDRESS_IN_USE: Code = Code(-105);
    /// There is such a bridge domain.
    pub const BD_ALREADY_EXISTS: Code = Code(-119);
    /// The bridge domain has ports.
    pub const BD_IN_USE: Code = Code(-120);
    /// The number of the bridge domain is too high.
    pub const BD_ID_EXCEED_MAX: Code = Code(-122);
    /// The object cannot be removed, because other objects use it.
    pub const RSRC_IN_USE: Code = Code(-155);
    /// A floating-point number has the wrong byte order.
    pub const ENDIAN_FAILED: Code = Code(-159);
    /// The object already exists.
    pub const ENTRY_ALREADY_EXISTS: Code = Code(-116);
    /// The router does not support the request with these values.
    pub const UNSUPPORTED: Code = Code(-126);
    /// There is no such worker.
    pub const INVALID_WORKER: Code = Code(-89);
    /// IPv6 is not enabled on the interface.
    pub const IP6_NOT_ENABLED: Code = Code(-62);
    /// Not all objects fit into this reply: for the others, the client repeats the request with the cursor of the reply.
    pub const EAGAIN: Code = Code(-165);
    /// Another long change is running: try again when it is done.
    pub const BUSY: Code = Code(-167);
}

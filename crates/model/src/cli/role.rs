//! What clients may do.

use serde::Serialize;

/// What a client may do. Each role may also do what the roles before it may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Read what the router shows, except secrets.
    Viewer,
    /// Reset counters and learned entries, and trace packets, but not change the configuration.
    Operator,
    /// Do everything.
    #[default]
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 3] = [Role::Viewer, Role::Operator, Role::Admin];

    /// The role's name.
    pub fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }

    /// Returns the end of the sentence "this socket is …", which describes a socket whose clients have this role.
    pub fn limits(self) -> &'static str {
        match self {
            Role::Viewer => "read-only",
            Role::Operator => "for operators",
            Role::Admin => "for all requests",
        }
    }

    /// True if the client may change the configuration, and see secrets.
    pub fn is_admin(self) -> bool {
        self == Role::Admin
    }
}

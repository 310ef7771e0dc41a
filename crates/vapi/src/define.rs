//! The macro that defines types and messages.

use crate::shape::Info;
use crate::wire::{Malformed, Reader, Writer};

/// A message. The fields of its header ([`Head`](crate::shape::Head)) are not fields of the Rust type.
pub trait Message: Sized + Default + 'static {
    /// Returns the description of the message.
    fn info() -> Info;

    /// Appends the encoded fields that follow the head.
    fn put(&self, w: &mut Writer);

    /// Decodes the fields that follow the head.
    ///
    /// # Errors
    /// If the bytes do not have the form of the definition.
    fn take(r: &mut Reader<'_>) -> Result<Self, Malformed>;
}

/// A request, which has one reply.
pub trait Request: Message {
    /// The reply.
    type Reply: Message;

    /// The names of the events that the request turns on and off.
    const EVENTS: &'static [&'static str] = &[];

    /// Returns the description of the reply.
    fn reply() -> Info {
        Self::Reply::info()
    }
}

/// A request for any number of objects. The client sends a ping after it: the reply to the ping marks the end of the objects.
pub trait Dump: Message {
    /// The description of an object.
    type Details: Message;
}

/// A request for any number of objects, beginning at a cursor. The cursor is the request's first field.
pub trait Get: Message {
    /// The description of an object.
    type Details: Message;
    /// The reply after the objects. Its only field is the next cursor.
    type Reply: Message;
}

/// A reply without fields after its header. Its name is the request's name, followed by `_reply`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done;

impl Message for Done {
    fn info() -> Info {
        Info { name: String::new(), head: crate::shape::Head::Reply, fields: &[] }
    }
    fn put(&self, _: &mut Writer) {}
    fn take(_: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Done)
    }
}

/// Defines types and messages of VPP's binary API, with the names of the protocol.
///
/// Types: `enum NAME: WIDTH { VALUE = NUMBER, …; later VALUE = NUMBER, … }`, `flags` likewise, `alias NAME: TYPE;`,
/// `struct NAME { FIELD: TYPE, … }`, `union NAME [BYTES] { FIELD: TYPE, … }`.
///
/// Messages, whose first fields are implied ([`Head`](crate::shape::Head)):
///
/// - `request NAME { … } -> REPLY { … }`, or `-> REPLY as HEAD { … }` if the reply has an unusual head (the same for the answers below);
/// - `request NAME { … }` with a reply without fields; `events EVENT, …;` at the end names the events that it turns on;
/// - `dump NAME { … } -> DETAILS { … }`; `dump NAME { … } -> DETAILS;` if another dump has the same details;
/// - `get NAME { … } -> DETAILS { … } -> REPLY;`;
/// - `event NAME { … }`;
/// - `bare NAME { … }`: no field is implied.
///
/// A field may have a default: `FIELD: TYPE = VALUE`, in JSON.
#[macro_export]
macro_rules! define {
    () => {};

    ($(#[$m:meta])* enum $name:ident: $width:ident {
        $($(#[$vm:meta])* $value:ident = $number:expr),* $(,)? $(; later $($late:ident = $n:expr),* $(,)?)?
    } $($rest:tt)*) => {
        $crate::define!(@values Enum $(#[$m])* $name: $width {
            $($(#[$vm])* $value = $number, false;)* $($($late = $n, true;)*)?
        });
        $crate::define! { $($rest)* }
    };
    ($(#[$m:meta])* flags $name:ident: $width:ident {
        $($(#[$vm:meta])* $value:ident = $number:expr),* $(,)? $(; later $($late:ident = $n:expr),* $(,)?)?
    } $($rest:tt)*) => {
        $crate::define!(@values Flags $(#[$m])* $name: $width {
            $($(#[$vm])* $value = $number, false;)* $($($late = $n, true;)*)?
        });
        $crate::define! { $($rest)* }
    };
    (@values $kind:ident $(#[$m:meta])* $name:ident: $width:ident { $($(#[$vm:meta])* $value:ident = $number:expr, $later:literal;)* }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(pub $width);
        impl $name {
            $($(#[$vm])* pub const $value: $name = $name($number);)*
        }
        impl $crate::wire::Field for $name {
            const SHAPE: &'static $crate::shape::Shape = &$crate::shape::Shape::Defined(&$crate::shape::Definition {
                name: stringify!($name),
                kind: $crate::shape::Kind::$kind(<$width as $crate::wire::Field>::SHAPE, &[
                    $($crate::shape::Value { name: stringify!($value), number: $number, later: $later }),*
                ]),
            });
            fn put(&self, w: &mut $crate::wire::Writer) {
                $crate::wire::Field::put(&self.0, w);
            }
            fn take(r: &mut $crate::wire::Reader<'_>) -> Result<Self, $crate::wire::Malformed> {
                <$width as $crate::wire::Field>::take(r).map($name)
            }
        }
    };

    ($(#[$m:meta])* alias $name:ident: $target:ty; $($rest:tt)*) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct $name(pub $target);
        impl $crate::wire::Field for $name {
            const SHAPE: &'static $crate::shape::Shape = &$crate::shape::Shape::Defined(&$crate::shape::Definition {
                name: stringify!($name),
                kind: $crate::shape::Kind::Alias(<$target as $crate::wire::Field>::SHAPE),
            });
            fn put(&self, w: &mut $crate::wire::Writer) {
                $crate::wire::Field::put(&self.0, w);
            }
            fn take(r: &mut $crate::wire::Reader<'_>) -> Result<Self, $crate::wire::Malformed> {
                <$target as $crate::wire::Field>::take(r).map($name)
            }
        }
        $crate::define! { $($rest)* }
    };

    ($(#[$m:meta])* struct $name:ident { $($(#[$fm:meta])* $field:ident: $type:ty $(= $default:literal)?),* $(,)? } $($rest:tt)*) => {
        $(#[$m])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name { $($(#[$fm])* pub $field: $type),* }
        impl $crate::wire::Field for $name {
            const SHAPE: &'static $crate::shape::Shape = &$crate::shape::Shape::Defined(&$crate::shape::Definition {
                name: stringify!($name),
                kind: $crate::shape::Kind::Struct($crate::define!(@fields $($field: $type $(= $default)?),*)),
            });
            fn put(&self, w: &mut $crate::wire::Writer) {
                $($crate::wire::Field::put(&self.$field, w);)*
            }
            fn take(r: &mut $crate::wire::Reader<'_>) -> Result<Self, $crate::wire::Malformed> {
                Ok($name { $($field: <$type as $crate::wire::Field>::take(r)?),* })
            }
        }
        $crate::define! { $($rest)* }
    };

    ($(#[$m:meta])* union $name:ident [$bytes:literal] { $($field:ident: $type:ty),* $(,)? } $($rest:tt)*) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name(pub [u8; $bytes]);
        impl Default for $name {
            fn default() -> Self {
                $name([0; $bytes])
            }
        }
        impl $crate::wire::Field for $name {
            const SHAPE: &'static $crate::shape::Shape = &$crate::shape::Shape::Defined(&$crate::shape::Definition {
                name: stringify!($name),
                kind: $crate::shape::Kind::Union($crate::define!(@fields $($field: $type),*)),
            });
            fn put(&self, w: &mut $crate::wire::Writer) {
                w.put(&self.0);
            }
            fn take(r: &mut $crate::wire::Reader<'_>) -> Result<Self, $crate::wire::Malformed> {
                r.array().map($name)
            }
        }
        $crate::define! { $($rest)* }
    };

    ($(#[$m:meta])* request $name:ident { $($f:tt)* } -> $reply:ident { $($rf:tt)* } $($rest:tt)*) => {
        $crate::define! { $(#[$m])* request $name { $($f)* } -> $reply as Reply { $($rf)* } $($rest)* }
    };
    ($(#[$m:meta])* request $name:ident { $($f:tt)* } -> $reply:ident as $head:ident { $($rf:tt)* } $($rest:tt)*) => {
        $crate::define!(@message Request $(#[$m])* $name { $($f)* });
        $crate::define!(@message $head #[doc = concat!("The reply to [`", stringify!($name), "`].")] $reply { $($rf)* });
        impl $crate::Request for $name {
            type Reply = $reply;
        }
        $crate::define! { $($rest)* }
    };
    ($(#[$m:meta])* request $name:ident { $($f:tt)* } events $($event:ident),+; $($rest:tt)*) => {
        $crate::define!(@done $(#[$m])* $name { $($f)* } [$(stringify!($event)),+]);
        $crate::define! { $($rest)* }
    };
    ($(#[$m:meta])* request $name:ident { $($f:tt)* } $($rest:tt)*) => {
        $crate::define!(@done $(#[$m])* $name { $($f)* } []);
        $crate::define! { $($rest)* }
    };
    (@done $(#[$m:meta])* $name:ident { $($f:tt)* } $events:expr) => {
        $crate::define!(@message Request $(#[$m])* $name { $($f)* });
        impl $crate::Request for $name {
            type Reply = $crate::Done;
            const EVENTS: &'static [&'static str] = &$events;
            fn reply() -> $crate::shape::Info {
                $crate::shape::Info { name: concat!(stringify!($name), "_reply").into(), ..<$crate::Done as $crate::Message>::info() }
            }
        }
    };
    ($(#[$m:meta])* dump $name:ident { $($f:tt)* } -> $details:ident { $($df:tt)* } $($rest:tt)*) => {
        $crate::define! { $(#[$m])* dump $name { $($f)* } -> $details as Details { $($df)* } $($rest)* }
    };
    ($(#[$m:meta])* dump $name:ident { $($f:tt)* } -> $details:ident as $head:ident { $($df:tt)* } $($rest:tt)*) => {
        $crate::define!(@message $head #[doc = concat!("An answer to [`", stringify!($name), "`].")] $details { $($df)* });
        $crate::define! { $(#[$m])* dump $name { $($f)* } -> $details; $($rest)* }
    };
    ($(#[$m:meta])* dump $name:ident { $($f:tt)* } -> $details:ident; $($rest:tt)*) => {
        $crate::define!(@message Request $(#[$m])* $name { $($f)* });
        impl $crate::Dump for $name {
            type Details = $details;
        }
        $crate::define! { $($rest)* }
    };
    ($(#[$m:meta])* get $name:ident { $($f:tt)* } -> $details:ident { $($df:tt)* } -> $reply:ident; $($rest:tt)*) => {
        $crate::define! { $(#[$m])* get $name { $($f)* } -> $details as Details { $($df)* } -> $reply; $($rest)* }
    };
    ($(#[$m:meta])* get $name:ident { $($f:tt)* } -> $details:ident as $head:ident { $($df:tt)* } -> $reply:ident;
        $($rest:tt)*) => {
        $crate::define!(@message Request $(#[$m])* $name { cursor: u32, $($f)* });
        $crate::define!(@message $head #[doc = concat!("An answer to [`", stringify!($name), "`].")] $details { $($df)* });
        $crate::define!(@message Reply #[doc = concat!("The end of the answers to [`", stringify!($name), "`].")] $reply { cursor: u32 });
        impl $crate::Get for $name {
            type Details = $details;
            type Reply = $reply;
        }
        $crate::define! { $($rest)* }
    };
    ($(#[$m:meta])* event $name:ident { $($f:tt)* } $($rest:tt)*) => {
        $crate::define!(@message Event $(#[$m])* $name { $($f)* });
        $crate::define! { $($rest)* }
    };
    ($(#[$m:meta])* bare $name:ident { $($f:tt)* } $($rest:tt)*) => {
        $crate::define!(@message Bare $(#[$m])* $name { $($f)* });
        $crate::define! { $($rest)* }
    };

    (@message $head:ident $(#[$m:meta])* $name:ident { $($(#[$fm:meta])* $field:ident: $type:ty $(= $default:literal)?),* $(,)? }) => {
        $(#[$m])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name { $($(#[$fm])* pub $field: $type),* }
        impl $crate::Message for $name {
            fn info() -> $crate::shape::Info {
                $crate::shape::Info {
                    name: stringify!($name).into(),
                    head: $crate::shape::Head::$head,
                    fields: $crate::define!(@fields $($field: $type $(= $default)?),*),
                }
            }
            fn put(&self, _w: &mut $crate::wire::Writer) {
                $($crate::wire::Field::put(&self.$field, _w);)*
            }
            fn take(_r: &mut $crate::wire::Reader<'_>) -> Result<Self, $crate::wire::Malformed> {
                Ok($name { $($field: <$type as $crate::wire::Field>::take(_r)?),* })
            }
        }
    };

    (@fields $($field:ident: $type:ty $(= $default:literal)?),*) => {
        const { &[$($crate::shape::FieldInfo {
            name: $crate::shape::plain(stringify!($field)),
            shape: <$type as $crate::wire::Field>::SHAPE,
            default: $crate::define!(@default $($default)?),
        }),*] }
    };
    (@default) => { None };
    (@default $default:literal) => { Some(stringify!($default)) };
}

//! ICMPv4: what is reported to sources, and echo.

mod cause;

pub use cause::Cause;

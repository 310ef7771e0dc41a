//! ICMPv4: what is reported to sources, and echo.
//!
//! ```text
//! (whoever cannot deliver) → ip4-icmp-error ───────────────────┐
//! ip4-local → icmp4-input → icmp4-echo-request → ip4-lookup ←──┘
//!                  └ error-punt (echo replies, for the router's own pings)
//! (arc ip4-output) ip4-redirect → next feature; redirects → ip4-lookup
//! ```

mod cause;
mod echo;
mod error;
mod input;
mod limit;
mod redirect;
mod report;

use graph::{Builder, GraphError};
use wire::protocol;

pub use cause::Cause;

use crate::Tables;
use crate::router::{Hooks, ping};

/// Echo replies a second that one worker passes to the main thread.
const REPLIES: u32 = 1000;

/// Adds the nodes of this feature; behind `ip`.
///
/// # Errors
/// When another feature takes ICMP.
pub fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    let tables = t.clone();
    b.frame(move |_| Ok(error::Ip4IcmpError::new(&tables)));
    let tables = t.clone();
    b.frame(move |_| Ok(redirect::Ip4Redirect::new(&tables)));
    b.feature("ip4-output", "ip4-redirect", &[], &[]);
    let reply = hooks.punt(b, "icmp-echo-reply", REPLIES, ping::reply);
    b.packet(move |_| Ok(input::Icmp4Input::new(reply)));
    b.packet(|_| Ok(echo::Icmp4EchoRequest::default()));
    t.ip4.protocols.register(b, u16::from(protocol::ICMP), "icmp4-input")?;
    Ok(())
}

#[cfg(test)]
mod error_tests;
#[cfg(test)]
mod limit_tests;
#[cfg(test)]
mod redirect_tests;
#[cfg(test)]
mod router_tests;
#[cfg(test)]
mod tests;

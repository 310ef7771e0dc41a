//! Checks before a ping: there must be a route to the destination and a source address, and the requests must not be too large.

use std::net::IpAddr;

use buf::FRAME_SIZE;
use net::router::{Egress, NoSource, Routed, Router, RouterError};
use wire::{IcmpHeader, Icmpv6Header, Ipv4Header};

/// The destination and the form of a ping's requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// The destination.
    pub(crate) address: IpAddr,
    /// The interface on whose link the destination is, if the address is link-local.
    pub(crate) interface: Option<u32>,
    /// The source address; without it, an address of the output interface.
    pub(crate) source: Option<IpAddr>,
    /// Number of data bytes.
    pub(crate) size: usize,
}

/// Returns the maximum number of data bytes in an echo request to `destination`, as limited by the length field of the IP header.
fn most(destination: IpAddr) -> usize {
    let counted = match destination {
        IpAddr::V4(_) => Ipv4Header::LEN + IcmpHeader::LEN,
        IpAddr::V6(_) => Icmpv6Header::LEN,
    };
    usize::from(u16::MAX) - counted
}

/// Returns the maximum number of data bytes in an IPv4 echo request over a link with this MTU, because a packet is cut into at most
/// [`FRAME_SIZE`] fragments.
fn most_in_fragments(mtu: u16) -> usize {
    let each = usize::from(mtu).saturating_sub(Ipv4Header::LEN) & !7;
    (each * FRAME_SIZE).saturating_sub(IcmpHeader::LEN)
}

/// Returns the source address for requests to `to`, and checks that such requests can be sent.
///
/// # Errors
/// If such requests cannot be sent.
pub(crate) fn source(router: &mut Router, fib: u16, to: &Target) -> Result<IpAddr, RouterError> {
    match to.address {
        IpAddr::V4(address) => source_of(router, fib, address, to),
        IpAddr::V6(address) => source_of(router, fib, address, to),
    }
}

fn source_of<A: Routed>(
    router: &mut Router,
    fib: u16,
    destination: A,
    to: &Target,
) -> Result<IpAddr, RouterError> {
    let (size, most) = (to.size, most(to.address));
    if size > most {
        return Err(RouterError::new(format!("a ping of {size} bytes is too large: the maximum is {most}")));
    }
    let egress = router.egress(fib, destination, to.interface);
    let egress = egress.map_err(|why| RouterError::new(format!("{destination} cannot be pinged: {why}")))?;
    check_fragments(router, egress, to)?;
    let found = router.egress_source::<A>(fib, egress, to.source);
    let table = || router.vrfs().table(fib);
    found.map(Into::into).map_err(|why| {
        RouterError::new(match (why, to.source) {
            (NoSource::Tentative(address, interface), _) => format!(
                "the address {address} of {interface} is still being tested for duplicates (DAD): try again in a second"
            ),
            (NoSource::NotOwn, Some(own)) => {
                format!("{own} is not an address of this router in table {}", table())
            }
            _ => format!("the router has no address in table {} to ping from", table()),
        })
    })
}

/// Checks that IPv4 requests need no more fragments than the router sends.
fn check_fragments<A: Routed>(router: &Router, egress: Egress<A>, to: &Target) -> Result<(), RouterError> {
    let Some(i) = egress.interface.and_then(|i| router.interface(i).ok()) else { return Ok(()) };
    let (size, most) = (to.size, most_in_fragments(i.mtu));
    if to.address.is_ipv6() || size <= most {
        return Ok(());
    }
    Err(RouterError::new(format!(
        "a ping of {size} bytes needs too many fragments at the MTU of {}: the maximum is {most}",
        i.name
    )))
}

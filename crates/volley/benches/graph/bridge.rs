//! Bridge domains for the benchmarks.

use drivers::pktgen::{Field, Mode, Template};
use l2::{BridgePort, Policy};
use net::router::{Router, RouterError};
use wire::Mac;

/// The number of the domain.
const DOMAIN: u32 = 1;
/// The upper half of the stations' addresses, and the lower half of the first one's.
const UPPER: u64 = 0x0200;
const NEAR: u64 = 0x1000_0000;
const FAR: u64 = 0x2000_0000;

/// Makes an interface a port of the domain.
pub fn join(router: &mut Router, index: u32) -> Result<(), RouterError> {
    let policy = Policy { age: 300, limit: 1 << 21, ..Policy::PLAIN };
    l2::set_domain(router, DOMAIN, policy)?;
    l2::join(router, index, DOMAIN, BridgePort::PLAIN)
}

/// Adds stations behind a port.
pub fn fill(router: &mut Router, port: u32, stations: u32) -> Result<(), RouterError> {
    for n in 0..u64::from(stations) {
        let mac = Mac::from_u64((UPPER << 32) | (FAR + n));
        l2::set_station(router, DOMAIN, mac, port)?;
    }
    Ok(())
}

/// Makes a loopback with this address the BVI of the domain.
pub fn route(router: &mut Router, mac: Mac) -> Result<(), RouterError> {
    let bvi = router.add_loopback("loop0", mac)?;
    router.set_admin(bvi, true)?;
    l2::attach(router, bvi, DOMAIN, 0)
}

/// Makes the packets frames from one of the near stations to one of the far ones.
pub fn vary(template: &mut Template, stations: u32) {
    let last = u64::from(stations) - 1;
    template.fields.clear();
    for (at, first) in [(0, FAR), (6, NEAR)] {
        template.bytes[at..at + 2].copy_from_slice(&(UPPER as u16).to_be_bytes());
        template.bytes[at + 2..at + 6].copy_from_slice(&(first as u32).to_be_bytes());
        if last > 0 {
            let mode = Mode::Random { min: first, max: first + last };
            template.fields.push(Field { offset: at + 2, width: 4, mode, ip4_checksum: false });
        }
    }
}

//! Energy counters of a power distribution unit's outlets, over SNMPv2c (RFC 3416).

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use snmp2::{Error, Oid, SyncSession, Value};

use super::Fault;
use super::counter::{Counters, Unit};

/// Raritan's PDU2-MIB: `measurementsOutletSensorValue`, by unit, outlet and sensor.
const OUTLET_VALUE: [u64; 13] = [1, 3, 6, 1, 4, 1, 13742, 6, 5, 4, 3, 1, 4];
/// `outletSensorDecimalDigits`, with the same index: the number of decimal digits. The energy is the value divided by 10 to the power of
/// this number.
const OUTLET_DIGITS: [u64; 13] = [1, 3, 6, 1, 4, 1, 13742, 6, 3, 5, 4, 1, 7];
/// `activeEnergy` of SensorTypeEnumeration, in watt-hours.
const ACTIVE_ENERGY: u64 = 8;
/// Upper limit for the power of an outlet or a rack, in watts.
const MOST_WATTS: f64 = 100_000.0;
/// Timeout of a request.
const PATIENCE: Duration = Duration::from_secs(1);
/// Number of tries for a request, since datagrams get lost.
const TRIES: usize = 3;

/// Object to read.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// An outlet of a Raritan PX. `pdu` is the number of the outlet's power distribution unit, if several units are linked.
    Outlet { pdu: u32, outlet: u32 },
    /// Any counter. `joules` is the energy of one count.
    Object { oid: Vec<u64>, joules: f64 },
}

/// An energy counter over SNMP.
pub(super) struct Snmp {
    session: SyncSession,
    oid: Vec<u64>,
    place: String,
    units: [Unit; 1],
}

impl Snmp {
    /// Opens the counter and reads it once.
    ///
    /// # Errors
    /// Returns an error if the power distribution unit does not answer, or has no such counter.
    pub fn open(address: &str, community: &str, what: &What) -> Result<Snmp, Fault> {
        let to = resolve(address)?;
        let session = SyncSession::new_v2c(to, community.as_bytes(), Some(PATIENCE), 1);
        let session = session.map_err(|e| Fault(format!("snmp {address}: {e}")))?;
        let unit = Unit { name: "snmp".into(), joules: 1.0, step: 1.0, values: 1 << 64, counted: true };
        let mut snmp = Snmp { session, oid: Vec::new(), place: format!("snmp {address}"), units: [unit] };
        let joules = match what {
            Outlet { pdu, outlet } => {
                let index = [u64::from(*pdu), u64::from(*outlet), ACTIVE_ENERGY];
                snmp.units[0].name = format!("outlet {outlet}");
                snmp.oid = [&OUTLET_VALUE[..], &index].concat();
                let (digits, _) = snmp.get(&[&OUTLET_DIGITS[..], &index].concat())?;
                if digits > 9 {
                    return Err(Fault(format!(
                        "{}: {digits} decimal digits are not plausible for a Raritan PX",
                        snmp.place
                    )));
                }
                3600.0 / 10f64.powi(digits as i32)
            }
            Object { oid, joules } => {
                snmp.oid = oid.clone();
                *joules
            }
        };
        let (_, values) = snmp.get(&snmp.oid.clone())?;
        let name = snmp.units[0].name.clone();
        snmp.units = [Unit { name, joules, step: joules, values, counted: true }];
        Ok(snmp)
    }

    /// Reads a value. Also returns the number of different values of its type: after its highest value, a counter wraps around to 0.
    fn get(&mut self, oid: &[u64]) -> Result<(u64, u128), Fault> {
        let shown: Vec<_> = oid.iter().map(u64::to_string).collect();
        let failed =
            |why: &dyn std::fmt::Display| Fault(format!("{}: {}: {why}", self.place, shown.join(".")));
        let object = Oid::from(oid).map_err(|_| failed(&"invalid object identifier"))?;
        for _ in 0..TRIES {
            match self.session.get(&object) {
                Ok(mut answer) if answer.error_status == 0 => {
                    let value = answer.varbinds.next().filter(|(name, _)| *name == object);
                    return match value {
                        Some((_, value)) => {
                            number(&value).ok_or_else(|| failed(&format!("{value:?} is not a counter")))
                        }
                        None => Err(failed(&"the answer is for another object")),
                    };
                }
                Ok(answer) => {
                    return Err(failed(&format!("the agent returned error {}", answer.error_status)));
                }
                // The datagram was lost, or the reply answers an earlier try.
                Err(Error::Receive | Error::Send | Error::RequestIdMismatch) => {}
                Err(e) => return Err(failed(&e)),
            }
        }
        Err(failed(&format!("no answer in {TRIES} tries of {PATIENCE:?}: check address and community")))
    }
}

use What::{Object, Outlet};

/// Returns a value, and the number of different values of its type: after its highest value, a counter wraps around to 0. Gauges and
/// integers never wrap around (RFC 2578, section 7.1). For them, the number is so large that a decrease always counts as a reset. `None`
/// for negative values and other types.
fn number(value: &Value<'_>) -> Option<(u64, u128)> {
    match *value {
        Value::Counter32(v) => Some((v.into(), 1 << 32)),
        Value::Counter64(v) => Some((v, 1 << 64)),
        Value::Unsigned32(v) => Some((v.into(), 1 << 64)),
        Value::Integer(v) => Some((v.try_into().ok()?, 1 << 64)),
        _ => None,
    }
}

/// Default port of the agent (RFC 3417, section 3.1).
const PORT: u16 = 161;

/// Resolves `host`, `host:port`, `2001:db8::1` or `[2001:db8::1]:port`.
fn resolve(address: &str) -> Result<SocketAddr, Fault> {
    let found = match address.parse::<IpAddr>() {
        Ok(ip) => return Ok((ip, PORT).into()),
        Err(_) if address.contains(':') => address.to_socket_addrs(),
        Err(_) => (address, PORT).to_socket_addrs(),
    };
    let found = found.map_err(|e| Fault(format!("snmp address {address:?}: {e}")))?.next();
    found.ok_or_else(|| Fault(format!("snmp address {address:?}: the name has no address")))
}

impl Counters for Snmp {
    fn units(&self) -> &[Unit] {
        &self.units
    }

    fn read(&mut self) -> Result<Vec<u64>, Fault> {
        let oid = self.oid.clone();
        Ok(vec![self.get(&oid)?.0])
    }

    fn most_watts(&self) -> f64 {
        MOST_WATTS
    }
}

#[cfg(test)]
#[path = "snmp_tests.rs"]
mod tests;

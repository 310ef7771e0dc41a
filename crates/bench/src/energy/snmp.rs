//! A power distribution unit that counts the energy of its outlets, over SNMPv2c (RFC 3416).

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use snmp2::{Error, Oid, SyncSession, Value};

use super::Fault;
use super::counter::{Counters, Unit};

/// Raritan's PDU2-MIB: `measurementsOutletSensorValue`, by unit, outlet and sensor.
const OUTLET_VALUE: [u64; 13] = [1, 3, 6, 1, 4, 1, 13742, 6, 5, 4, 3, 1, 4];
/// `outletSensorDecimalDigits`, by the same: the value is to be divided by 10 to this.
const OUTLET_DIGITS: [u64; 13] = [1, 3, 6, 1, 4, 1, 13742, 6, 3, 5, 4, 1, 7];
/// `activeEnergy` of SensorTypeEnumeration, in watt-hours.
const ACTIVE_ENERGY: u64 = 8;
/// More than an outlet or a rack gives, in watts.
const MOST_WATTS: f64 = 100_000.0;
/// How long an answer may take, and how often it is asked for: datagrams are lost.
const PATIENCE: Duration = Duration::from_secs(1);
const TRIES: usize = 3;

/// What is read.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// The outlet of a Raritan PX, and of which of the units that are linked.
    Outlet { pdu: u32, outlet: u32 },
    /// Any counter, with the joules of one step.
    Object { oid: Vec<u64>, joules: f64 },
}

/// A counter of energy over SNMP.
pub(super) struct Snmp {
    session: SyncSession,
    oid: Vec<u64>,
    place: String,
    units: [Unit; 1],
}

impl Snmp {
    /// Asks it once.
    ///
    /// # Errors
    /// When it does not answer, or has no such counter.
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
                    return Err(Fault(format!("{}: {digits} decimal digits are no such unit's", snmp.place)));
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

    /// A value, and how many its type has before it begins at 0 again.
    fn get(&mut self, oid: &[u64]) -> Result<(u64, u128), Fault> {
        let shown: Vec<_> = oid.iter().map(u64::to_string).collect();
        let failed =
            |why: &dyn std::fmt::Display| Fault(format!("{}: {}: {why}", self.place, shown.join(".")));
        let object = Oid::from(oid).map_err(|_| failed(&"this is no object identifier"))?;
        for _ in 0..TRIES {
            match self.session.get(&object) {
                Ok(mut answer) if answer.error_status == 0 => {
                    let value = answer.varbinds.next().filter(|(name, _)| *name == object);
                    return match value {
                        Some((_, value)) => {
                            number(&value).ok_or_else(|| failed(&format!("{value:?} is no counter")))
                        }
                        None => Err(failed(&"it answered something else")),
                    };
                }
                Ok(answer) => return Err(failed(&format!("it refused with error {}", answer.error_status))),
                // Lost, or the answer to a try before.
                Err(Error::Receive | Error::Send | Error::RequestIdMismatch) => {}
                Err(e) => return Err(failed(&e)),
            }
        }
        Err(failed(&format!("no answer in {TRIES} tries of {PATIENCE:?}: are address and community right?")))
    }
}

use What::{Object, Outlet};

/// A value, and the number of values: gauges and integers do not begin anew (RFC 2578, section 7.1), and what goes back
/// there was set back.
fn number(value: &Value<'_>) -> Option<(u64, u128)> {
    match *value {
        Value::Counter32(v) => Some((v.into(), 1 << 32)),
        Value::Counter64(v) => Some((v, 1 << 64)),
        Value::Unsigned32(v) => Some((v.into(), 1 << 64)),
        Value::Integer(v) => Some((v.try_into().ok()?, 1 << 64)),
        _ => None,
    }
}

/// The agent's port where none is given (RFC 3417, section 3.1).
const PORT: u16 = 161;

/// `host`, `host:port`, `2001:db8::1` or `[2001:db8::1]:port`.
fn resolve(address: &str) -> Result<SocketAddr, Fault> {
    let found = match address.parse::<IpAddr>() {
        Ok(ip) => return Ok((ip, PORT).into()),
        Err(_) if address.contains(':') => address.to_socket_addrs(),
        Err(_) => (address, PORT).to_socket_addrs(),
    };
    let found = found.map_err(|e| Fault(format!("snmp address {address:?}: {e}")))?.next();
    found.ok_or_else(|| Fault(format!("snmp address {address:?}: it has no address")))
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

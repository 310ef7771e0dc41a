//! Tests against Debian's snmpd, which imitates a Raritan PX3.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use testkit::skip::skipped;

use super::*;
use crate::energy::counter::Counting;
use crate::energy::{Meter, Reading, Resolution};

/// An agent on a free port of the loopback interface. Dropping this value ends the agent.
struct Agent {
    child: Child,
    dir: tempfile::TempDir,
    address: String,
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Script that answers requests for the objects below 1.3.6.1.4.1.13742. Each object is a file with the object's type and value. The agent
/// starts the script once, and asks it at each request (snmpd.conf(5), `pass_persist`). With `pass`, the agent would cache values for 30
/// seconds.
const PASS: &str = r#"while read -r what; do
    case $what in
    PING) echo PONG ;;
    get) read -r oid; if [ -f "$1/$oid" ]; then echo "$oid"; cat "$1/$oid"; else echo NONE; fi ;;
    *) read -r oid; echo NONE ;;
    esac
done
"#;

impl Agent {
    fn start(objects: &[(&str, &str)]) -> Option<Agent> {
        let program =
            ["/usr/sbin/snmpd", "/usr/local/sbin/snmpd"].into_iter().find(|p| Path::new(p).exists());
        let Some(program) = program else {
            skipped("needs snmpd (package snmpd)");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("pass");
        fs::write(&script, PASS).unwrap();
        let conf = dir.path().join("snmpd.conf");
        let (script, root) = (script.display(), dir.path().display());
        let pass = format!("rocommunity secret\npass_persist .1.3.6.1.4.1.13742 /bin/sh {script} {root}\n");
        fs::write(&conf, pass).unwrap();
        let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Command::new(program)
            .args(["-f", "-Lf", "/dev/null", "-C", "-c"])
            .arg(&conf)
            .args(["-I", "-smux", "-p"])
            .arg(dir.path().join("pid"))
            .arg(format!("udp:{free}"))
            .env("SNMP_PERSISTENT_DIR", dir.path())
            // Object names are not needed, and reading them would take most of the start.
            .env("MIBS", "")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let agent = Agent { child, dir, address: free.to_string() };
        objects.iter().for_each(|(oid, says)| agent.set(oid, says));
        if let Some((oid, _)) = objects.first() {
            agent.settle(oid);
        }
        Some(agent)
    }

    /// Waits until the agent uses its script, since on a busy machine it first reports that the object does not exist. Times out for an
    /// object that is not a counter.
    fn settle(&self, oid: &str) {
        let oid: Vec<u64> = oid.split('.').filter_map(|part| part.parse().ok()).collect();
        let end = Instant::now() + Duration::from_secs(3);
        let object = Object { oid, joules: 1.0 };
        while self.open(&object).is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn set(&self, oid: &str, says: &str) {
        // Replace the file atomically, for concurrent readers.
        let (new, file) = (self.dir.path().join("new"), self.dir.path().join(oid));
        fs::write(&new, format!("{says}\n")).unwrap();
        fs::rename(new, file).unwrap();
    }

    /// Opens the meter, with retries: the agent needs time to start, and its port refuses requests until then.
    fn open(&self, what: &What) -> Result<Snmp, Fault> {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            match Snmp::open(&self.address, "secret", what) {
                Err(f) if f.0.contains("no answer") && Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                other => return other,
            }
        }
    }
}

const VALUE: &str = ".1.3.6.1.4.1.13742.6.5.4.3.1.4.1.5.8";
const DIGITS: &str = ".1.3.6.1.4.1.13742.6.3.5.4.1.7.1.5.8";

#[test]
fn an_outlet_counts_watt_hours_with_decimal_digits() {
    let Some(agent) = Agent::start(&[(VALUE, "unsigned\n1000"), (DIGITS, "unsigned\n1")]) else { return };
    let snmp = agent.open(&Outlet { pdu: 1, outlet: 5 }).unwrap();
    let mut meter = Counting::new(snmp);
    assert_eq!(meter.resolution(), Resolution::Joules(360.0));
    meter.begin().unwrap();
    agent.set(VALUE, "unsigned\n1050");
    let Reading::Energy(energy) = meter.end().unwrap() else { panic!("no energy") };
    // 5.0 Wh.
    assert!((energy.joules - 18_000.0).abs() < 1e-6, "{energy:?}");
    // A counter that was reset gives no reading, but the next trial has one.
    meter.begin().unwrap();
    agent.set(VALUE, "unsigned\n3");
    assert!(meter.end().is_err_and(|f| f.to_string().contains("reset")));
    meter.begin().unwrap();
    assert!(meter.end().is_ok());
}

#[test]
fn counters_wrap_at_the_size_of_their_type() {
    let Some(agent) = Agent::start(&[(".1.3.6.1.4.1.13742.1", "counter\n4294967290")]) else { return };
    let oid = vec![1, 3, 6, 1, 4, 1, 13742, 1];
    let mut meter = Counting::new(agent.open(&Object { oid, joules: 2.0 }).unwrap());
    meter.begin().unwrap();
    agent.set(".1.3.6.1.4.1.13742.1", "counter\n4");
    let Reading::Energy(energy) = meter.end().unwrap() else { panic!("no energy") };
    assert!((energy.joules - 20.0).abs() < 1e-9, "{energy:?}");
}

#[test]
fn missing_objects_are_named() {
    let Some(agent) = Agent::start(&[(VALUE, "string\nmuch"), (DIGITS, "unsigned\n0")]) else { return };
    let said = |what: &What| agent.open(what).map_or_else(|f| f.to_string(), |_| "nothing".into());
    let missing = said(&Outlet { pdu: 1, outlet: 6 });
    assert!(
        missing.contains("13742.6.3.5.4.1.7.1.6.8: NO SUCH") && missing.contains(&agent.address),
        "{missing}"
    );
    let text = said(&Outlet { pdu: 1, outlet: 5 });
    assert!(text.contains("is not a counter"), "{text}");
}

#[test]
fn a_silent_agent_is_named_with_a_hint() {
    // The port is bound but never answers.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let said = Snmp::open(&address, "public", &Outlet { pdu: 1, outlet: 1 });
    let said = said.map_or_else(|f| f.to_string(), |_| "nothing".into());
    assert!(said.contains(&address) && said.contains("address and community"), "{said}");
}

#[test]
fn addresses_have_port_161_by_default() {
    let addresses = ["192.0.2.1", "192.0.2.1:1161", "2001:db8::1", "[2001:db8::1]:1161"];
    let found: Vec<_> = addresses.iter().map(|a| resolve(a).map(|a| a.to_string())).collect();
    let want = ["192.0.2.1:161", "192.0.2.1:1161", "[2001:db8::1]:161", "[2001:db8::1]:1161"];
    assert_eq!(found, want.map(|a| Ok(a.to_string())));
    assert!(resolve("192.0.2.1:much").is_err());
}

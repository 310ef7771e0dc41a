//! Testbeds: two links between the tester and a router.

mod conditions;
mod cores;
pub mod lab;
mod lasting;
mod link;
mod memif;
mod near;
mod physical;
mod record;
mod spec;
mod tap;
mod veth;
mod way_in;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use buf::Pool;
use tempfile::TempDir;
use wire::Mac;

pub use cores::cores_of;
pub use link::Link;
#[cfg(test)]
pub(crate) use link::links;
pub use spec::{Driver, Kind, Spec};

use crate::engine::limits::Limits;
use crate::engine::run::Port;
use crate::traffic::Ends;
use crate::trial::{self, Failure};
use cores::{rps, sender_cores_of};
use memif::Memif;
use near::{Interfaces, Near};
use record::Records;
use veth::Cable;
use way_in::Known;

/// Time limit for a router to connect.
const CONNECT: Duration = Duration::from_secs(20);

/// A testbed: two links that are up, and the tester's ends of them.
pub struct Bed {
    /// The links.
    pub links: [Link; 2],
    /// The cores that routers may use.
    pub cores: Vec<usize>,
    /// The core that the tester polls on.
    pub tester_core: usize,
    /// Cores of the threads that only send.
    sender_cores: Vec<usize>,
    /// True if the tested system forwards frames without routing; frames are then addressed to the tester's other port.
    pub bridged: bool,
    /// Number of routers on the way, each of which lowers the time to live by one; 0 for a bridge or a cable.
    pub hops: u8,
    /// True if the campaign tests connections through routers.
    pub sessions: bool,
    spec: Spec,
    near: Box<dyn Near>,
    /// Recordings of the ports' frames, if any.
    records: Option<Records>,
    /// True if RPS makes the kernel process frames to the router on the router's cores; false if the campaign disables RPS. `None` if the
    /// links do not support RPS (memif, physical), or the tester could not set RPS and leaves it as it is.
    rps: Option<bool>,
    /// True if both ports are hardware.
    hardware: bool,
    pool: Pool,
    /// Directory for files of the testbed and of routers.
    directory: TempDir,
}

impl Bed {
    /// The router's namespace; not used with physical ports.
    pub const NAMESPACE: &str = veth::NAMESPACE;

    /// Makes the links. The tester's buffers come from the pool.
    ///
    /// # Errors
    /// If a command fails, the machine needs one of the physical ports, or there are too few cores. The error names the failed command.
    pub fn new(spec: &Spec, pool: &Pool) -> Result<Bed, Failure> {
        let mut links = link::links();
        let (tester_core, cores) = cores_of(spec)?;
        let sender_cores = sender_cores_of(spec)?;
        let mut hardware = false;
        if spec.kind == Kind::Physical {
            hardware = take(spec, &mut links)?;
        } else {
            veth::namespace()?;
        }
        let place = if lab::is_inside() { Path::new("/run").to_owned() } else { std::env::temp_dir() };
        let directory = tempfile::Builder::new().prefix("volley-bench-").tempdir_in(&place);
        let directory = directory.map_err(|e| Failure(format!("{}: {e}", place.display())))?;
        let near: Box<dyn Near> = match spec.kind {
            Kind::Veth => {
                veth::make(&links)?;
                Box::new(Interfaces::new(spec.driver.unwrap_or_default(), spec.senders()))
            }
            Kind::Tap => Box::new(tap::make(&mut links)?),
            Kind::Memif => Box::new(Memif::listen(&mut links, directory.path(), pool)?),
            Kind::Physical => Box::new(Interfaces::new(spec.driver.unwrap_or_default(), spec.senders())),
        };
        let rps = match spec.kind {
            Kind::Veth | Kind::Tap => rps(spec, veth::steer(&links, &[]))?,
            Kind::Memif | Kind::Physical => None,
        };
        let records = spec.record.as_deref().map(Records::begin).transpose()?;
        let (spec, pool) = (spec.clone(), pool.clone());
        Ok(Bed {
            links,
            cores,
            tester_core,
            sender_cores,
            bridged: false,
            hops: 1,
            sessions: false,
            spec,
            near,
            records,
            rps,
            hardware,
            pool,
            directory,
        })
    }

    /// Returns a testbed without a router: the tester's ends are connected with each other. Physical ports must be cabled to each other.
    ///
    /// # Errors
    /// If a command fails.
    pub fn without_router(&self) -> Result<Bed, Failure> {
        match self.spec.kind {
            Kind::Physical => {
                let mut links = self.links.clone();
                link::crossed(&mut links);
                Ok(self.with(
                    links,
                    Box::new(Interfaces::new(self.spec.driver.unwrap_or_default(), self.spec.senders())),
                )?)
            }
            Kind::Veth | Kind::Tap | Kind::Memif => self.cable(),
        }
    }

    /// Returns a cable between two of the tester's ports, for the self-test, of the same kind as the links. The kernel's ends of taps are
    /// joined by a bridge. The tester cannot recable physical ports: a virtual link with the same driver takes their place.
    ///
    /// # Errors
    /// If a command fails.
    pub fn cable(&self) -> Result<Bed, Failure> {
        let mut links = link::links();
        link::crossed(&mut links);
        let near: Box<dyn Near> = match self.spec.kind {
            Kind::Veth | Kind::Physical => {
                Box::new(Cable::make(&mut links, self.spec.driver.unwrap_or_default(), self.spec.senders())?)
            }
            Kind::Memif => Box::new(Memif::cable(&mut links, self.directory.path(), &self.pool)?),
            Kind::Tap => {
                let cable = tap::cable(&mut links)?;
                if self.rps == Some(true) {
                    veth::steer(&links, &self.cores)?;
                }
                Box::new(cable)
            }
        };
        let mut bed = self.with(links, near)?;
        bed.hardware = false;
        bed.wait()?;
        Ok(bed)
    }

    fn with(&self, links: [Link; 2], near: Box<dyn Near>) -> Result<Bed, Failure> {
        let directory = TempDir::new_in(self.directory.path()).map_err(|e| Failure(e.to_string()))?;
        Ok(Bed {
            links,
            cores: self.cores.clone(),
            tester_core: self.tester_core,
            sender_cores: self.sender_cores.clone(),
            bridged: false,
            hops: 0,
            sessions: self.sessions,
            spec: self.spec.clone(),
            near,
            records: None,
            rps: self.rps,
            hardware: self.hardware,
            pool: self.pool.clone(),
            directory,
        })
    }

    /// Returns the cores of the threads that only send; empty without such threads.
    pub fn sender_cores(&self) -> &[usize] {
        &self.sender_cores
    }

    /// Returns the kind of the links.
    pub fn kind(&self) -> Kind {
        self.spec.kind
    }

    /// Returns the directory for a router's files; it is removed with the testbed.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns a command for the router, which is killed when the tester ends. It runs in the router's namespace, or, if the router is on
    /// another machine, outside of all namespaces on this one.
    pub fn command(&self) -> Command {
        match self.spec.kind {
            Kind::Veth | Kind::Tap | Kind::Memif => lab::inside(veth::NAMESPACE),
            Kind::Physical => lab::guarded(),
        }
    }

    /// Makes the kernel process frames to the router on these cores, if RPS is in use.
    ///
    /// # Errors
    /// If the command fails.
    pub fn steer(&self, cores: &[usize]) -> Result<(), Failure> {
        match self.rps {
            Some(on) => veth::steer(&self.links, if on { cores } else { &[] }),
            None => Ok(()),
        }
    }

    /// Waits until a router is connected to both links.
    ///
    /// # Errors
    /// If no router connects in time.
    pub fn wait(&mut self) -> Result<(), Failure> {
        let begin = Instant::now();
        while !self.near.is_connected() {
            if begin.elapsed() > CONNECT {
                let names = self.links.each_ref().map(|l| l.router.as_str()).join(" and ");
                return Err(Failure(format!("no router connected to {names} within {CONNECT:?}")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Resolves the router's Ethernet addresses if they are needed and not known.
    ///
    /// # Errors
    /// If the router does not answer.
    pub fn resolve(&mut self) -> Result<(), Failure> {
        if self.spec.kind != Kind::Physical || self.spec.router_macs.is_some() || self.bridged {
            return Ok(());
        }
        let mut ports = self.ports()?;
        physical::resolve(&mut self.links, &mut ports, &self.pool)
    }

    /// Opens the tester's ports. Ports of an earlier trial must be closed.
    ///
    /// # Errors
    /// If an interface cannot be opened.
    pub fn ports(&mut self) -> Result<Vec<Port>, Failure> {
        let ports = self.near.open(&self.links, &self.pool)?;
        Ok(match &self.records {
            Some(records) => records.over(ports),
            None => ports,
        })
    }

    /// Returns the Ethernet and IP addresses for frames of the direction that starts at port `from`.
    pub fn ends(&self, from: usize) -> Ends {
        let (link, other) = (&self.links[from.min(1)], &self.links[1 - from.min(1)]);
        let to = if self.bridged { other.tester_mac } else { link.router_mac };
        Ends::rfc(link.tester_mac, to, from == 1)
    }

    /// Returns the limits beyond which a trial is invalid, unless the campaign sets others.
    pub fn limits(&self) -> Limits {
        if self.hardware { Limits::STRICT } else { Limits::VIRTUAL }
    }

    /// Returns the capacity of each link; for virtual links, a fixed upper bound of the loads to try.
    pub fn link(&self) -> trial::link::Link {
        let bound = if self.spec.kind == Kind::Memif { 100.0 } else { 10.0 };
        self.spec.link().unwrap_or(trial::link::Link::gigabit(bound))
    }
}

/// Checks that this machine has the testbed's cores and ports, that the ports reach the campaign's rate, and that the machine does not need
/// the ports for anything else. Changes nothing.
///
/// # Errors
/// If a core or port is missing, a port is slower than the campaign states, or the machine needs a port.
pub fn check_machine(spec: &Spec) -> Result<(), Failure> {
    cores_of(spec)?;
    sender_cores_of(spec)?;
    let Some(ports) = &spec.ports else { return Ok(()) };
    inspect(ports)?;
    for (port, n) in ports.iter().zip(1..) {
        let more = physical::gbit(port).filter(|has| spec.gbit.is_some_and(|gbit| gbit > *has));
        let why = |has| Failure(format!("testbed: gbit: {port} (ports {n}) only has {has} Gbit/s"));
        more.map_or(Ok(()), |has| Err(why(has)))?;
    }
    Ok(())
}

/// Same as [`physical::inspect`], for both ports.
fn inspect([a, b]: &[String; 2]) -> Result<[(bool, Mac); 2], Failure> {
    let here = |line: &str| lab::run(&["sh", "-c", line]);
    let known = Known::collect(&here).map_err(|e| Failure(format!("testbed: ports: {e}")))?;
    let one = |n: usize, name: &str| {
        physical::inspect(&known, name).map_err(|e| Failure(format!("testbed: ports {n}: {name}: {e}")))
    };
    Ok([one(1, a)?, one(2, b)?])
}

/// Checks that a router on another machine is not reached through its test ports; configuring them could cut the
/// connection for good. `ask` runs a shell command on the router's machine.
///
/// # Errors
/// If the router is reached through one of the ports, or this cannot be determined.
pub fn check_router_ports(
    links: &[Link; 2],
    ask: &dyn Fn(&str) -> Result<String, Failure>,
) -> Result<(), Failure> {
    let known = Known::collect(ask)?;
    links.iter().zip(1..).try_for_each(|(link, n)| {
        known.spare(&link.router).map_err(|why| Failure(format!("router-ports {n}: {}: {why}", link.router)))
    })
}

/// Stores the names and Ethernet addresses of the physical ports in the links, if the machine does not need the ports for anything else.
/// Returns true if all ports are hardware.
fn take(spec: &Spec, links: &mut [Link; 2]) -> Result<bool, Failure> {
    let none = || Failure("testbed: kind = \"physical\" needs ports".into());
    let ports = spec.ports.as_ref().ok_or_else(none)?;
    let mut hardware = true;
    for (n, (link, (real, mac))) in links.iter_mut().zip(inspect(ports)?).enumerate() {
        hardware &= real;
        (link.tester, link.tester_mac) = (ports[n].clone(), mac);
        link.router = spec.router_ports.as_ref().map_or_else(String::new, |all| all[n].clone());
        if let Some(macs) = spec.macs().map_err(Failure)? {
            link.router_mac = macs[n];
        }
    }
    Ok(hardware)
}

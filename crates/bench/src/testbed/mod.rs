//! Where routers are tested: two links, of which the tester has one end and the router the other.

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

use crate::engine::run::{Limits, Port};
use crate::traffic::Ends;
use crate::trial::{self, Failure};
use cores::rps;
use memif::Memif;
use near::{Interfaces, Memory, Near, RING};
use record::Records;
use veth::Cable;
use way_in::Known;

/// How long a router may take to connect.
const CONNECT: Duration = Duration::from_secs(20);

/// Two links, up, and what is between them.
pub struct Bed {
    /// The links.
    pub links: [Link; 2],
    /// The cores that routers may use.
    pub cores: Vec<usize>,
    /// The core that the tester polls on.
    pub tester_core: usize,
    /// Whether what is tested hands frames on without routing them, so that they are addressed to the tester's other port.
    pub bridged: bool,
    /// Whether a campaign asks for connections through routers.
    pub sessions: bool,
    spec: Spec,
    near: Box<dyn Near>,
    /// Where what goes through the ports is recorded.
    records: Option<Records>,
    /// Whether the kernel is to take frames to the router on the router's cores; `None` where nobody may have it do so.
    rps: Option<bool>,
    /// Whether the ports are of real hardware.
    hardware: bool,
    pool: Pool,
    /// Files of the testbed and of routers.
    directory: TempDir,
}

impl Bed {
    /// The namespace of what is tested; none is made for physical ports.
    pub const NAMESPACE: &str = veth::NAMESPACE;

    /// Makes the links. Buffers of the tester are of the pool.
    ///
    /// # Errors
    /// When the machine does not let it, with the command that failed; when a physical port is needed by somebody; when there are not
    /// enough cores.
    pub fn new(spec: &Spec, pool: &Pool) -> Result<Bed, Failure> {
        let mut links = link::links();
        let (tester_core, cores) = cores_of(spec)?;
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
                Box::new(Interfaces::new(spec.driver.unwrap_or_default()))
            }
            Kind::Tap => Box::new(tap::make(&mut links)?),
            Kind::Memif => Box::new(Memif::listen(&mut links, directory.path(), pool)?),
            Kind::Physical => Box::new(Interfaces::new(spec.driver.unwrap_or_default())),
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
            bridged: false,
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

    /// The same without a router: the tester's ends are connected to each other. Physical ports are, if somebody has plugged the cable.
    ///
    /// # Errors
    /// When the machine does not let it.
    pub fn without_router(&self) -> Result<Bed, Failure> {
        match self.spec.kind {
            Kind::Physical => {
                let mut links = self.links.clone();
                link::crossed(&mut links);
                Ok(self.with(links, Box::new(Interfaces::new(self.spec.driver.unwrap_or_default())))?)
            }
            Kind::Veth | Kind::Tap | Kind::Memif => self.cable(),
        }
    }

    /// A cable between two of the tester's ports, for the self-test. Physical ports cannot be cabled anew by the tester, and taps have
    /// the kernel at the other end: theirs is in memory.
    ///
    /// # Errors
    /// When the machine does not let it.
    pub fn cable(&self) -> Result<Bed, Failure> {
        let mut links = link::links();
        link::crossed(&mut links);
        let near: Box<dyn Near> = match self.spec.kind {
            Kind::Veth => Box::new(Cable::make(&mut links, self.spec.driver.unwrap_or_default())?),
            Kind::Memif => Box::new(Memif::cable(&mut links, self.directory.path(), &self.pool)?),
            Kind::Tap | Kind::Physical => Box::new(Memory),
        };
        let mut bed = self.with(links, near)?;
        bed.wait()?;
        Ok(bed)
    }

    fn with(&self, links: [Link; 2], near: Box<dyn Near>) -> Result<Bed, Failure> {
        let directory = TempDir::new_in(self.directory.path()).map_err(|e| Failure(e.to_string()))?;
        Ok(Bed {
            links,
            cores: self.cores.clone(),
            tester_core: self.tester_core,
            bridged: false,
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

    /// What the links are.
    pub fn kind(&self) -> Kind {
        self.spec.kind
    }

    /// Where files of a router are put; it goes with the testbed.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A command that runs where the router is, and ends with the tester: in a namespace, or on this machine if the router is another
    /// one.
    pub fn command(&self) -> Command {
        match self.spec.kind {
            Kind::Veth | Kind::Tap | Kind::Memif => lab::inside(veth::NAMESPACE),
            Kind::Physical => lab::guarded(),
        }
    }

    /// Has the kernel do a router's work on these cores, if it does any and the campaign has nothing against it.
    ///
    /// # Errors
    /// When the machine does not let it.
    pub fn steer(&self, cores: &[usize]) -> Result<(), Failure> {
        match self.rps {
            Some(on) => veth::steer(&self.links, if on { cores } else { &[] }),
            None => Ok(()),
        }
    }

    /// Waits until a router is at the other ends.
    ///
    /// # Errors
    /// When there is none.
    pub fn wait(&mut self) -> Result<(), Failure> {
        let begin = Instant::now();
        while !self.near.is_connected() {
            if begin.elapsed() > CONNECT {
                let names = self.links.each_ref().map(|l| l.router.as_str()).join(" and ");
                return Err(Failure(format!("nobody has connected to {names} for {CONNECT:?}")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Finds the router's Ethernet addresses where they are not known.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn resolve(&mut self) -> Result<(), Failure> {
        if self.spec.kind != Kind::Physical || self.spec.router_macs.is_some() || self.bridged {
            return Ok(());
        }
        let mut ports = self.ports()?;
        physical::resolve(&mut self.links, &mut ports, &self.pool)
    }

    /// The tester's ports. Those of a trial before must be gone.
    ///
    /// # Errors
    /// When an interface cannot be had.
    pub fn ports(&mut self) -> Result<Vec<Port>, Failure> {
        let ports = self.near.open(&self.links, &self.pool)?;
        Ok(match &self.records {
            Some(records) => records.over(ports),
            None => ports,
        })
    }

    /// The ends of the direction that begins at this port.
    pub fn ends(&self, from: usize) -> Ends {
        let (link, other) = (&self.links[from.min(1)], &self.links[1 - from.min(1)]);
        let to = if self.bridged { other.tester_mac } else { link.router_mac };
        Ends::rfc(link.tester_mac, to, from == 1)
    }

    /// Beyond these a trial on it is invalid.
    pub fn limits(&self) -> Limits {
        if self.hardware { Limits::strict(RING as u64) } else { Limits::VIRTUAL }
    }

    /// What each of the links carries: of virtual ones nothing but a bound to what is tried.
    pub fn link(&self) -> trial::link::Link {
        let bound = if self.spec.kind == Kind::Memif { 100.0 } else { 10.0 };
        self.spec.link().unwrap_or(trial::link::Link::gigabit(bound))
    }
}

/// Checks that this machine has the cores and the ports of a testbed, and that nobody else needs the ports. Nothing is touched.
///
/// # Errors
/// When it has not, or somebody does.
pub fn check_machine(spec: &Spec) -> Result<(), Failure> {
    cores_of(spec)?;
    let Some(ports) = &spec.ports else { return Ok(()) };
    inspect(ports)?;
    for (port, n) in ports.iter().zip(1..) {
        let more = physical::gbit(port).filter(|has| spec.gbit.is_some_and(|gbit| gbit > *has));
        let why = |has| Failure(format!("testbed: gbit: {port} (ports {n}) has {has} Gbit/s"));
        more.map_or(Ok(()), |has| Err(why(has)))?;
    }
    Ok(())
}

/// As [`physical::inspect`], of both ports.
fn inspect([a, b]: &[String; 2]) -> Result<[(bool, Mac); 2], Failure> {
    let here = |line: &str| lab::run(&["sh", "-c", line]);
    let known = Known::collect(&here).map_err(|e| Failure(format!("testbed: ports: {e}")))?;
    let one = |n: usize, name: &str| {
        physical::inspect(&known, name).map_err(|e| Failure(format!("testbed: ports {n}: {name}: {e}")))
    };
    Ok([one(1, a)?, one(2, b)?])
}

/// Checks that a router which is another machine is not reached by its ports, before anything is set there: setting a port anew may take it
/// away for good. `ask` runs a line of shell there.
///
/// # Errors
/// When it is, or nobody knows.
pub fn check_router_ports(
    links: &[Link; 2],
    ask: &dyn Fn(&str) -> Result<String, Failure>,
) -> Result<(), Failure> {
    let known = Known::collect(ask)?;
    links.iter().zip(1..).try_for_each(|(link, n)| {
        known.spare(&link.router).map_err(|why| Failure(format!("router-ports {n}: {}: {why}", link.router)))
    })
}

/// Writes what is known of physical ports into the links, when nobody else needs them. Whether they are of hardware.
fn take(spec: &Spec, links: &mut [Link; 2]) -> Result<bool, Failure> {
    let none = || Failure("testbed: a physical one needs ports".into());
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

//! Where routers are tested: two links, of which the tester has one end and the router the other.

pub mod lab;
mod link;
mod memif;
mod near;
mod physical;
mod spec;
mod veth;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use buf::Pool;
use tempfile::TempDir;

pub use link::Link;
#[cfg(test)]
pub(crate) use link::links;
pub use spec::{Driver, Kind, Spec};

use crate::engine::run::{Limits, Port};
use crate::traffic::Ends;
use crate::trial::{self, Failure};
use memif::Memif;
use near::{Interfaces, Memory, Near, RING};
use veth::Cable;

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
        let (tester_core, cores) = cores(spec, &infra::cpu::online_cores())?;
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
                Box::new(Interfaces::default())
            }
            Kind::Memif => Box::new(Memif::listen(&mut links, directory.path(), pool)?),
            Kind::Physical => Box::new(Interfaces::new(spec.driver.unwrap_or_default())),
        };
        let (spec, pool) = (spec.clone(), pool.clone());
        Ok(Bed {
            links,
            cores,
            tester_core,
            bridged: false,
            sessions: false,
            spec,
            near,
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
            Kind::Veth | Kind::Memif => self.cable(),
        }
    }

    /// A cable between two of the tester's ports, for the self-test. Physical ports cannot be cabled anew by the tester: theirs is in
    /// memory.
    ///
    /// # Errors
    /// When the machine does not let it.
    pub fn cable(&self) -> Result<Bed, Failure> {
        let mut links = link::links();
        link::crossed(&mut links);
        let near: Box<dyn Near> = match self.spec.kind {
            Kind::Veth => Box::new(Cable::make(&mut links)?),
            Kind::Memif => Box::new(Memif::cable(&mut links, self.directory.path(), &self.pool)?),
            Kind::Physical => Box::new(Memory),
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
            Kind::Veth | Kind::Memif => lab::inside(veth::NAMESPACE),
            Kind::Physical => lab::guarded(),
        }
    }

    /// Has the kernel do a router's work on these cores, if it does any and the campaign has nothing against it.
    ///
    /// # Errors
    /// When the machine does not let it.
    pub fn steer(&self, cores: &[usize]) -> Result<(), Failure> {
        match self.spec.kind {
            Kind::Veth => veth::steer(&self.links, if self.spec.rps == Some(false) { &[] } else { cores }),
            Kind::Memif | Kind::Physical => Ok(()),
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
        self.near.open(&self.links, &self.pool)
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
        let gbit = match self.spec.kind {
            Kind::Veth => 10.0,
            Kind::Memif => 100.0,
            Kind::Physical => self.spec.gbit.unwrap_or(10.0),
        };
        trial::link::Link::gigabit(gbit)
    }

    /// What a number from this testbed shows, and what not, and how it is set up: beside every table.
    pub fn conditions(&self) -> Vec<String> {
        let list = |cores: &[usize]| cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let of = format!(
            "The tester polls on core {}; routers on this machine may use {}.",
            self.tester_core,
            list(&self.cores)
        );
        let mut all = Vec::new();
        match self.spec.kind {
            Kind::Veth => {
                all.push(
                    "The links are virtual (veth): the tester's processor does a part of the router's work, no wire or network card \
                     bounds the rate, and rates and delays compare routers on this machine only."
                        .to_owned(),
                );
                all.push(of);
                all.push(match self.spec.rps {
                    Some(false) => "Frames to the router are taken on the tester's core (no RPS), unless the router says otherwise.",
                    _ => "The kernel takes frames to the router on the router's cores (RPS), unless the router says otherwise.",
                }.into());
                all.extend(self.links.iter().filter_map(|l| offloads(&l.router)));
            }
            Kind::Memif => {
                all.push(
                    "The links are virtual (memif, shared memory): frames are copied by processors and no wire or network card bounds \
                     the rate; rates and delays compare programs on this machine only."
                        .to_owned(),
                );
                all.push(of);
            }
            Kind::Physical => {
                let names = self.links.each_ref().map(|l| l.tester.as_str()).join(" and ");
                all.push(format!(
                    "The links are the ports {names} of {} Gbit/s.",
                    self.link().bits_per_second / 1e9
                ));
                if !self.hardware {
                    all.push("These ports are virtual: no wire bounds the rate, and trials are held to the limits for such links.".into());
                }
                all.push(format!("The tester polls on core {}.", self.tester_core));
                all.push(
                    "What the tester itself can do was found over a cable in memory: what its ports cost is not in it.".into(),
                );
            }
        }
        all
    }
}

/// The tester's core and those of routers, of what is online.
fn cores(spec: &Spec, online: &[usize]) -> Result<(usize, Vec<usize>), Failure> {
    let asked = spec.cores.iter().flatten().chain(&spec.tester_core);
    if let Some(missing) = asked.into_iter().find(|core| !online.contains(core)) {
        return Err(Failure(format!("testbed: there is no core {missing}: {online:?} are online")));
    }
    let free = |core: &&usize| !spec.cores.iter().flatten().any(|c| c == *core);
    let last = online.iter().rfind(free).or(online.last()).copied();
    let tester = spec.tester_core.or(last).ok_or_else(|| Failure("no core to run on".into()))?;
    let rest: Vec<usize> = online.iter().copied().filter(|c| *c != tester).collect();
    let cores = spec.cores.clone().unwrap_or(rest);
    if (cores.is_empty() || cores.contains(&tester)) && spec.kind != Kind::Physical {
        return Err(Failure("two cores are needed: one for the tester, one for the router".into()));
    }
    Ok((tester, cores))
}

/// Writes what is known of physical ports into the links, when nobody else needs them. Whether they are of hardware.
fn take(spec: &Spec, links: &mut [Link; 2]) -> Result<bool, Failure> {
    let none = || Failure("testbed: a physical one needs ports".into());
    let ports = spec.ports.as_ref().ok_or_else(none)?;
    let mut hardware = true;
    for (n, (link, name)) in links.iter_mut().zip(ports).enumerate() {
        let (real, mac) = physical::inspect(name)?;
        hardware &= real;
        (link.tester, link.tester_mac) = (name.clone(), mac);
        link.router = spec.router_ports.as_ref().map_or_else(String::new, |all| all[n].clone());
        if let Some(macs) = spec.macs().map_err(Failure)? {
            link.router_mac = macs[n];
        }
    }
    Ok(hardware)
}

/// Which offloads a router's interface has, in a line; nothing where that cannot be asked.
fn offloads(name: &str) -> Option<String> {
    let text = lab::sh(&format!("ip netns exec {} ethtool --show-features {name}", veth::NAMESPACE)).ok()?;
    let state = |feature: &str| {
        let value = text.lines().find_map(|l| l.trim().strip_prefix(feature)?.strip_prefix(": "))?;
        Some(format!("{feature} {}", value.split_whitespace().next()?))
    };
    let known = ["tx-checksumming", "tcp-segmentation-offload", "generic-receive-offload"];
    let all: Vec<_> = known.into_iter().filter_map(state).collect();
    (!all.is_empty())
        .then(|| format!("Offloads of {name}, before a router changes them: {}.", all.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tester_has_the_last_core_that_is_free() -> Result<(), Failure> {
        let spec = |cores: Option<&[usize]>, tester_core| Spec {
            cores: cores.map(<[usize]>::to_vec),
            tester_core,
            ..Spec::default()
        };
        assert_eq!(cores(&spec(None, None), &[0, 1, 2])?, (2, vec![0, 1]));
        assert_eq!(cores(&spec(Some(&[2]), None), &[0, 1, 2])?, (1, vec![2]));
        assert_eq!(cores(&spec(None, Some(0)), &[0, 1])?, (0, vec![1]));
        let said =
            |spec: Spec, online: &[usize]| cores(&spec, online).map_or_else(|e| e.0, |_| String::new());
        assert!(said(spec(None, None), &[0]).contains("two cores are needed"));
        assert!(said(spec(Some(&[7]), None), &[0, 1]).contains("there is no core 7"));
        assert!(said(spec(Some(&[0, 1]), None), &[0, 1]).contains("two cores are needed"));
        // A router elsewhere needs none here.
        let physical = Spec { kind: Kind::Physical, ..Spec::default() };
        assert_eq!(cores(&physical, &[0])?, (0, vec![]));
        Ok(())
    }
}

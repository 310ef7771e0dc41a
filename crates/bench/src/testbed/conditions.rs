//! What numbers from a testbed mean, in words.

use super::{Bed, Driver, Kind, lab, veth};

/// What a self-test over [`Memory`](super::Memory) means.
const IN_MEMORY: &str =
    "What the tester itself can do was found over a cable in memory: what its ports cost is not in it.";

impl Bed {
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
                if self.spec.driver == Some(Driver::AfXdp) {
                    all.push("The tester has its ends by AF_XDP.".into());
                }
                all.push(of);
                all.extend(self.kernels());
            }
            Kind::Tap => {
                all.push(
                    "The links are virtual (tap): each frame is a system call of the tester's, in which the kernel may do the router's \
                     work, no wire or network card bounds the rate, and rates and delays compare routers on this machine only."
                        .to_owned(),
                );
                all.push(of);
                all.extend(self.kernels());
                all.push(IN_MEMORY.into());
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
                all.push(IN_MEMORY.into());
            }
        }
        if self.records.is_some() {
            all.push("The tester's ports record the first frames that they send and receive, which takes its time.".into());
        }
        all
    }

    /// How the kernel takes what comes in by the router's ends.
    fn kernels(&self) -> impl Iterator<Item = String> {
        let cores = match self.rps {
            Some(true) => {
                "The kernel takes frames to the router on the router's cores (RPS), unless the router says otherwise."
            }
            Some(false) => {
                "Frames to the router are taken on the tester's core (no RPS), unless the router says otherwise."
            }
            None => {
                "Frames to the router are taken on the tester's core, so that the sender's does the router's work: only root may have \
                 the kernel take them to others (RPS)."
            }
        };
        [cores.to_owned()].into_iter().chain(self.links.iter().filter_map(|l| offloads(&l.router)))
    }
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

//! Descriptions of a testbed's conditions for reports.

use super::{Bed, Driver, Kind, lab, veth};

/// Sentence for the report's conditions if the self-test used a virtual link in place of physical ports.
const VIRTUAL_CABLE: &str = "The limits of the tester itself were measured over a virtual link with the same driver, so the costs of the \
                             network cards are not included.";

impl Bed {
    /// Returns sentences about the testbed's setup, and about the limits of measurements on it. Reports print these sentences next to their
    /// tables.
    pub fn conditions(&self) -> Vec<String> {
        let list = |cores: &[usize]| cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let of = format!(
            "The tester polls on core {}; routers on this machine may use {}.",
            self.tester_core,
            list(&self.cores)
        );
        let mut all = Vec::new();
        if self.spec.senders() > 0 {
            all.push(format!(
                "Floods are sent by {} threads of each port on core {}, and received by {} queues. The tester polls these queues in turn, \
                 so it may reorder frames of different flows.",
                self.spec.senders(),
                list(&self.sender_cores),
                self.spec.senders() + 1
            ));
        }
        match self.spec.kind {
            Kind::Veth => {
                all.push(
                    "The links are virtual (veth): the tester's processor does part of the router's work. No wire or network card limits the \
                     rate. Rates and delays can only be compared with those of other routers on this machine."
                        .to_owned(),
                );
                if self.spec.driver == Some(Driver::AfXdp) {
                    all.push("The tester accesses its ends of the links through AF_XDP.".into());
                }
                all.push(of);
                all.extend(self.kernels());
            }
            Kind::Tap => {
                all.push(
                    "The links are virtual (tap): the tester makes a system call for each frame, in which the kernel may do the router's \
                     work. No wire or network card limits the rate. Rates and delays can only be compared with those of other routers on this machine."
                        .to_owned(),
                );
                all.push(of);
                all.extend(self.kernels());
            }
            Kind::Memif => {
                all.push(
                    "The links are virtual (memif, shared memory): processors copy the frames, and no wire or network card limits the rate. \
                     Rates and delays can only be compared with those of other routers on this machine."
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
                    all.push("These ports are virtual: no wire limits the rate, and trials are checked against the limits for virtual links.".into());
                }
                all.push(format!("The tester polls on core {}.", self.tester_core));
                all.push(VIRTUAL_CABLE.into());
            }
        }
        if self.records.is_some() {
            all.push("The tester's ports record the first frames sent and received, which costs processor time of the tester.".into());
        }
        all
    }

    /// Returns sentences about the router's ends of the links, for a router that uses the kernel's interfaces: the cores (RPS) and the
    /// offloads.
    fn kernels(&self) -> impl Iterator<Item = String> {
        let cores = match self.rps {
            Some(true) => {
                "The kernel processes frames to the router on the router's cores (RPS). The setup of a router lists exceptions."
            }
            Some(false) => {
                "The kernel processes frames to the router on the tester's core (no RPS). The setup of a router lists exceptions."
            }
            None => {
                "The kernel processes frames to the router on the tester's core, so the sender's core does the router's work. Processing these frames on other cores (RPS) needs root."
            }
        };
        [cores.to_owned()].into_iter().chain(self.links.iter().filter_map(|l| offloads(&l.router)))
    }
}

/// Returns the offloads of a router's interface in one line; `None` if ethtool fails.
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

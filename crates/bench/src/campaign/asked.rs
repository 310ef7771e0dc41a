//! A campaign with the files it was read from, so that an error message has the file and line of the wrong value.

use std::path::Path;

use serde::Deserialize;

use super::place::File;
use super::{Campaign, Fault, Paper};
use crate::dut;
use crate::energy;
use crate::testbed;

/// A checked campaign with its files.
#[derive(Clone, Debug)]
pub struct Asked {
    campaign: Campaign,
    file: File,
    /// True for a built-in campaign, which repeats a paper's measurements and was written for the machines of the paper's authors.
    is_paper: bool,
    machine: Option<Machine>,
}

/// A machine file: testbed, meters and routers.
#[derive(Clone, Debug)]
struct Machine {
    file: File,
    has: Parts,
}

/// Parts of a machine file. Each part that is given replaces the campaign's part.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    testbed: Option<testbed::Spec>,
    #[serde(rename = "meter")]
    meters: Option<Vec<energy::Spec>>,
    duts: Option<Vec<dut::Spec>>,
}

impl Asked {
    /// Reads a campaign from a file. The testbed, meters and routers of a `machine` file replace the campaign's.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read. Otherwise returns the first fault that does not depend on the machine, with its file and
    /// line.
    pub fn file(path: &Path, machine: Option<&Path>) -> Result<Asked, Fault> {
        Asked::of(File::read(path)?, false, machine)
    }

    /// Reads the built-in campaign that repeats the tables of a paper; `machine` is as for [`file`](Self::file).
    ///
    /// # Errors
    /// As [`file`](Self::file); also returns an error if the paper is unknown.
    pub fn paper(name: &str, machine: Option<&Path>) -> Result<Asked, Fault> {
        Asked::of(File::new(&format!("paper {name}"), Paper::named(name)?.text), true, machine)
    }

    fn of(file: File, is_paper: bool, machine: Option<&Path>) -> Result<Asked, Fault> {
        let mut asked = Asked { campaign: file.parse()?, file, is_paper, machine: None };
        if let Some(path) = machine {
            let file = File::read(path)?;
            let has: Parts = file.parse()?;
            let campaign = &mut asked.campaign;
            replace(&mut campaign.testbed, &has.testbed);
            replace(&mut campaign.meters, &has.meters);
            replace(&mut campaign.duts, &has.duts);
            asked.machine = Some(Machine { file, has });
        }
        asked.campaign.check().map_err(|fault| asked.named(&fault))?;
        Ok(asked)
    }

    /// Returns the campaign.
    pub fn campaign(&self) -> &Campaign {
        &self.campaign
    }

    /// Returns the same campaign with the times and repetitions of the quick profile, as [`Campaign::miniature`].
    #[must_use]
    pub fn miniature(self) -> Asked {
        Asked { campaign: self.campaign.miniature(), ..self }
    }

    /// Checks that this machine meets the campaign's needs: cores, free ports, link rates, and a directory for recordings. Changes nothing.
    /// A paper's campaign passes even if the links are too slow for some loads (the report lists them), or if the paper's own routers need
    /// more cores than this machine has.
    ///
    /// # Errors
    /// Returns the first fault, with its file and line.
    pub fn check_machine(&self) -> Result<(), Fault> {
        let Campaign { duts, testbed, .. } = &self.campaign;
        let own_routers = !self.is_paper || self.machine.as_ref().is_some_and(|m| m.has.duts.is_some());
        let cores = || if own_routers { dut::check_cores(duts, testbed).map_err(Fault) } else { Ok(()) };
        let loads = || if self.is_paper { Ok(()) } else { self.campaign.check_loads() };
        let all = self.campaign.check_machine().and_then(|()| cores()).and_then(|()| loads());
        all.map_err(|fault| self.named(&fault))
    }

    /// Returns a fault with the file and line of the wrong value. If the first key in the fault is that of a part that the machine file has
    /// (testbed, meters or routers), the file is the machine file. Otherwise it is the campaign's file.
    fn named(&self, fault: &Fault) -> Fault {
        let key = fault.0.split([':', ' ']).next();
        let of_machine = |machine: &&Machine| match key {
            Some("testbed") => machine.has.testbed.is_some(),
            Some("meter") => machine.has.meters.is_some(),
            Some("router" | "duts") => machine.has.duts.is_some(),
            _ => false,
        };
        self.machine.as_ref().filter(of_machine).map_or(&self.file, |machine| &machine.file).named(fault)
    }
}

fn replace<T: Clone>(own: &mut T, other: &Option<T>) {
    if let Some(other) = other {
        own.clone_from(other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BED: &str =
        "[testbed]\nkind = 'physical'\nports = ['no-1', 'no-2']\nrouter-ports = ['a', 'b']\ngbit = 10\n";

    /// Checks a paper's campaign together with a machine file whose text is `machine`.
    fn on(paper: &str, machine: &str) -> Result<Asked, String> {
        let file = tempfile::NamedTempFile::new().map_err(|e| e.to_string())?;
        std::fs::write(file.path(), machine).map_err(|e| e.to_string())?;
        let of_file = |e: Fault| e.0.replace(&file.path().display().to_string(), "lab.toml");
        let asked = Asked::paper(paper, Some(file.path())).map_err(of_file)?;
        asked.check_machine().map_err(of_file).map(|()| asked)
    }

    fn said(machine: &str) -> String {
        on("okelmann-2019-routes", machine).map_or_else(|e| e, |_| "nothing".into())
    }

    #[test]
    fn a_machine_brings_its_testbed_meters_and_routers() -> Result<(), Fault> {
        let asked = Asked::paper("okelmann-2019-routes", None)?;
        let file = tempfile::NamedTempFile::new().map_err(|e| Fault(e.to_string()))?;
        let text =
            format!("duts = [{{ kind = 'linux', host = 'root@router' }}]\n{BED}[[meter]]\nkind = 'rapl'\n");
        std::fs::write(file.path(), text).map_err(|e| Fault(e.to_string()))?;
        let there = Asked::paper("okelmann-2019-routes", Some(file.path()))?.miniature();
        let (campaign, alone) = (there.campaign(), asked.campaign());
        assert_eq!((campaign.testbed.kind, campaign.meters.len()), (testbed::Kind::Physical, 1));
        assert_eq!((campaign.duts.len(), campaign.tests.len()), (1, alone.tests.len()));
        assert!(campaign.profile().duration < alone.profile().duration);
        Ok(())
    }

    #[test]
    fn settings_missing_on_the_machine_come_from_the_campaign() -> Result<(), Fault> {
        let own = format!(
            "name = 'own'\nduts = ['none']\n[[test]]\ntraffic = 'rfc2544'\nsizes = [64]\n{BED}[[meter]]\nkind = 'rapl'\n"
        );
        let [file, machine] = [(); 2].map(|()| tempfile::NamedTempFile::new().expect("a file"));
        let asked = |on: &str| {
            std::fs::write(file.path(), &own)
                .and_then(|()| std::fs::write(machine.path(), on))
                .expect("a file");
            Asked::file(file.path(), Some(machine.path())).map(|asked| {
                let Campaign { testbed, meters, duts, .. } = asked.campaign().clone();
                (testbed.kind, meters.len(), duts.len())
            })
        };
        assert_eq!(asked("")?, (testbed::Kind::Physical, 1, 1));
        assert_eq!(
            asked("[[meter]]\nkind = 'rapl'\n[[meter]]\nkind = 'cpu'\ncores = [0]\n")?,
            (testbed::Kind::Physical, 2, 1)
        );
        assert_eq!(asked("meter = []\n")?, (testbed::Kind::Physical, 0, 1));
        assert_eq!(asked("[testbed]\nkind = 'veth'\n")?, (testbed::Kind::Veth, 1, 1));
        Ok(())
    }

    #[test]
    fn faults_name_the_file_that_has_them() {
        let router =
            "duts = [\n  'none',\n  { kind = 'linux', host = 'root@router',\n    driver = 'af-xdp' },\n]\n";
        // The paper's routers run on the tester's machine, so they cannot be behind its physical ports.
        let paper =
            "paper okelmann-2019-routes, line 10: router 1 (linux): the testbed \"physical\" needs host";
        let cases = [
            (BED.to_owned(), paper),
            (format!("{router}{BED}"), "lab.toml, line 4: router 2 (linux): driver is not supported"),
            ("[testbed]\nkind = 'veth'\nname = 'x'\n".into(), "lab.toml, line 3: unknown field `name`"),
            (
                "[testbed]\nkind = 'veth'\n[[meter]]\nkind = 'cpu'\ncores = []\n".into(),
                "lab.toml, line 5: meter 1: cores: list at least one",
            ),
            (
                "[testbed]\ncores = [\n 70000]\n".into(),
                "lab.toml, line 3: testbed: cores 1: there is no core 70000",
            ),
            (
                "[testbed]\ntester-core = 70000\n".into(),
                "lab.toml, line 2: testbed: tester-core: there is no core 70000",
            ),
            ("[testbed]\nrecord = '/run/x/'\n".into(), "lab.toml, line 2: testbed: record: "),
        ];
        for (text, why) in cases {
            assert!(said(&text).starts_with(why), "{}\nand not: {why}", said(&text));
        }
    }

    #[test]
    fn a_paper_requires_the_hardware_of_its_authors() -> Result<(), String> {
        // This paper's campaign needs ten workers, and links of 40 Gbit/s.
        let text = Paper::named("slavik-2025-one-way").map_err(|e| e.0)?.text;
        let file = tempfile::NamedTempFile::new().map_err(|e| e.to_string())?;
        let own = |text: &str| {
            std::fs::write(file.path(), text).map_err(|e| e.to_string())?;
            let asked = Asked::file(file.path(), None).map_err(|e| e.0)?;
            Ok::<_, String>(asked.check_machine().map_or_else(|e| e.0, |()| "nothing".into()))
        };
        on("slavik-2025-one-way", "")?;
        let many = text.replace("workers = 10", "workers = 7000");
        assert!(
            own(&many)?.contains(", line 13: router 1 (linux-10): workers = 7000 needs 7000 cores"),
            "{}",
            own(&many)?
        );
        let machine = "duts = [\n'linux',\n{ kind = 'vpp', workers = 7000 }]\n";
        let said = on("slavik-2025-one-way", machine).err().unwrap_or_default();
        assert!(said.starts_with("lab.toml, line 3: router 2 (vpp): workers = 7000 needs"), "{said}");
        Ok(())
    }

    #[test]
    fn an_unusable_port_is_reported_with_its_line() {
        let text = format!("duts = [{{ kind = 'linux', host = 'root@router' }}]\n{BED}");
        let why = said(&text.replace("['no-1', 'no-2']", "[\n'no-1',\n'lo']"));
        assert!(why.starts_with("lab.toml, line 5: testbed: ports 1: no-1: "), "{why}");
    }
}

//! Energy counters of the processor: RAPL, through the kernel's powercap files (Linux, Documentation/power/powercap/powercap.rst; domains:
//! Intel SDM volume 3B, "RAPL Interfaces").
//!
//! Packages and memory (`dram`) are summed. Cores and graphics (`core`, `uncore`) belong to their package and are only listed. The whole
//! platform (`psys`) is only listed, too: its scope depends on the manufacturer, and it often reads 0.

use std::fs;
use std::path::{Path, PathBuf};

use super::Fault;
use super::counter::{Counters, Unit};

/// Sysfs directory of the domains.
pub(super) const ROOT: &str = "/sys/class/powercap";

/// Upper limit for the power of a domain, in watts. A faster increase of the counter is a fault, not a wraparound.
const MOST_WATTS: f64 = 1000.0;

/// The RAPL domains of a machine.
pub(super) struct Rapl {
    files: Vec<PathBuf>,
    units: Vec<Unit>,
}

impl Rapl {
    /// Opens all RAPL domains below the directory.
    ///
    /// # Errors
    /// Returns an error if no domain measures a processor package or memory, or a domain cannot be read.
    pub fn open(root: &Path) -> Result<Rapl, Fault> {
        let missing = |why: String| {
            Fault(format!(
                "rapl: {}: {why}. A virtual machine has no such counters; on a real one, load the module intel_rapl_msr",
                root.display()
            ))
        };
        let entries = fs::read_dir(root).map_err(|e| missing(e.to_string()))?;
        let mut names: Vec<String> =
            entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
        // Some machines list the same domains again as intel-rapl-mmio.
        names.retain(|n| n.starts_with("intel-rapl:"));
        names.sort();
        let mut rapl = Rapl { files: Vec::new(), units: Vec::new() };
        for name in &names {
            let dir = root.join(name);
            let label = text(&dir.join("name"))?;
            let range = number(&dir.join("max_energy_range_uj"))?;
            let parent = name.rsplit_once(':').map(|(front, _)| front).filter(|front| front.contains(':'));
            let above = parent.map(|p| text(&root.join(p).join("name"))).transpose()?;
            let counted = label.starts_with("package") || label == "dram";
            let name = above.map_or(label.clone(), |above| format!("{above}/{label}"));
            // `range` is the largest value of the counter.
            let values = u128::from(range) + 1;
            rapl.units.push(Unit { name, joules: 1e-6, step: 1e-6, values, counted });
            rapl.files.push(dir.join("energy_uj"));
        }
        if !rapl.units.iter().any(|u| u.counted) {
            return Err(missing("no intel-rapl:* domain measures a processor package".into()));
        }
        rapl.read()?;
        Ok(rapl)
    }
}

impl Counters for Rapl {
    fn units(&self) -> &[Unit] {
        &self.units
    }

    fn read(&mut self) -> Result<Vec<u64>, Fault> {
        self.files.iter().map(|f| number(f)).collect()
    }

    fn most_watts(&self) -> f64 {
        MOST_WATTS
    }
}

fn text(file: &Path) -> Result<String, Fault> {
    let text = fs::read_to_string(file).map_err(|e| {
        let help =
            if e.kind() == std::io::ErrorKind::PermissionDenied { " (only root may read it)" } else { "" };
        Fault(format!("rapl: {}: {e}{help}", file.display()))
    })?;
    Ok(text.trim().into())
}

fn number(file: &Path) -> Result<u64, Fault> {
    let text = text(file)?;
    text.parse()
        .map_err(|_| Fault(format!("rapl: {}: {text:?} is not a number of microjoules", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::counter::Counting;
    use crate::energy::{Meter, Reading};

    /// Writes a domain as the kernel shows it.
    fn domain(root: &Path, dir: &str, name: &str, energy: u64) {
        let dir = root.join(dir);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("name"), format!("{name}\n")).unwrap();
        fs::write(dir.join("max_energy_range_uj"), "262143328850\n").unwrap();
        fs::write(dir.join("energy_uj"), format!("{energy}\n")).unwrap();
    }

    #[test]
    fn packages_and_memory_are_summed_across_wraparounds() {
        let root = tempfile::tempdir().unwrap();
        let all = [
            ("intel-rapl:0", "package-0", 262_143_000_000, 671_149),
            ("intel-rapl:0:0", "core", 500, 700_500),
            ("intel-rapl:0:1", "dram", 7, 250_007),
            ("intel-rapl:1", "package-1", 10, 2_000_010),
            ("intel-rapl:2", "psys", 0, 9_000_000),
            ("intel-rapl-mmio:0", "package-0", 1, 5_000_001),
        ];
        all.iter().for_each(|(dir, name, before, _)| domain(root.path(), dir, name, *before));
        let mut meter = Counting::new(Rapl::open(root.path()).unwrap());
        meter.begin().unwrap();
        all.iter().for_each(|(dir, name, _, after)| domain(root.path(), dir, name, *after));
        let Reading::Energy(energy) = meter.end().unwrap() else { panic!("no energy") };
        assert!((energy.joules - (1.0 + 0.25 + 2.0)).abs() < 1e-9, "{energy:?}");
        let parts: Vec<_> = energy.parts.iter().map(|p| (p.name.as_str(), p.joules, p.counted)).collect();
        let want = [
            ("package-0", 1.0, true),
            ("package-0/core", 0.7, false),
            ("package-0/dram", 0.25, true),
            ("package-1", 2.0, true),
            ("psys", 9.0, false),
        ];
        assert_eq!(parts.len(), want.len(), "{parts:?}");
        for (part, want) in parts.iter().zip(want) {
            assert!((part.1 - want.1).abs() < 1e-9 && (part.0, part.2) == (want.0, want.2), "{part:?}");
        }
    }

    #[test]
    fn the_error_names_missing_rapl_files() {
        let root = tempfile::tempdir().unwrap();
        let said = |root: &Path| Rapl::open(root).map_or_else(|f| f.to_string(), |_| "nothing".into());
        assert!(said(&root.path().join("powercap")).contains("powercap: No such file"));
        assert!(said(root.path()).contains("no intel-rapl:* domain measures a processor package"));
        domain(root.path(), "intel-rapl:0", "package-0", 5);
        fs::write(root.path().join("intel-rapl:0/energy_uj"), "many").unwrap();
        assert!(said(root.path()).contains("energy_uj: \"many\" is not a number"));
        fs::remove_file(root.path().join("intel-rapl:0/energy_uj")).unwrap();
        assert!(said(root.path()).contains("intel-rapl:0/energy_uj: No such file"));
    }
}

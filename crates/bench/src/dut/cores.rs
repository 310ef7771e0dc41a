//! Cores of routers, and the processor time of routers without their own processes.

use super::{Kind, Spec, vpp};
use crate::host::{TICKS, Times};
use crate::testbed;
use crate::trial::Failure;

/// Checks that the testbed has enough cores for each router's workers, and for VPP's main thread.
///
/// # Errors
/// Returns the first router that needs more cores, and the remedy.
pub fn check(duts: &[Spec], bed: &testbed::Spec) -> Result<(), String> {
    let (_, all) = testbed::cores_of(bed).map_err(|e| e.0)?;
    for (n, dut) in duts.iter().enumerate() {
        let fault = |e: Failure| dut.fault(n, &e.0);
        let on = of(dut, bed.kind, &all).map_err(fault)?;
        if dut.kind == Kind::Vpp {
            vpp::main_core(&all, &on).map_err(fault)?;
        }
    }
    Ok(())
}

/// Returns the router's cores: the first of the cores that the testbed has for routers. Empty if no router runs on this machine.
///
/// # Errors
/// Returns an error if the testbed has fewer cores for routers than the router has workers.
pub fn of(spec: &Spec, bed: testbed::Kind, all: &[usize]) -> Result<Vec<usize>, Failure> {
    if bed == testbed::Kind::Physical || spec.kind == Kind::None {
        return Ok(Vec::new());
    }
    let wanted = spec.workers();
    let cores = all.get(..wanted).ok_or_else(|| {
        let have = all.len();
        Failure(format!(
            "workers = {wanted} needs {wanted} cores, the testbed has {have} for routers ({all:?}): add cores to \"cores\" in [testbed]"
        ))
    })?;
    Ok(cores.to_vec())
}

/// Formats cores for `taskset` and `startup.conf`: numbers separated by commas.
pub fn list(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// Returns the time in seconds that these cores have spent on all programs and interrupts since the machine started. `None` if
/// there are no cores, or the kernel does not report the time.
pub fn seconds(cores: &[usize]) -> Option<f64> {
    if cores.is_empty() {
        return None;
    }
    busy(&std::fs::read_to_string("/proc/stat").ok()?, cores)
}

/// Describes the method of [`seconds`] for reports; empty without cores.
pub fn how(cores: &[usize]) -> String {
    if cores.is_empty() {
        return String::new();
    }
    format!(
        "the work of all programs on core {} (user, system, interrupts: /proc/stat), without the kernel's work for the router on the \
         tester's core",
        list(cores)
    )
}

fn busy(stat: &str, cores: &[usize]) -> Option<f64> {
    let all = Times::cores(stat)?;
    let ticks = cores.iter().map(|core| Some(all.get(core)?.busy())).sum::<Option<u64>>()?;
    Some(ticks as f64 / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_is_all_time_except_idle() {
        let stat = "cpu 9 9 9 9 9 9 9 9 9 9\ncpu0 100 1 20 5000 60 7 300 8 0 0\ncpu1 1 1 1 1 1 1 1 1\ncpu10 0 0 0 0 0 0 0 0\n";
        assert_eq!(busy(stat, &[0]), Some(4.28));
        assert_eq!(busy(stat, &[0, 1]), Some(4.33));
        assert_eq!(busy(stat, &[2]), None);
        assert_eq!((seconds(&[]), how(&[])), (None, String::new()));
    }

    #[test]
    fn more_workers_than_cores_are_refused() -> Result<(), String> {
        let online = infra::cpu::online_cores().len();
        let said = |kind: &str, workers: usize| {
            let table = format!("kind = '{kind}'\nworkers = {workers}");
            let spec = toml::from_str::<Spec>(&table).map_err(|e| e.to_string())?;
            let said = check(&[Kind::None.into(), spec], &testbed::Spec::default());
            Ok::<_, String>(said.map_or_else(|e| e, |()| "nothing".into()))
        };
        let why = format!(
            "router 2 (linux): workers = {online} needs {online} cores, the testbed has {}",
            online - 1
        );
        assert!(said("linux", online)?.starts_with(&why), "{}", said("linux", online)?);
        assert_eq!(said("linux", online - 1)?, "nothing");
        // VPP needs one more core for its main thread, unless it has a single worker.
        let why =
            format!("router 2 (vpp): workers = {} needs one more core for VPP's main thread", online - 1);
        let expected = if online == 2 { "nothing" } else { &why };
        assert!(said("vpp", online - 1)?.starts_with(expected), "{}", said("vpp", online - 1)?);
        Ok(())
    }

    #[test]
    fn a_remote_router_gets_no_local_cores() -> Result<(), String> {
        let spec = |text: &str| toml::from_str::<Spec>(text).map_err(|e| e.to_string());
        let command = spec("kind = 'command'\nconfigure = 'true'\nworkers = 2")?;
        let of = |spec: &Spec, bed, all: &[usize]| super::of(spec, bed, all).map_err(|e| e.0);
        assert_eq!(of(&command, testbed::Kind::Veth, &[3, 5, 7]), Ok(vec![3, 5]));
        assert!(of(&command, testbed::Kind::Veth, &[3]).is_err_and(|e| e.contains("workers = 2 needs")));
        assert_eq!(of(&command, testbed::Kind::Physical, &[3]), Ok(vec![]));
        assert_eq!(of(&spec("kind = 'none'")?, testbed::Kind::Veth, &[3]), Ok(vec![]));
        Ok(())
    }
}

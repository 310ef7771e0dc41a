//! Assignment of cores.

use super::{Kind, Spec};
use crate::trial::Failure;

/// Returns true if the kernel processes frames to the router on the router's cores (RPS), and false if the campaign disables RPS. `told` is
/// the result of setting RPS. `None` if this failed.
///
/// # Errors
/// If setting RPS failed, and the campaign requires RPS.
pub(super) fn rps(spec: &Spec, told: Result<(), Failure>) -> Result<Option<bool>, Failure> {
    match (spec.rps, told) {
        (asked, Ok(())) => Ok(Some(asked != Some(false))),
        (Some(true), Err(e)) => Err(Failure(format!("testbed: rps: needs root: {e}"))),
        (_, Err(_)) => Ok(None),
    }
}

/// Returns the tester's core and the routers' cores on this machine.
///
/// # Errors
/// If a core named in the campaign is not online, or no core is online. Unless the ports are physical: also if no core is left for routers,
/// or the routers' cores include the tester's core.
pub fn cores_of(spec: &Spec) -> Result<(usize, Vec<usize>), Failure> {
    cores(spec, &infra::cpu::online_cores())
}

/// Returns the cores of the threads that only send; empty without such threads.
///
/// # Errors
/// If there are such threads: as [`cores_of`]; also if no core is free for them, or a core named for them is not online.
pub fn sender_cores_of(spec: &Spec) -> Result<Vec<usize>, Failure> {
    sender_cores(spec, &infra::cpu::online_cores())
}

/// Like [`sender_cores_of`], for a given list of online cores.
fn sender_cores(spec: &Spec, online: &[usize]) -> Result<Vec<usize>, Failure> {
    if spec.senders() == 0 {
        return Ok(Vec::new());
    }
    let (tester, routers) = cores(spec, online)?;
    let asked = spec.sender_cores.clone();
    let own = asked.unwrap_or_else(|| {
        let is_used = |core: &usize| *core == tester || spec.kind != Kind::Physical && routers.contains(core);
        online.iter().copied().filter(|core| !is_used(core)).collect()
    });
    if let Some(missing) = own.iter().find(|core| !online.contains(core)) {
        return Err(Failure(format!(
            "testbed: sender-cores: there is no core {missing}; online: {online:?}"
        )));
    }
    if own.is_empty() {
        let why = "no core is left for senders: list fewer cores in \"cores\", or set \"sender-cores\"";
        return Err(Failure(format!("testbed: sender-cores: {why}; online: {online:?}")));
    }
    Ok(own)
}

/// Like [`cores_of`], for a given list of online cores.
fn cores(spec: &Spec, online: &[usize]) -> Result<(usize, Vec<usize>), Failure> {
    let cores = spec.cores.iter().flatten().enumerate().map(|(n, core)| (format!("cores {}", n + 1), core));
    let mut asked = cores.chain(spec.tester_core.iter().map(|core| ("tester-core".to_owned(), core)));
    if let Some((key, missing)) = asked.find(|(_, core)| !online.contains(core)) {
        return Err(Failure(format!("testbed: {key}: there is no core {missing}; online: {online:?}")));
    }
    let free = |core: &&usize| !spec.cores.iter().flatten().any(|c| c == *core);
    let last = online.iter().rfind(free).or(online.last()).copied();
    let tester =
        spec.tester_core.or(last).ok_or_else(|| Failure("testbed: tester-core: no core is online".into()))?;
    let rest: Vec<usize> = online.iter().copied().filter(|c| *c != tester).collect();
    let cores = spec.cores.clone().unwrap_or(rest);
    if (cores.is_empty() || cores.contains(&tester)) && spec.kind != Kind::Physical {
        return Err(Failure(format!(
            "testbed: cores: the tester and the router need different cores; online: {online:?}"
        )));
    }
    Ok((tester, cores))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rps_is_used_if_requested_and_allowed() {
        let refused = || Err(Failure("no".into()));
        let of = |rps, told| super::rps(&Spec { rps, ..Spec::default() }, told);
        assert_eq!(
            [None, Some(true), Some(false)].map(|asked| of(asked, Ok(()))),
            [true, true, false].map(|on| Ok(Some(on)))
        );
        assert_eq!([None, Some(false)].map(|asked| of(asked, refused())), [Ok(None), Ok(None)]);
        assert!(of(Some(true), refused()).is_err_and(|e| e.0.contains("rps: needs root")));
    }

    #[test]
    fn senders_have_cores_of_their_own() {
        let spec = |kind, cores: &[usize], own: Option<&[usize]>| Spec {
            kind,
            senders: Some(2),
            cores: Some(cores.to_vec()).filter(|cores| !cores.is_empty()),
            sender_cores: own.map(<[usize]>::to_vec),
            ..Spec::default()
        };
        assert_eq!(sender_cores(&spec(Kind::Veth, &[0], None), &[0, 1, 2, 3]), Ok(vec![1, 2]));
        assert_eq!(sender_cores(&spec(Kind::Veth, &[0], Some(&[3])), &[0, 1, 2, 3]), Ok(vec![3]));
        assert_eq!(sender_cores(&spec(Kind::Physical, &[], None), &[0, 1, 2]), Ok(vec![0, 1]));
        assert_eq!(sender_cores(&Spec::default(), &[0, 1]), Ok(vec![]));
        let why = |spec| sender_cores(&spec, &[0, 1]).map_or_else(|e| e.0, |_| String::new());
        assert!(why(spec(Kind::Veth, &[], None)).contains("no core is left for senders"));
        assert!(why(spec(Kind::Veth, &[], Some(&[7]))).contains("there is no core 7"));
    }

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
        assert!(
            said(spec(None, None), &[0]).contains("cores: the tester and the router need different cores")
        );
        assert!(said(spec(Some(&[7]), None), &[0, 1]).contains("testbed: cores 1: there is no core 7"));
        assert!(
            said(spec(Some(&[0, 1]), None), &[0, 1])
                .contains("cores: the tester and the router need different cores")
        );
        // A router on another machine needs no cores here.
        let physical = Spec { kind: Kind::Physical, ..Spec::default() };
        assert_eq!(cores(&physical, &[0])?, (0, vec![]));
        Ok(())
    }
}

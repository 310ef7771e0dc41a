use super::*;
use crate::dut::Kind;

/// A machine whose cores support 800 to 3200 MHz and have the bounds 1000 and 3000 MHz.
fn machine(cores: usize, more: &[(&str, &str)]) -> std::io::Result<tempfile::TempDir> {
    let cpus = tempfile::tempdir()?;
    for n in 0..cores {
        let place = cpus.path().join(format!("cpu{n}/cpufreq"));
        fs::create_dir_all(&place)?;
        let usual = [(LEAST, "800000\n"), (MOST, "3200000\n"), (LOW, "1000000\n"), (HIGH, "3000000\n")];
        for (name, text) in usual.iter().chain(more) {
            fs::write(place.join(name), text)?;
        }
    }
    Ok(cpus)
}

fn bounds(cpus: &Path, n: usize) -> Result<Bounds, Failure> {
    Core::new(cpus, n).bounds()
}

#[test]
fn a_clock_is_set_and_restored() -> Result<(), Box<dyn std::error::Error>> {
    let machine = machine(3, &[])?;
    let cpus = machine.path();
    // Below, within and above the old bounds.
    for mhz in [800, 2000, 3200] {
        let clock = Clock::set(mhz, &[0, 2], cpus)?;
        for n in [0, 2] {
            assert_eq!(bounds(cpus, n)?, (khz(mhz), khz(mhz)));
        }
        assert_eq!(bounds(cpus, 1)?, (1_000_000, 3_000_000));
        assert!(clock.lines[1].starts_with("clock-mhz: core 2: "), "{:?}", clock.lines);
        drop(clock);
        for n in 0..3 {
            assert_eq!(bounds(cpus, n)?, (1_000_000, 3_000_000));
        }
    }
    Ok(())
}

#[test]
fn bounds_never_cross() -> Result<(), Box<dyn std::error::Error>> {
    let machine = machine(1, &[])?;
    let core = Core::new(machine.path(), 0);
    // Apply the settings one by one, as the kernel does.
    for (before, after) in
        [((10, 20), (30, 30)), ((10, 20), (5, 5)), ((30, 30), (10, 20)), ((5, 5), (10, 20))]
    {
        let (mut low, mut high) = before;
        for word in core.set(after)?.replace("800000", "1").split(" && ") {
            let khz: u64 = word.split(' ').nth(1).and_then(|n| n.parse().ok()).ok_or("a number")?;
            if word.contains(LOW) {
                low = khz
            } else {
                high = khz
            }
            assert!(low <= high, "{word}: {low} to {high}");
        }
        assert_eq!((low, high), after);
    }
    Ok(())
}

#[test]
fn late_changes_of_the_kernel_are_awaited() -> Result<(), Failure> {
    let asked = std::cell::Cell::new(0);
    let late = || {
        asked.set(asked.get() + 1);
        Ok(if asked.get() < 4 { (800_000, 3_200_000) } else { (1_199_000, 1_201_000) })
    };
    assert_eq!((settled(late, (1_200_000, 1_200_000))?, asked.get()), ((1_199_000, 1_201_000), 4));
    // Bounds that never change are returned after the timeout.
    assert_eq!(settled(|| Ok((800_000, 800_000)), (1_200_000, 1_200_000))?, (800_000, 800_000));
    Ok(())
}

#[test]
fn unsupported_clocks_are_refused() -> Result<(), Box<dyn std::error::Error>> {
    let said = |cpus: &Path, mhz, tester| Core::new(cpus, 0).check(mhz, tester).err().unwrap_or_default();
    let any = machine(1, &[("affected_cpus", "0 1\n")])?;
    assert_eq!(said(any.path(), 1234, 2), "");
    assert!(said(any.path(), 1234, 1).contains("core 0 shares its clock with the tester's core 1"));
    for mhz in [0, 799, 3201, u32::MAX] {
        assert_eq!(said(any.path(), mhz, 2), "core 0 supports 800 to 3200 MHz");
    }
    let some = machine(1, &[("scaling_available_frequencies", "3200000 2400000 800000 \n")])?;
    assert_eq!(said(some.path(), 2400, 2), "");
    assert_eq!(said(some.path(), 1600, 2), "core 0 supports only 3200, 2400, 800 MHz");
    let none = tempfile::tempdir()?;
    assert!(said(none.path(), 1600, 2).contains("cpu0/cpufreq: this machine does not support"));
    let odd = machine(1, &[(MOST, "fast\n")])?;
    assert!(said(odd.path(), 1600, 2).contains("cpuinfo_max_freq: \"fast\\n\" is not a number"));
    fs::remove_file(odd.path().join("cpu0/cpufreq").join(HIGH))?;
    assert!(said(odd.path(), 1600, 2).contains("scaling_max_freq: "));
    Ok(())
}

#[test]
fn a_fault_names_the_router() -> Result<(), Box<dyn std::error::Error>> {
    let none = tempfile::tempdir()?;
    let bed = testbed::Spec { cores: Some(vec![0]), ..testbed::Spec::default() };
    let spec: Spec = toml::from_str("kind = 'volley'\nname = 'slow'\nclock-mhz = 1200")?;
    let said = check(&[Kind::Linux.into(), spec], &bed, none.path()).err().unwrap_or_default();
    assert!(said.starts_with("router 2 (slow): clock-mhz = 1200: core 0 has no "), "{said}");
    assert_eq!(check(&[Kind::Linux.into()], &bed, none.path()), Ok(()));
    Ok(())
}

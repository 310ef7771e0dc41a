use std::fs;
use std::path::Path;

use super::*;

/// Output of `ethtool -l` for a port that uses two of its eight queues.
const CHANNELS: &str = "Channel parameters for eth1:\nPre-set maximums:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\t1\nCombined:\t8\n\
                        Current hardware settings:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\t1\nCombined:\t2\n";

/// A machine with four cores of two threads each. The last two cores are near its ports, which have at most eight queues.
struct Fake(tempfile::TempDir);

impl Fake {
    fn new() -> std::io::Result<Fake> {
        let fake = Fake(tempfile::tempdir()?);
        fake.write("sys/devices/system/cpu/online", "0-7\n")?;
        for core in 0..8 {
            let threads = format!("{},{}\n", core % 4, core % 4 + 4);
            fake.write(&format!("sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"), &threads)?;
        }
        let mut interrupts = "            CPU0       CPU1\n".to_owned();
        for (port, first) in [("eth1", 30), ("eth2", 50)] {
            fake.write(&format!("sys/class/net/{port}/device/local_cpulist"), "2-3,6-7\n")?;
            let names = [port.to_owned()].into_iter().chain((0..8).map(|n| format!("{port}-TxRx-{n}")));
            for (irq, name) in (first..).zip(names) {
                fake.write(&format!("sys/class/net/{port}/device/msi_irqs/{irq}"), "msix\n")?;
                fake.write(&format!("proc/irq/{irq}/smp_affinity_list"), "0-7\n")?;
                interrupts += &format!(
                    "  {irq}:    1234    0  IR-PCI-MSIX-0000:01:00.0    {}-edge   {name}\n",
                    irq - first
                );
            }
            fake.write(&format!("channels-{port}"), &CHANNELS.replace("eth1", port))?;
        }
        fake.write("proc/interrupts", &(interrupts + " NMI:   0    0   Non-maskable interrupts\n"))?;
        let ethtool = "case $1 in -l) cat $0-$2;; -L) sed -i \"\\$s/[0-9]*$/$4/\" $0-$2;; esac";
        for port in ["eth1", "eth2"] {
            fs::rename(fake.path(&format!("channels-{port}")), fake.path(&format!("ethtool-{port}")))?;
        }
        fake.program("ethtool", ethtool)?;
        fake.write("proc/76/comm", "irq/30-eth1\n")?;
        Ok(fake)
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> std::io::Result<()> {
        let path = self.path(name);
        path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text))
    }

    fn program(&self, name: &str, line: &str) -> std::io::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        self.write(name, &format!("#!/bin/sh\n{line}\n"))?;
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755))
    }

    /// Returns the state of all settings.
    fn state(&self) -> Vec<String> {
        let irqs = (30..39).chain(50..59).map(|irq| format!("proc/irq/{irq}/smp_affinity_list"));
        let all = irqs.chain(["ethtool-eth1", "ethtool-eth2"].map(str::to_owned));
        all.map(|name| fs::read_to_string(self.path(&name)).unwrap_or_default()).collect()
    }

    fn spread(&self, workers: usize) -> Result<(Shell, Vec<usize>), Failure> {
        let mut shell = Shell::beside(self.0.path())?;
        let root = Path::display(self.0.path()).to_string();
        spread(&mut shell, ["eth1", "eth2"], workers, &root).map(|cores| (shell, cores))
    }

    fn said(&self, workers: usize) -> String {
        self.spread(workers).map_or_else(|e| e.0, |(_, cores)| format!("{cores:?}"))
    }
}

#[test]
fn each_queue_gets_a_core_and_is_restored() -> Result<(), Box<dyn std::error::Error>> {
    let fake = Fake::new()?;
    let before = fake.state();
    for (workers, cores) in [(1, vec![2]), (3, vec![2, 3, 0]), (4, vec![2, 3, 0, 1])] {
        let (shell, of) = fake.spread(workers)?;
        assert_eq!(of, cores);
        let state = fake.state();
        for (port, channels) in [(0, &state[18]), (9, &state[19])] {
            // The interrupt of the whole port stays on all cores.
            assert_eq!(state[port], "0-7\n");
            for queue in 0..8 {
                assert_eq!(
                    state[port + 1 + queue].trim(),
                    cores[queue % workers].to_string(),
                    "{workers}, queue {queue}"
                );
            }
            assert!(channels.ends_with(&format!("Combined:\t{workers}\n")), "{channels}");
        }
        assert!(
            shell.lines.iter().any(|line| line.ends_with("ethtool -L eth1 combined 1")) == (workers == 1),
            "{:?}",
            shell.lines
        );
        drop(shell);
        assert_eq!(fake.state(), before, "{workers}");
    }
    // Ports that already have this number of queues stay unchanged.
    let (shell, _) = fake.spread(2)?;
    assert!(!shell.lines.iter().any(|line| line.contains("ethtool -L")), "{:?}", shell.lines);
    Ok(())
}

#[test]
fn failed_settings_are_reported_and_undone() -> Result<(), Box<dyn std::error::Error>> {
    let fake = Fake::new()?;
    let before = fake.state();
    assert_eq!(fake.said(5), "workers = 5: the machine has only 4 cores ([2, 3, 0, 1])");
    fake.write("proc/77/comm", "irqbalance\n")?;
    assert!(fake.said(2).contains("irqbalance runs on the router"), "{}", fake.said(2));
    fs::remove_dir_all(fake.path("proc/77"))?;
    // The kernel refuses to move some interrupts.
    let file = fake.path("proc/irq/51/smp_affinity_list");
    fs::remove_file(&file)?;
    fs::create_dir(&file)?;
    assert!(fake.said(2).contains("proc/irq/51/smp_affinity_list"), "{}", fake.said(2));
    fs::remove_dir(&file)?;
    fs::write(&file, "0-7\n")?;
    assert_eq!(fake.state(), before);
    fake.write("ethtool-eth2", "")?;
    assert!(fake.said(2).contains("eth2 does not report its number of queues"), "{}", fake.said(2));
    assert_eq!(fake.said(1), "[2]");
    fake.write("proc/interrupts", "30: 0 0 IR-PCI eth1-TxRx-0\n")?;
    assert!(fake.said(2).contains("eth1 has separate interrupts for 1 queues only"), "{}", fake.said(2));
    fs::remove_dir_all(fake.path("sys/class/net/eth1/device/msi_irqs"))?;
    assert!(fake.said(1).contains("eth1 has no MSI interrupts"), "{}", fake.said(1));
    Ok(())
}

#[test]
fn queue_numbers_are_parsed_from_interrupt_names() {
    for (name, of) in [
        ("eth1-TxRx-3", Some(3)),
        ("i40e-eth1-TxRx-12", Some(12)),
        ("mlx5_comp3@pci:0000:01:00.0", Some(3)),
        ("mlx4-5@0000:01:00.0", Some(5)),
        ("virtio1-input.0", Some(0)),
        ("virtio1-config", None),
        ("mlx5_async0@pci:0000:01:00.0", None),
        ("i40e-0000:01:00.0:misc", None),
        ("ena-mgmnt@pci:0000:00:05.0", None),
        ("eth1", None),
        ("", None),
    ] {
        assert_eq!(queue(name, "eth1"), of, "{name}");
    }
}

#[test]
fn combined_and_separate_channels_are_parsed() {
    let words = |said: &str| channels(said, 4);
    let both = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
    assert_eq!(words(CHANNELS), both("combined 2", "combined 4"));
    let apart = "Pre-set maximums:\nRX: 8\nTX: 8\nCombined: n/a\nCurrent hardware settings:\nRX:\t3\nTX:\t2\nOther:\tn/a\nCombined:\tn/a\n";
    assert_eq!(words(apart), both("rx 3 tx 2", "rx 4 tx 4"));
    assert_eq!((words(""), words("Current hardware settings:\nRX:\tn/a\n")), (None, None));
}

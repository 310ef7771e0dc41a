//! The lookup table of a VRF is large. This test is a separate process, so that the process's address space shows the size of a VRF.

use infra::lpm::LpmLookup;
use net::router::{Router, Sizes};

/// Returns the size of this process's address space in bytes.
fn address_space() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').next().unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn a_removed_vrf_frees_its_memory() {
    const MIB: usize = 1 << 20;
    /// Bytes of address space that the workers need for a VRF: an entry of four bytes for each /24 of IPv4 and each /32 of IPv6, and 2 GiB
    /// for nodes.
    const SEEN: usize = 64 * MIB + (4 << 32) + (2 << 30);
    let mut r = Router::build(|_, _, _| Ok(()), &Sizes { buffers: 64, workers: 1 }).unwrap().router;
    let mut participant = r.participant();
    let before = address_space();
    r.add_table(1).unwrap();
    assert!(address_space() > before + SEEN);
    {
        let section = participant.enter();
        let table = r.tables().ip4.fibs.get(section.guard()).get(1).unwrap();
        r.remove_table(1).unwrap();
        r.poll(0);
        assert!(address_space() > before + SEEN, "a worker still reads it");
        assert_ne!(table.lookup(0x7f00_0001), 0, "and finds the former entry");
    }
    r.poll(0);
    assert!(address_space() < before + 16 * MIB);
    for _ in 0..100 {
        r.add_table(1).unwrap();
        r.remove_table(1).unwrap();
        r.poll(0);
    }
    assert!(address_space() < before + 16 * MIB);
}

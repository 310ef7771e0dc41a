//! Commands as typed, on a real router with packet generators as devices.

use std::collections::BTreeSet;
use std::time::Instant;

use super::config_tests::run_until;
use crate::cli::Step;
use crate::testing::Cli;
use std::time::Duration;

#[test]
fn the_mtu_of_a_sub_interface_follows_its_device() {
    let mut cli = Cli::new();
    for line in ["create sub-interfaces pg0 1", "create sub-interfaces pg0 2", "set interface mtu 1400 pg0.1"]
    {
        cli.ok(line);
    }
    let mtus = |cli: &Cli| {
        ["pg0", "pg0.1", "pg0.2"].map(|n| cli.context.system.router.interface_named(n).unwrap().mtu)
    };
    cli.ok("set interface mtu 1300 pg0");
    assert_eq!(mtus(&cli), [1300, 1300, 1300]);
    // The output of show config can be run again.
    let config = cli.ok("show config");
    let mut again = Cli::new();
    config.lines().filter(|l| !l.contains("create packet-gen")).for_each(|l| drop(again.ok(l)));
    assert_eq!(mtus(&again), [1300, 1300, 1300]);
    assert_eq!(again.ok("show config"), config);
    for mut cli in [cli, again] {
        cli.ok("set interface mtu 1500 pg0");
        assert_eq!(mtus(&cli), [1500, 1400, 1500]);
        let told = cli.ok("set interface mtu 1600 pg0.1");
        assert_eq!(told, "the MTU of pg0.1 is limited to 1500 until the MTU of its device is raised\n");
        // A new interface of the same name inherits nothing.
        cli.ok("delete sub-interface pg0.1");
        cli.ok("create sub-interfaces pg0 1");
        cli.ok("set interface mtu 1700 pg0");
        assert_eq!(mtus(&cli), [1700, 1700, 1700]);
    }
}

#[test]
fn long_ranges_of_sub_interfaces_are_made_in_slices() {
    let mut cli = Cli::new();
    let before = cli.ok("show config");
    let mut job = run_until(&mut cli, "create sub-interfaces pg0 1-300", |_| true);
    let (mut names, mut counts) = (String::new(), BTreeSet::new());
    loop {
        match job.step(&mut cli.context, &mut names) {
            Step::Done => break,
            Step::Failed(e) => panic!("{e}"),
            _ => counts.insert(cli.context.system.router.interfaces().count()),
        };
    }
    assert!(counts.len() > 2, "{counts:?}");
    assert_eq!(
        names.lines().map(str::to_string).collect::<Vec<_>>(),
        (1..=300).map(|n| format!("pg0.{n}")).collect::<Vec<_>>()
    );
    for range in ["300-301", "300-400"] {
        let told = cli.refused(&format!("create sub-interfaces pg0 {range}"), range);
        assert!(told.contains("there is an interface pg0.300 already; no interface was made"), "{told}");
    }
    cli.ok("config rollback");
    assert_eq!(cli.ok("show config"), before);
}

#[test]
fn sub_interfaces_with_any_tag_only_receive() {
    let mut cli = Cli::new();
    let lines = [
        "create sub-interfaces pg0 400 default",
        "create sub-interfaces pg0 401 untagged",
        "create sub-interfaces pg0 402 dot1q any exact-match",
        "create sub-interfaces pg0 403 dot1ad any exact-match",
        "create sub-interfaces pg0 404 dot1q 5 inner-dot1q any exact-match",
        "create sub-interfaces pg0 405 dot1ad 5 inner-dot1q any exact-match",
    ];
    for line in lines {
        cli.ok(line);
        assert!(cli.ok("show config").contains(&format!("{line}\n")), "{line}");
        let again = line.replacen(" 40", " 50", 1);
        let word = ["default", "untagged", "any", "any", "5 ", "5 "][line.as_bytes()[28] as usize - 48];
        let at = if word == "5 " { "5" } else { word };
        let Err(error) = cli.run(&again) else { panic!("{again} was accepted") };
        let (said, name) = (error.to_string(), line.split(' ').nth(3).unwrap());
        assert!(said.contains(&format!("pg0.{name} already receives packets with these tags")), "{said}");
        assert!(error.render().contains(&"^".repeat(at.len())), "{}", error.render());
    }
    let json = cli.json("show interface pg0.404");
    assert_eq!(json[0]["takes"], "dot1q 5 inner-dot1q any");
    for name in ["pg0.400", "pg0.402", "pg0.404"] {
        for (line, place) in [
            ("set interface ip address NAME 10.7.0.1/24", "10.7.0.1/24"),
            ("enable ip6 interface NAME", "NAME"),
            ("set interface unnumbered NAME use pg0", "NAME"),
            ("set interface proxy-arp NAME enable", "NAME"),
            ("ip route add 10.8.0.0/16 via NAME", "NAME"),
        ] {
            let said = cli.refused(&line.replace("NAME", name), &place.replace("NAME", name));
            assert!(said.contains(&format!("{name} only receives")), "{said}");
        }
    }
    cli.ok("set interface ip address pg0.401 10.7.0.1/24");
    cli.ok("ip route add 10.8.0.0/16 via pg0.401");
}

#[test]
fn a_refused_change_marks_the_argument_at_fault() {
    let mut cli = Cli::new();
    cli.ok("create loopback interface instance 65535");
    for (line, place) in [
        ("create loopback interface instance 65536", "65536"),
        ("create loopback interface instance 65535", "65535"),
        ("create packet-generator interface pg65536", "pg65536"),
        ("create packet-generator interface pg00", "pg00"),
        ("create host-interface name no-such-one", "no-such-one"),
        ("create sub-interfaces pg0 4095", "4095"),
        ("create sub-interfaces pg0 5 dot1q 0", "0"),
        ("create sub-interfaces pg1 0 dot1q 5", "0"),
        ("create sub-interfaces pg0 5 dot1ad 7 inner-dot1q 4095", "4095"),
        ("create sub-interfaces loop65535 5", "loop65535"),
        ("create sub-interfaces loop65535 5 default", "loop65535"),
        ("create sub-interfaces pg0 5 dot1q 4095 inner-dot1q any", "4095"),
        ("set interface mtu 67 pg0", "67"),
        ("set interface mac address pg0 01:00:00:00:00:00", "01:00:00:00:00:00"),
        ("set interface ip table pg1 9", "9"),
        ("set interface ip address pg1 10.0.0.9/16", "10.0.0.9/16"),
        ("set interface ip address pg1 10.1.0.255/24", "10.1.0.255/24"),
        ("set interface ip address del pg0 10.0.0.7/24", "10.0.0.7/24"),
        ("set interface feature pg0 nonsense arc ip4-unicast", "nonsense"),
        ("set interface feature pg0 ip4-count arc nonsense", "nonsense"),
        ("set interface feature pg0 ip4-count arc nonsense disable", "nonsense"),
        ("set interface feature pg0 nonsense arc ip4-unicast disable", "nonsense"),
        ("set ip neighbor-config ip4 age 0", "0"),
        ("ip table del 0", "0"),
        ("ip table del 9", "9"),
        ("ip table add 4294967296", "4294967296"),
        ("ip table add 0 name blue", "blue"),
        ("ip table add 5 name 6", "6"),
        ("ip table add 5 name a,b", "a,b"),
        ("ip table del blue", "blue"),
        ("show ip fib table 9", "9"),
        ("show ip table 9", "9"),
        ("show adjacency 9", "9"),
        ("set ip neighbor pg0 10.0.0.1 02:00:00:00:00:01", "10.0.0.1"),
        ("set ip neighbor pg0 10.0.0.2 ff:ff:ff:ff:ff:ff", "ff:ff:ff:ff:ff:ff"),
        ("set ip neighbor pg0 10.0.0.255 02:00:00:00:00:01", "10.0.0.255"),
        ("ip route add 10.1.0.0/16 table 7 via 10.0.0.2", "7"),
        ("ip route add 10.1.0.0/16 via ip4-lookup-in-table 8", "8"),
        ("ip route del 10.1.0.0/16", "10.1.0.0/16"),
    ] {
        cli.refused(line, place);
    }
}

#[test]
fn neighbor_table_limits_are_shown() {
    let mut cli = Cli::new();
    cli.ok("set ip neighbor-config ip4 limit 77 age 33");
    let text = cli.ok("show ip neighbor-config");
    assert!(text.contains("limit 77,") && text.contains("age 33 s"), "{text}");
    assert!(cli.ok("show ip neighbor-config --json").contains("\"conflicts\": 0"));
    cli.ok("set ip neighbor pg0 10.0.0.2 02:00:00:00:00:01");
    for noun in ["neighbor", "neighbors"] {
        assert!(cli.ok(&format!("show ip {noun}")).contains("10.0.0.2"));
    }
}

#[test]
fn reassembly_limits_are_set_and_saved() {
    let mut cli = Cli::new();
    let defaults = cli.ok("show ip4-full-reassembly");
    assert!(defaults.contains("timeout 30 s") && defaults.contains("buffers 0 of 8"), "{defaults}");
    cli.ok("set ip4-full-reassembly timeout 15 max-buffers 10");
    cli.ok("set ip4-full-reassembly max-reassembly-length 7");
    let config = cli.ok("show config");
    assert!(
        config.contains("set ip4-full-reassembly timeout 15 max-reassembly-length 7 max-buffers 10\n"),
        "{config}"
    );
    let text = cli.ok("show ip4-full-reassembly details");
    assert!(
        text.contains("fragments 0 (7 of one datagram at most), buffers 0 of 10\ntimeout 15 s"),
        "{text}"
    );
    assert!(cli.ok("show ip6-full-reassembly").contains("timeout 60 s"));
    cli.ok("set ip6-full-reassembly timeout 9 max-reassemblies 5");
    assert!(cli.ok("show config").contains("set ip6-full-reassembly timeout 9 max-reassemblies 5\n"));
    assert_eq!(cli.json("show ip6-full-reassembly details")["max_datagrams"], 5);
    cli.ok("set ip6-full-reassembly default");
    assert!(!cli.ok("show config").contains("ip6-full-reassembly"));
    assert!(cli.ok("show ip4-full-reassembly").contains("timeout 15 s"));
    for (line, place) in [
        ("set ip4-full-reassembly timeout 0", "0"),
        ("set ip4-full-reassembly timeout 601", "601"),
        ("set ip4-full-reassembly timeout 20 max-reassemblies 99999999", "99999999"),
        ("set ip6-full-reassembly max-reassembly-length 257 timeout 9", "257"),
        ("set ip6-full-reassembly max-buffers 11", "11"),
    ] {
        let message = cli.refused(line, place);
        // Refused by the range in the grammar, or by the limit of this router.
        assert!(message.contains(": 1 to ") || message.contains("from 1 to "), "{message}");
    }
}

#[test]
fn an_interface_is_deleted_by_the_command_of_its_kind() {
    let mut cli = Cli::new();
    cli.ok("create loopback interface");
    let before = cli.ok("show config");
    for line in ["delete tap", "delete loopback interface intfc", "delete sub-interface"] {
        assert!(cli.refused(&format!("{line} pg0"), "pg0").contains("of another kind"));
    }
    assert!(cli.refused("delete packet-generator interface loop0", "loop0").contains("of another kind"));
    assert_eq!(cli.ok("show config"), before);
    cli.ok("delete loopback interface intfc loop0");
}

#[test]
fn features_and_neighbor_limits_are_configuration() {
    let mut cli = Cli::new();
    let feature = "set interface feature pg0 ip4-count arc ip4-unicast";
    cli.ok(feature);
    cli.ok(feature);
    cli.ok("set ip neighbor-config ip4 limit 9");
    cli.ok("set ip neighbor-config ip4 age 30");
    let config = cli.ok("show config");
    assert!(
        config.contains(feature) && config.contains("set ip neighbor-config ip4 limit 9 age 30\n"),
        "{config}"
    );
    assert!(cli.ok("show interface features pg0").contains("ip4-unicast:\n  ip4-count\n"));
    cli.ok(&format!("{feature} disable"));
    cli.ok(&format!("{feature} disable"));
    assert!(!cli.ok("show config").contains("feature"));
    // The feature is removed with its interface. A new interface with the same name does not have it.
    cli.ok(feature);
    cli.ok("delete packet-generator interface pg0");
    assert!(!cli.ok("show config").contains("feature"));
    cli.ok("create packet-generator interface pg0");
    assert!(cli.ok("show interface features pg0").contains("ip4-unicast:\n  none configured"));
    for n in 1..=9 {
        cli.ok(&format!("ip neighbor pg1 10.0.0.{n} 02:00:00:00:00:01"));
    }
    cli.refused("set ip neighbor pg1 10.0.0.10 02:00:00:00:00:01", "10.0.0.10");
    let told = cli.refused("set ip neighbor-config ip4 limit 8", "8");
    assert!(told.contains("9 static IPv4 neighbors"), "{told}");
    assert!(cli.run("set ip neighbor-config ip4").is_err());
    let own = Cli::new().ok("show ip neighbor-config");
    for _ in 0..2 {
        cli.ok("set ip neighbor-config ip4 default");
        assert!(!cli.ok("show config").contains("neighbor-config"));
        assert_eq!(cli.ok("show ip neighbor-config").lines().nth(1), own.lines().nth(1));
    }
}

#[test]
fn a_vrf_is_added_removed_and_added_again() {
    let mut cli = Cli::new();
    cli.ok("ip table add 0");
    assert_eq!(cli.ok("show ip table"), "[0] table_id:0 ipv4-VRF:0\n");
    for _ in 0..2 {
        cli.ok("ip table add 5");
        cli.ok("set interface ip table pg1 5");
        cli.ok("ip route add 10.9.0.0/16 table 5 via drop");
        assert_eq!(cli.ok("show ip table"), "[0] table_id:0 ipv4-VRF:0\n[5] table_id:5 ipv4-VRF:5\n");
        let one = cli.ok("show ip table 5");
        assert!(one.contains("  routes: 6, ") && one.contains("  interfaces: pg1\n"), "{one}");
        assert!(cli.refused("ip table del 5", "5").contains("interface pg1 needs it"));
        cli.ok("set interface ip table pg1 0");
        assert!(cli.refused("ip table del 5", "5").contains("route 10.9.0.0/16 in table 5 needs it"));
        cli.ok("ip route del 10.9.0.0/16 table 5");
        cli.ok("ip route add 10.8.0.0/16 via ip4-lookup-in-table 5");
        assert!(cli.refused("ip table del 5", "5").contains("route 10.8.0.0/16 in table 0 needs it"));
        cli.ok("ip route del 10.8.0.0/16");
        cli.ok("ip table del 5");
        assert!(!cli.ok("show config").contains("table"));
    }
}

#[test]
fn addresses_keep_their_order() {
    let mut cli = Cli::new();
    cli.ok("set interface ip address pg0 10.0.9.1/24");
    cli.ok("set interface ip address pg0 10.0.5.1/24");
    cli.ok("set interface ip address del pg0 10.0.0.1/24");
    let config = cli.ok("show config");
    let at = |text: &str| config.find(text).unwrap();
    assert!(at("pg0 10.0.9.1/24") < at("pg0 10.0.5.1/24"), "{config}");
    cli.ok("set interface ip address del pg0 all");
    cli.ok("set interface ip address del pg0 all");
    assert!(!cli.ok("show config").contains("ip address"));
}

#[test]
fn queues_and_adjacencies_are_shown() {
    let mut cli = Cli::new();
    let text = cli.ok("show interface rx-placement");
    assert_eq!(
        text,
        "Thread 1 (volley_wk_0):\n  node pg-input:\n    pg0 queue 0 (adaptive)\n    pg1 queue 0 (adaptive)\n"
    );
    assert!(cli.ok("show interface rx-placement pg1 --json").contains("\"interface\": \"pg1\""));
    cli.ok("ip route add 10.1.0.0/16 via 10.0.0.2");
    cli.ok("ip route add 10.2.0.0/16 via 10.0.0.3");
    assert!(cli.ok("show adj").contains("10.0.0.2") && cli.ok("show adjacency 1").contains("10.0.0.3"));
    assert!(!cli.ok("show adjacency 1").contains("10.0.0.2"));
    assert_eq!(cli.ok("show node counters"), cli.ok("show errors"));
    cli.ok("ip neighbor flush pg0");
}

#[test]
fn show_runtime_max_shows_the_slowest_calls() {
    let mut cli = Cli::new();
    assert!(cli.ok("show runtime").contains("Suspends"));
    let max = cli.ok("show runtime max");
    assert!(max.contains("Max Node Clocks") && !max.contains("Suspends"), "{max}");
}

#[test]
fn show_hardware_refuses_sub_interfaces() {
    let mut cli = Cli::new();
    cli.ok("create sub-interfaces pg0 7");
    assert!(cli.refused("show hardware-interfaces pg0.7", "pg0.7").contains("that of pg0"));
    assert!(!cli.ok("show hardware-interfaces").contains("pg0.7"));
}

#[test]
fn a_missing_namespace_is_marked() {
    let mut cli = Cli::new();
    let message = cli.refused("create tap host-ns no-such-place id 3", "no-such-place");
    assert!(message.contains("no such network namespace"), "{message}");
}

#[test]
fn pcap_interfaces_are_created_and_shown() {
    let mut cli = Cli::new();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    // An empty capture of Ethernet.
    let header: [u32; 6] = [0xa1b2_3c4d, 0x0004_0002, 0, 0, 65535, 1];
    std::fs::write(path("x y"), header.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>()).unwrap();
    let (x, y) = (path("x y"), path("z"));
    for line in [
        format!("create pcap interface pcap0 rx \"{x}\""),
        format!("create pcap interface pcap0 rx \"{x}\" rate 1000 loop forever tx {y} max 7"),
        format!("create pcap interface pcap0 rx \"{x}\" full-speed loop 3"),
        format!("create pcap interface pcap0 tx {y} max 100000"),
    ] {
        assert_eq!(cli.ok(&line), "pcap0\n");
        cli.ok("set interface state pcap0 up");
        let config = cli.ok("show config");
        assert!(config.contains(&format!("{line} index 3\n")), "{line}\n{config}");
        cli.ok("delete pcap interface pcap0");
    }
    // A recorded file is complete when the device is removed.
    assert_eq!(std::fs::metadata(path("z")).unwrap().len(), 24);
    cli.refused("create pcap interface pg7", "pg7");
    cli.refused("create pcap interface pcap07", "pcap07");
    cli.refused("create pcap interface pcap0", "pcap0");
    cli.refused("create pcap interface pcap0 rx /no/such/file", "/no/such/file");
    cli.refused("create pcap interface pcap0 tx /no/such/file", "/no/such/file");
    cli.refused(&format!("create pcap interface pcap0 tx {y} rate 5"), "rate");
    cli.refused("create pcap interface pcap0 rx /a rate 0", "0");
    cli.refused("create pcap interface pcap0 rx /a loop 0", "0");
    cli.refused("create pcap interface pcap0 rx /a max 5", "max");
    cli.refused("delete pcap interface pg0", "pg0");
}

#[test]
fn memif_sockets_and_interfaces_are_created_and_deleted() {
    let mut cli = Cli::new();
    assert_eq!(cli.refused("create memif socket id 0 filename x.sock", "0"), "memif socket 0 always exists");
    cli.ok("create memif socket id 7 filename @volley-test-7");
    assert!(
        cli.refused("create memif socket id 8 filename @volley-test-7", "@volley-test-7")
            .contains("socket 7")
    );
    assert_eq!(cli.refused("create interface memif id 3 socket-id 8 slave", "8"), "no such memif socket: 8");
    for (line, place) in [("ring-size 1000", "1000"), ("buffer-size 100", "100"), ("rx-queues 99", "99")] {
        cli.refused(&format!("create interface memif id 3 socket-id 7 {line}"), place);
    }
    cli.refused("create interface memif secret 1234567890123456789012345", "1234567890123456789012345");
    let large = "create interface memif id 3 socket-id 7 slave trusted ring-size 16384 rx-queues 16";
    assert!(cli.refused(large, "7").contains("would hold 278528 of the router's 64 buffers, more than 48"));
    // The limit is for the buffers that all interfaces together would hold.
    for id in [4, 5] {
        cli.ok(&format!("create interface memif id {id} socket-id 7 slave trusted ring-size 8"));
    }
    let third = "create interface memif id 6 socket-id 7 slave trusted ring-size 16";
    assert!(cli.refused(third, "7").contains("would hold 64 of"));
    for id in [4, 5] {
        cli.ok(&format!("delete interface memif memif7/{id}"));
    }
    let line =
        "create interface memif socket-id 7 id 3 slave secret sesame hw-addr 02:00:00:00:00:33 ring-size 64";
    assert_eq!(cli.ok(line), "memif7/3\n");
    cli.ok("set interface state memif7/3 up");
    assert!(cli.refused("create interface memif id 3 socket-id 7", "7").contains("already"));
    assert!(cli.refused("delete memif socket id 7", "7").contains("interface memif7/3 needs it"));
    let watched = cli.context.system.router.take_watched();
    // After a turn of the main thread, a thread tries to connect to the server, and finds none.
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        watched.iter().for_each(|(_, stirred)| stirred(&mut cli.context.system.router, 1));
        let shown = cli.ok("show memif memif7/3");
        if shown.contains("flags admin-up secret\n  not connected: no server listens on @volley-test-7") {
            break;
        }
        assert!(Instant::now() < end, "{shown}");
    }
    assert!(cli.json("show memif")["interfaces"][0]["has_secret"] == true);
    for show in ["show memif", "show memif --json", "show hardware-interfaces memif7/3"] {
        assert!(!cli.ok(show).contains("sesame"), "{show}");
    }
    let config = cli.ok("show config");
    assert!(
        config.contains("create interface memif id 3 socket-id 7 slave ring-size 64 secret sesame index 3\n"),
        "{config}"
    );
    assert!(cli.refused("show memif pg0", "pg0").contains("not a memif interface"));
    cli.refused("delete tap memif7/3", "memif7/3");
    cli.ok("delete interface memif memif7/3");
    cli.ok("delete memif socket id 7");
    assert_eq!(cli.refused("delete memif socket id 7", "7"), "no memif socket with this ID was created");
}

/// The first command sees rates over the time since the start.
#[test]
fn rates_name_their_averaging_time_from_the_start() {
    let mut cli = Cli::new();
    std::thread::sleep(Duration::from_millis(100));
    let tx = |cli: &Cli| cli.context.system.router.tables().counters.tx.lane(5).unwrap();
    let index = cli.context.system.router.interface_named("pg1").unwrap().index;
    tx(&cli).add(index, [1000, 64_000]);
    let shown = cli.json("show interface rates pg1");
    let (window, rate) = (&shown[0]["window_seconds"], &shown[0]["tx_packets_per_second"]);
    let (window, rate) = (window.as_f64().unwrap(), rate.as_f64().unwrap());
    assert!(window >= 0.1 && (999.0..1001.0).contains(&(window * rate)), "{shown}");
    let text = cli.ok("show interface rates");
    let footer = text.lines().last().unwrap();
    let said: f64 = footer.split(' ').nth(3).unwrap().parse().unwrap();
    assert!((window - 0.1..window + 10.0).contains(&said), "{text}");
    assert_eq!(footer, format!("over the last {said:.1} s; bits include link headers"));
}

#[test]
fn a_description_is_set_and_removed() {
    let mut cli = Cli::new();
    let before = cli.ok("show config");
    cli.ok("set interface description pg0 uplink");
    assert!(cli.ok("show config").contains("set interface description pg0 uplink\n"));
    assert!(cli.ok("show config yaml").contains("    description: \"uplink\"\n"));
    let told =
        cli.run(&format!("set interface description pg0 {}", "x".repeat(256))).unwrap_err().to_string();
    assert!(told.contains("at most 255 characters"), "{told}");
    cli.refused("set interface description pg0 \"\"", "\"\"");
    cli.ok("config rollback");
    assert_eq!(cli.ok("show config"), before);
    cli.ok("set interface description pg0 uplink");
    // Words with a special meaning at the end of a command have none in a description.
    for text in ["?", "--json", "-j", "what?"] {
        let line = format!("set interface description pg0 \"{text}\"");
        cli.ok(&line);
        let config = cli.ok("show config");
        let shown = config.lines().find(|l| l.starts_with("set interface description")).unwrap();
        cli.ok("set interface description del pg0");
        cli.ok(shown);
        assert_eq!(cli.ok("show config"), config, "{text}");
    }
    cli.ok("set interface description del pg0");
    assert_eq!(cli.ok("show config"), before);
}

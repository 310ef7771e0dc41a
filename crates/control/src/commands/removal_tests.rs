//! Removal of an interface with its dependents, at once or as a job.

use std::net::Ipv4Addr;

use crate::cli::{Call, Step};
use crate::testing::Cli;

#[test]
fn an_interface_with_many_routes_is_removed_in_slices_or_not_at_all() {
    let mut cli = Cli::new();
    cli.ok("create sub-interfaces pg1 5");
    cli.ok("set interface ip address pg1.5 10.5.0.1/24");
    cli.ok("ip route add 20.0.0.0/24 via 10.5.0.2 pg1.5 count 20000");
    cli.ok("ip route add 30.0.0.0/24 via 10.0.0.2 count 3000");
    let before = cli.ok("show config");
    let delete = "delete packet-generator interface pg1";
    // While the job runs, other changes are refused. If its client disconnects, the removal is rolled back.
    let mut job = cli.registry.run(&mut cli.context, delete, Call::default()).unwrap().job.unwrap();
    let routes = |cli: &Cli| cli.context.system.router.routes::<Ipv4Addr>().count(0);
    let all = routes(&cli);
    while routes(&cli) == all {
        assert!(matches!(job.step(&mut cli.context, &mut String::new()), Step::Again | Step::After(_)));
    }
    let busy = cli.run("create loopback interface").unwrap_err();
    assert!(busy.to_string().starts_with("a removal is running ("), "{busy}");
    drop(job);
    cli.look_at_confirmation();
    assert!(cli.ok("show config") == before && routes(&cli) == all);
    assert!(cli.context.system.router.interface_named("pg1.5").is_some_and(|i| !i.addresses.is_empty()));

    cli.ok(delete);
    let after = cli.ok("show config");
    assert!(!after.contains("pg1") && !after.contains("20.0.0.0"));
    assert_eq!(after.matches("ip route add 30.").count(), 3000);
    cli.ok("config rollback");
    assert!(cli.ok("show config") == before && routes(&cli) == all);
    // If no route names the interface, it is removed at once, whatever the number of routes.
    let answer = cli.registry.run(&mut cli.context, "delete packet-generator interface pg0", Call::default());
    assert!(answer.unwrap().job.is_none());
    assert!(!cli.ok("show config").contains("pg0"));
}

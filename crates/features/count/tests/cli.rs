//! Tests of switching the feature on, and of saving this.

use control::testing::Cli;
use count::{Count, Feature};

#[test]
fn the_feature_is_enabled_by_command_saved_and_counts_from_zero() {
    let mut cli = Cli::with(&[&Feature]);
    let line = "set interface feature pg0 ip4-count arc ip4-unicast";
    cli.ok(line);
    assert!(cli.ok("show config").contains(line));
    assert!(cli.ok("show config yaml").contains("features:\n      ip4-unicast: [ ip4-count ]\n"));
    assert!(cli.ok("show interface features pg0").contains("ip4-unicast:\n  ip4-count\n"));
    let counts = cli.context.system.router.attached::<Count>().unwrap().counts.clone();
    let mut lane = counts.lane(0).unwrap();
    lane.add(1, [2, 99]);
    assert_eq!(counts.read(1), [2, 99]);
    let row = serde_json::json!([{ "interface": "pg0", "packets": 2, "bytes": 99 }]);
    assert_eq!(cli.json("show ip4-count"), row);
    assert!(cli.ok("show ip4-count").lines().nth(1).is_some_and(|line| line.starts_with("pg0")));
    cli.ok("clear interfaces");
    assert_eq!((counts.read(1), cli.json("show ip4-count")), ([0, 0], serde_json::json!([])));
    cli.ok(&format!("{line} disable"));
    assert!(cli.ok("show interface features pg0").contains("ip4-unicast:\n  none"));
}

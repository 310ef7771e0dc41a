//! `docs/reference/vpp-commands.md` says which of VPP's commands there are: each is read here.

use control::testing::Cli;

/// What stands between backquotes in a cell.
fn quoted(cell: &str) -> Option<&str> {
    cell.trim().strip_prefix('`')?.strip_suffix('`')
}

#[test]
fn the_commands_in_the_table_are_commands() {
    let table = include_str!("../../../docs/reference/vpp-commands.md");
    let (commands, _) = table.split_once("## The session").unwrap();
    let misread = ["does not fit here", "there is no command", "the command ends here", "is not complete"];
    let (mut read, mut faults) = (0, String::new());
    for line in commands.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = line.split(" | ").map(|cell| cell.trim_matches('|'));
        let (vpp, here) = (cells.next().and_then(quoted).unwrap(), cells.next().and_then(quoted));
        // Whether it can be done depends on what is there; here it is about the words.
        let command = here.unwrap_or(vpp).replace("host-eth1", "pg0");
        if let Err(error) = Cli::with(volley::features::ALL).run(&command) {
            let said = error.render();
            if misread.iter().any(|why| said.contains(why)) {
                faults += &said;
            }
        }
        read += 1;
    }
    assert!(faults.is_empty(), "{faults}");
    assert!(read > 60, "{read} rows");
}

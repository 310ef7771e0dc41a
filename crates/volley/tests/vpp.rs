//! Every command that `docs/reference/vpp-commands.md` lists as supported can be parsed.

use control::testing::Cli;

/// Returns the text between backquotes in a cell.
fn quoted(cell: &str) -> Option<&str> {
    cell.trim().strip_prefix('`')?.strip_suffix('`')
}

#[test]
fn commands_in_the_table_can_be_parsed() {
    let table = include_str!("../../../docs/reference/vpp-commands.md");
    let (commands, _) = table.split_once("## The session").unwrap();
    let misread = ["unexpected '", "there is no command", "the command ends here", "is not complete"];
    let (mut read, mut faults) = (0, String::new());
    for line in commands.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = line.split(" | ").map(|cell| cell.trim_matches('|'));
        let (vpp, here) = (cells.next().and_then(quoted).unwrap(), cells.next().and_then(quoted));
        // The command may fail for other reasons: only its words are checked.
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

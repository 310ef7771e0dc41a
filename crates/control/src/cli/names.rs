//! Names of the users whose clients connect to a UNIX socket.
//!
//! The kernel reports the user ID of a client (`SO_PEERCRED`, unix(7)). The user's name is needed only later, for display, so a separate
//! thread looks it up. The thread reads `/etc/passwd` and asks no directory service, which may be reachable only through this router.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use drivers::Patience;
use model::origin::Peer;

use crate::files;

/// Maximum number of users whose names are remembered.
const MOST: usize = 256;
/// The file with the names.
const FILE: &str = "/etc/passwd";

/// The users seen so far, with their names.
#[derive(Default)]
pub(super) struct Names(BTreeMap<u32, Arc<OnceLock<Option<String>>>>);

impl Names {
    /// Returns the user with the ID `user`. Starts a lookup of the user's name, unless the name is known or is being looked up. If no name
    /// was found before, looks it up again.
    pub(super) fn peer(&mut self, user: u32) -> Peer {
        if let Some(name) = self.0.get(&user).filter(|name| !matches!(name.get(), Some(None))) {
            return Peer::User(user, Arc::clone(name));
        }
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let name: Arc<OnceLock<Option<String>>> = Arc::default();
        self.0.insert(user, Arc::clone(&name));
        let found = Arc::clone(&name);
        let look = move || {
            let names = files::read(Path::new(FILE), &Patience::without_end()).unwrap_or_default();
            // The name is set only here.
            let _ = found.set(name_in(&names, user).map(str::to_string));
        };
        if std::thread::Builder::new().name("volley_names".into()).spawn(look).is_err() {
            // No thread can look the name up: only the user's number will be shown.
            let _ = name.set(None);
        }
        Peer::User(user, name)
    }
}

/// Returns the name of a user, from a file in the format of passwd(5).
fn name_in(file: &str, user: u32) -> Option<&str> {
    file.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(user) && !name.is_empty()).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn name_in_reads_the_passwd_format() {
        let file = "# who\nroot:x:0:0:root:/root:/bin/sh\nbroken\n:x:7::\n+::::\nann:x:1000:7:Ann,,,:/home/ann:/bin/sh\n";
        assert_eq!([0, 1000, 7, 1].map(|user| name_in(file, user)), [Some("root"), Some("ann"), None, None]);
    }

    #[test]
    fn name_is_looked_up_once() {
        let mut names = Names::default();
        let (peer, begun) = (names.peer(0), Instant::now());
        while peer.name() != Some("root") {
            assert!(begun.elapsed() < Duration::from_secs(10), "{peer}");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(names.peer(0).to_string(), "root");
        // Clients that arrive during a lookup share it.
        let pending: Arc<OnceLock<Option<String>>> = Arc::default();
        names.0.insert(7, Arc::clone(&pending));
        let Peer::User(7, shared) = names.peer(7) else { panic!("another user") };
        assert!(Arc::ptr_eq(&shared, &pending));
        assert_eq!(names.peer(4_000_000_000).to_string(), "uid 4000000000");
    }
}

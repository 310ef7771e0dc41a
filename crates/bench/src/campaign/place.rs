//! Finds the line of a fault in a campaign's file.

use std::path::Path;

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

use super::Fault;

/// The text of a campaign or machine file. Adds the file's name and a line number to the faults found in the text.
#[derive(Clone, Debug)]
pub(super) struct File {
    /// File name; empty for a text without a file.
    name: String,
    text: String,
}

impl File {
    /// Returns a file with this name and text. Reads nothing from the disk.
    pub fn new(name: &str, text: &str) -> File {
        File { name: name.into(), text: text.into() }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn read(path: &Path) -> Result<File, Fault> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|e| Fault(format!("{name}: {e}")))?;
        Ok(File { name, text })
    }

    /// Parses the text as TOML.
    ///
    /// # Errors
    /// Returns the first syntax or type error, with its line.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        toml::from_str(&self.text).map_err(|e| self.at(e.span().map(|span| span.start), e.message()))
    }

    /// Adds the file's name to a fault, and the line of the key that the fault names. A fault's text begins with the keys that lead
    /// to the wrong value, outermost first, each followed by a colon. The key of an array is followed by the number of the element,
    /// as in "test 2 (rfc2544): sizes 3: ...". If the file has no such key, only the file's name is added.
    pub fn named(&self, fault: &Fault) -> Fault {
        self.at(offset(&self.text, &fault.0), &fault.0)
    }

    fn at(&self, offset: Option<usize>, why: &str) -> Fault {
        let line = offset.and_then(|at| self.text.get(..at)).map(|before| 1 + before.matches('\n').count());
        let line = line.map(|n| format!("line {n}"));
        let place: Vec<_> =
            [Some(self.name.clone()), line].into_iter().flatten().filter(|word| !word.is_empty()).collect();
        let place = if place.is_empty() { String::new() } else { place.join(", ") + ": " };
        Fault(format!("{place}{why}"))
    }
}

/// Returns the offset in `text` of the innermost key that the fault names; `None` if the text has none of these keys.
fn offset(text: &str, fault: &str) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let (mut table, mut found) = (document.get_ref(), None);
    for part in fault.split(": ") {
        let mut words = part.split(' ');
        let name = match words.next() {
            Some("router") => "duts",
            other => other?,
        };
        let Some((key, mut value)) = table.get_key_value(name) else { break };
        found = Some(key.span().start);
        if let (DeValue::Array(all), Some(n)) =
            (value.get_ref(), words.next().and_then(|n| n.parse::<usize>().ok()))
        {
            value = all.get(n.checked_sub(1)?)?;
            found = Some(value.span().start);
        }
        let DeValue::Table(inner) = value.get_ref() else { break };
        table = inner;
    }
    // Drop an offset that does not belong to the text.
    found.filter(|at| text.is_char_boundary(*at))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "name = 'ä'\nduts = ['linux',\n\n { kind = 'linux',\n mode = 'tuned' }]\nsoak = { share = 1,\n  each = 2 }\n\n[[test]]\n\
                        traffic = 'a'\nsizes = [64,\n 63]\n[[test]]\ntraffic = 'b'\nroutes = 1\n[testbed]\nports = [\n'a',\n'b']\n";

    #[test]
    fn faults_have_the_line_of_the_key_that_they_name() {
        for (fault, line) in [
            ("name: none", "line 1: "),
            ("duts: none", "line 2: "),
            ("router 1 (linux): mode: none", "line 2: "),
            ("router 2 (linux): host: none", "line 4: "),
            ("router 2 (linux): mode: none", "line 5: "),
            ("soak: it is too long", "line 6: "),
            ("soak: each has 0.01 seconds at least", "line 7: "),
            ("test 1 (a): routes: 5 at most", "line 9: "),
            ("test 1 (a): sizes: none", "line 11: "),
            ("test 1 (a): sizes 2: none", "line 12: "),
            ("test 2 (b): it has no size", "line 13: "),
            ("test 2 (b): routes: 5 at most", "line 15: "),
            ("testbed: kind: this one is not there", "line 16: "),
            ("testbed: ports: b: none", "line 17: "),
            ("testbed: ports 2: b: none", "line 19: "),
            ("test 3 (c): routes", ""),
            ("test 0 (c): routes", ""),
            ("goal: none", ""),
            ("", ""),
        ] {
            let said = |name: &str| File::new(name, TEXT).named(&Fault(fault.into())).0;
            assert_eq!(said(""), format!("{line}{fault}"));
            let line = line.strip_suffix(": ").map_or_else(String::new, |line| format!(", {line}"));
            assert_eq!(said("lab.toml"), format!("lab.toml{line}: {fault}"));
        }
    }

    #[test]
    fn parse_errors_have_their_line_too() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct One {
            #[serde(rename = "n")]
            _n: u8,
        }
        for (text, why) in [
            ("\nm = 1", "a.toml, line 2: unknown field `m`"),
            ("\n\nn = 'x'", "a.toml, line 3: invalid type: "),
            ("n = 1\nn = 2", "a.toml, line 2: duplicate key"),
            ("n = ", "a.toml, line 1: "),
            ("", "a.toml, line 1: missing field `n`"),
        ] {
            let said =
                File::new("a.toml", text).parse::<One>().map_or_else(|e| e.0, |one| format!("{one:?}"));
            assert!(said.starts_with(why) && !said.contains('\n'), "{said}\nand not: {why}");
        }
        let gone = File::read(Path::new("/nowhere/a.toml")).map_or_else(|e| e.0, |_| String::new());
        assert!(gone.starts_with("/nowhere/a.toml: "), "{gone}");
    }

    proptest! {
        #[test]
        fn any_text_and_fault_are_handled(text in any::<String>(), fault in "((test|soak|name|router)( [0-9]{1,3})?(: )?){0,4}") {
            let whole = format!("{TEXT}# {}\n", text.replace(['\n', '\r'], ""));
            for text in [&text, &whole] {
                prop_assert!(File::new("", text).named(&Fault(fault.clone())).0.ends_with(&fault));
                let _ = File::new("", text).parse::<toml::Table>();
            }
        }
    }
}

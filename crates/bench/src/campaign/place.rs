//! Where in its file a campaign is at fault.

use toml::de::{DeTable, DeValue};

use super::Fault;

/// A fault with the line of what it names: keys, outermost first, each with a colon behind it, and a number where there are several of a
/// kind, as in "test 2 (rfc2544): routes: ...". One that names nothing of the file is left as it is.
pub(super) fn named(text: &str, fault: Fault) -> Fault {
    match offset(text, &fault.0) {
        Some(at) => Fault(format!("line {}: {fault}", 1 + text[..at].matches('\n').count())),
        None => fault,
    }
}

/// Where the innermost key is that is named.
fn offset(text: &str, fault: &str) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let (mut table, mut found) = (document.get_ref(), None);
    for part in fault.split(": ") {
        let mut words = part.split(' ');
        let name = match words.next() {
            // Faults of routers have their names.
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
    // What is in the text only.
    found.filter(|at| text.is_char_boundary(*at))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "name = 'ä'\nduts = ['linux']\nsoak = { share = 1,\n  each = 2 }\n\n[[test]]\ntraffic = 'a'\n[[test]]\ntraffic = 'b'\nroutes = 1\n\
                        [testbed]\nkind = 'veth'\n";

    #[test]
    fn faults_have_the_line_of_what_they_name() {
        for (fault, line) in [
            ("name: none", "line 1: "),
            ("router \"linux\" (linux): mode: none", "line 2: "),
            ("soak: it is too long", "line 3: "),
            ("soak: each has 0.01 seconds at least", "line 4: "),
            ("test 1 (a): routes: 5 at most", "line 6: "),
            ("test 2 (b): it has no size", "line 8: "),
            ("test 2 (b): routes: 5 at most", "line 10: "),
            ("testbed: kind: this one is not there", "line 12: "),
            ("test 3 (c): routes", ""),
            ("test 0 (c): routes", ""),
            ("goal: none", ""),
            ("", ""),
        ] {
            assert_eq!(named(TEXT, Fault(fault.into())), Fault(format!("{line}{fault}")));
        }
    }

    proptest! {
        #[test]
        fn no_text_and_no_fault_is_too_odd(text in any::<String>(), fault in "((test|soak|name)( [0-9]{1,3})?(: )?){0,4}") {
            let whole = format!("{TEXT}# {}\n", text.replace(['\n', '\r'], ""));
            for text in [&text, &whole] {
                prop_assert!(named(text, Fault(fault.clone())).0.ends_with(&fault));
            }
        }
    }
}

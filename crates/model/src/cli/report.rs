//! A report: the answers of several commands as one answer.

use super::output::{Answer, Job, Step};
use super::registry::{Call, Registry, Values};
use super::role::Role;
use std::rc::Rc;
use std::vec;

/// Commands that run one after the other, each in its own slices. The output of each is under a heading. As
/// JSON, the report is one object, whose names are the commands. If a command fails, its error is shown, and
/// the next command runs.
pub(super) struct Report<C> {
    registry: Rc<Registry<C>>,
    commands: vec::IntoIter<String>,
    call: Call,
    /// The running command; `None` between two commands.
    job: Option<Box<dyn Job<C>>>,
    /// True if a command has already been started.
    begun: bool,
    /// True if the running command has printed something.
    said: bool,
}

impl<C: Values + 'static> Report<C> {
    /// Returns a report of `commands`. They run in the role of a viewer, whatever the role in `call`: other commands fail.
    pub(super) fn new(registry: Rc<Registry<C>>, commands: Vec<String>, call: &Call) -> Report<C> {
        let call = Call { role: Role::Viewer, ..call.clone() };
        Report { registry, commands: commands.into_iter(), call, job: None, begun: false, said: false }
    }

    fn begin(&mut self, command: &str, cx: &mut C, out: &mut String) {
        let first = !std::mem::replace(&mut self.begun, true);
        *out += &match (self.call.json, first) {
            (true, true) => format!("{{\n\"{command}\": "),
            (true, false) => format!(",\n\"{command}\": "),
            (false, true) => format!("=== {command}\n"),
            (false, false) => format!("\n=== {command}\n"),
        };
        self.said = false;
        match self.registry.run(cx, command, self.call.clone()) {
            Ok(Answer { text, job }) => {
                self.say(&text, out);
                self.job = job;
                if self.job.is_none() {
                    self.end(out);
                }
            }
            Err(error) => self.fail(&error.to_string(), out),
        }
    }

    fn say(&mut self, text: &str, out: &mut String) {
        out.push_str(text);
        self.said |= !text.is_empty();
    }

    /// Ends the output of the command that is complete.
    fn end(&mut self, out: &mut String) {
        if self.call.json {
            if !self.said {
                out.push_str("null");
            }
            // Remove the line feeds at the end: a comma or the end of the object follows.
            while out.ends_with('\n') {
                out.pop();
            }
        }
    }

    /// Writes the error of a command that failed before any output. A `show` command fails before its first output, or not at all.
    fn fail(&mut self, why: &str, out: &mut String) {
        let text = match self.call.json {
            true => serde_json::json!({ "error": why }).to_string(),
            false => format!("{why}\n"),
        };
        self.say(&text, out);
        self.end(out);
    }
}

impl<C: Values + 'static> Job<C> for Report<C> {
    fn step(&mut self, cx: &mut C, out: &mut String) -> Step {
        if let Some(mut job) = self.job.take() {
            let mut text = String::new();
            let step = job.step(cx, &mut text);
            self.say(&text, out);
            match step {
                Step::Done => self.end(out),
                Step::Failed(error) => self.fail(&error.to_string(), out),
                wait => {
                    self.job = Some(job);
                    return wait;
                }
            }
        } else if let Some(command) = self.commands.next() {
            self.begin(&command, cx, out);
        } else {
            out.push_str(match (self.call.json, self.begun) {
                (true, true) => "\n}\n",
                (true, false) => "{}\n",
                (false, _) => "",
            });
            return Step::Done;
        }
        Step::Again
    }

    fn kept(&self) -> usize {
        self.job.as_ref().map_or(0, |job| job.kept())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Output, Rows};

    struct Nothing;

    impl Values for Nothing {
        fn values(&self, _: &str) -> Vec<String> {
            Vec::new()
        }
    }

    struct Three;

    impl Rows<Nothing> for Three {
        type Row = u8;

        fn next(&mut self, _: &Nothing, page: &mut Vec<u8>) -> bool {
            page.extend([1, 2, 3]);
            false
        }

        fn text(&mut self, page: &[u8], out: &mut String) {
            *out += &format!("{page:?}\n");
        }
    }

    fn shown(json: bool) -> String {
        let mut r = Registry::new();
        r.add("show one", "", |_, _| Ok(Output::show(1, "one")));
        r.add("show none", "", |_, _| Ok(Output::none()));
        r.add("show three", "", |_, a| Ok(Output::rows(Three, a.json())));
        r.add("clear all", "", |_, _| Ok(Output::text("cleared")));
        r.report("show all", "", &["show one", "show none", "clear all"]);
        r.supports("show three".into());
        let answer = Rc::new(r).run(&mut Nothing, "show all", Call { json, ..Call::default() }).unwrap();
        let (mut out, mut job) = (answer.text, answer.job.unwrap());
        while matches!(job.step(&mut Nothing, &mut out), Step::Again) {}
        out
    }

    #[test]
    fn a_report_joins_answers_and_runs_read_only() {
        let text = shown(false);
        let (before, after) = text.split_once("=== clear all\nthis socket is read-only").unwrap();
        assert_eq!(before, "=== show one\none\n\n=== show none\n\n");
        assert!(after.ends_with("\n\n=== show three\n[1, 2, 3]\n"), "{after}");
        let all: serde_json::Value = serde_json::from_str(&shown(true)).unwrap();
        let whole = (&all["show one"], &all["show none"], &all["show three"]);
        assert_eq!(whole, (&1.into(), &serde_json::Value::Null, &serde_json::json!([1, 2, 3])));
        assert!(all["clear all"]["error"].as_str().is_some_and(|e| e.contains("clear all")), "{all}");
    }
}

//! Detects other programs that use the machine. A campaign reports them before it begins.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use crate::host::{TICKS, Task};

/// First words of the condition about a machine that was not idle.
pub const BUSY: &str = "The machine was not idle";
/// Time over which programs are watched.
const WATCHED: Duration = Duration::from_millis(400);
/// A program disturbs measurements if it uses more than this share of a processor.
const DISTURBS: f64 = 0.05;

/// A program and its processor time.
#[derive(Clone, Debug, PartialEq)]
pub struct Busy {
    /// Name.
    pub name: String,
    /// Process ID.
    pub id: u32,
    /// Mean number of processors that the program used: 1 for one busy processor.
    pub processors: f64,
}

/// Watches all programs but this one for 0.4 s. Returns those that use a noticeable share of a processor, the busiest first.
pub fn busy_programs() -> Vec<Busy> {
    let (before, began) = (tasks(), Instant::now());
    std::thread::sleep(WATCHED);
    let seconds = began.elapsed().as_secs_f64();
    busy_between(&before, &tasks(), seconds)
}

/// Returns all processes but this one.
fn tasks() -> HashMap<u32, Task> {
    let own = std::process::id();
    let Ok(entries) = fs::read_dir("/proc") else { return HashMap::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parse = |id: u32| Some((id, Task::parse(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)?));
    ids.filter(|id| *id != own).filter_map(parse).collect()
}

fn busy_between(before: &HashMap<u32, Task>, after: &HashMap<u32, Task>, seconds: f64) -> Vec<Busy> {
    let used = |(id, now): (&u32, &Task)| {
        // A process with a reused ID started within the time, so all its time counts.
        let then = before.get(id).filter(|then| then.started == now.started).map_or(0.0, Task::seconds);
        Busy { name: now.name.clone(), id: *id, processors: (now.seconds() - then) / seconds }
    };
    let mut all: Vec<Busy> = after.iter().map(used).collect();
    // Times have a resolution of one tick. A program that used less may have used nothing.
    all.retain(|busy| busy.processors > DISTURBS.max(1.5 / TICKS / seconds));
    all.sort_by(|a, b| b.processors.total_cmp(&a.processors).then(a.id.cmp(&b.id)));
    all
}

/// Returns the conditions about a machine that was not idle. If a campaign is resumed, the conditions found in `before` come first, because
/// they still apply to the campaign's earlier results. The last condition names the programs that are busy now.
pub fn conditions(before: Option<Vec<String>>, busy: &[Busy]) -> Vec<String> {
    let now = told(busy, if before.is_some() { "was resumed" } else { "began" });
    let mut all: Vec<String> = before.into_iter().flatten().filter(|c| c.starts_with(BUSY)).collect();
    all.extend(now.filter(|now| !all.contains(now)));
    all
}

/// Returns a sentence for the report's conditions: the machine was not idle when the campaign `did` something, such as "began". Names at
/// most five of the programs in `busy`. `None` if `busy` is empty.
fn told(busy: &[Busy], did: &str) -> Option<String> {
    let one = |b: &Busy| format!("{} (process {}) used {:.0} %", b.name, b.id, b.processors * 100.0);
    let list: Vec<_> = busy.iter().take(5).map(one).collect();
    (!list.is_empty()).then(|| {
        format!(
            "{BUSY} when the campaign {did}: {} of a processor. Results may be marked as limited by the tester, or be missing because of \
             invalid trials.",
            list.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_programs_are_named_the_busiest_first() {
        let task = |name: &str, user, started| Task { name: name.into(), user, system: 0, started };
        let before =
            HashMap::from([(1, task("init", 100, 1)), (2, task("cc", 50, 7)), (3, task("old", 900, 8))]);
        let after = HashMap::from([
            (1, task("init", 101, 1)),
            (2, task("cc", 100, 7)),
            (3, task("new", 98, 9)),
            (4, task("late", 10, 20)),
        ]);
        let busy = busy_between(&before, &after, 1.0);
        let names: Vec<_> = busy.iter().map(|b| (b.name.as_str(), b.id)).collect();
        assert_eq!(names, [("new", 3), ("cc", 2), ("late", 4)]);
        let said = conditions(None, &busy);
        let list = "new (process 3) used 98 %, cc (process 2) used 50 %";
        assert!(said.len() == 1 && said[0].contains(list), "{said:?}");
        assert_eq!(conditions(None, &[]), [""; 0]);
    }

    #[test]
    fn a_resumed_campaign_keeps_the_doubts_of_its_first_results() {
        let busy = |name: &str| [Busy { name: name.into(), id: 7, processors: 0.5 }];
        let first = conditions(None, &busy("cc"));
        let stored = [vec!["Deviation from RFC 2544 section 24.".to_owned()], first.clone()].concat();
        assert_eq!(conditions(Some(stored.clone()), &[]), first);
        let both = conditions(Some(stored.clone()), &busy("ld"));
        assert!(both.len() == 2 && both[0] == first[0], "{both:?}");
        assert!(both[1].contains("when the campaign was resumed: ld (process 7)"), "{both:?}");
        // A further interruption adds no program that is already listed.
        assert_eq!(conditions(Some(both.clone()), &busy("ld")), both);
    }

    #[test]
    fn a_busy_program_is_found() -> std::io::Result<()> {
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn()?;
        let busy = busy_programs();
        child.kill()?;
        child.wait()?;
        assert!(busy.iter().any(|b| b.id == child.id()), "{busy:?}");
        Ok(())
    }
}

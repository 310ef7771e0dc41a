//! `monitor`: shows the rates of an interface continuously.

use std::time::Duration;

use serde_json::json;

use crate::app::{Context, Output, Rate, Sample};
use crate::cli::{Args, CliError, Job, Registry, Step};

/// The shortest interval, in seconds.
const SHORTEST: f64 = 0.1;

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add(
        "monitor interface <interface:interface> [interval <seconds:word>] [count <n:u32>] [{bps | pps}]",
        "Show the rates of an interface once per interval (in seconds, such as 0.5), for n lines or until \
         interrupted. With --json each line is an object.",
        start,
    )
    .for_viewers();
}

fn start(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let name: String = a.need("interface")?;
    let Some(i) = c.system.router.interface_named(&name) else {
        return Err(a.fault("interface", format!("there is no interface {name}")));
    };
    let left = a.get::<u32>("n");
    if left == Some(0) {
        return Err(a.fault("n", "the number of lines must be at least 1"));
    }
    let last = Sample::take(&c.system.router, i, c.now());
    let shown = Shown { packets: !a.has("bps"), bits: !a.has("pps"), json: a.json() };
    let interval = a.interval("seconds", SHORTEST)?;
    Ok(Output::job(Monitor {
        index: i.index,
        serial: i.serial,
        name,
        interval,
        left,
        shown,
        last,
        begun: false,
    }))
}

/// The values to print in each line.
struct Shown {
    packets: bool,
    bits: bool,
    json: bool,
}

struct Monitor {
    index: u32,
    serial: u64,
    name: String,
    interval: Duration,
    /// Number of lines still to print; `None` if unlimited.
    left: Option<u32>,
    shown: Shown,
    last: Sample,
    /// True if the first interval has begun.
    begun: bool,
}

impl Job<Context> for Monitor {
    fn step(&mut self, c: &mut Context, out: &mut String) -> Step {
        let now = c.now();
        let router = &c.system.router;
        // Another interface may have its index or name by now.
        let Some(i) = router.interface(self.index).ok().filter(|i| i.serial == self.serial) else {
            return Step::Failed(CliError::new(format!("{} was removed", self.name)));
        };
        if !std::mem::replace(&mut self.begun, true) {
            return Step::After(self.interval);
        }
        let sample = Sample::take(router, i, now);
        if let Some(rate) = Rate::between(&std::mem::replace(&mut self.last, sample), &sample) {
            *out += &self.shown.line(&self.name, &rate);
            self.left = self.left.map(|left| left - 1);
        }
        if self.left == Some(0) { Step::Done } else { Step::After(self.interval) }
    }
}

impl Shown {
    fn line(&self, name: &str, rate: &Rate) -> String {
        if self.json {
            return format!("{}\n", json!({ "interface": name, "rates": rate }));
        }
        let [rx_packets, rx_bits, tx_packets, tx_bits, _] = rate.whole();
        let each = |packets, bits| {
            let packets = self.packets.then(|| format!(" {}pps", scaled(packets)));
            let bits = self.bits.then(|| format!(" {}bps", scaled(bits)));
            packets.unwrap_or_default() + &bits.unwrap_or_default()
        };
        format!("rx:{} tx:{}\n", each(rx_packets, rx_bits), each(tx_packets, tx_bits))
    }
}

/// Formats a number with a letter for its decimal multiple, such as 1.25M.
fn scaled(n: u64) -> String {
    let (n, unit) = match n {
        0..1_000 => return n.to_string(),
        1_000..1_000_000 => (n as f64 / 1e3, 'K'),
        1_000_000..1_000_000_000 => (n as f64 / 1e6, 'M'),
        _ => (n as f64 / 1e9, 'G'),
    };
    format!("{n:.2}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Cli;

    #[test]
    fn lines_have_the_format_of_vpp() {
        let rate = Rate {
            window_seconds: 1.0,
            rx_packets_per_second: 999.4,
            rx_bits_per_second: 14_880_952.0,
            tx_packets_per_second: 1000.0,
            tx_bits_per_second: 9_999_999_744.0,
            drops_per_second: 3.0,
        };
        let line = |packets, bits| Shown { packets, bits, json: false }.line("x", &rate);
        assert_eq!(line(true, true), "rx: 999pps 14.88Mbps tx: 1.00Kpps 10.00Gbps\n");
        assert_eq!(line(true, false), "rx: 999pps tx: 1.00Kpps\n");
        assert_eq!(line(false, true), "rx: 14.88Mbps tx: 10.00Gbps\n");
    }

    #[test]
    fn monitor_ends_when_its_interface_is_removed() {
        let mut cli = Cli::new();
        let index = cli.context.system.index("pg0").unwrap();
        let mut lane = cli.context.system.router.tables().counters.rx.lane(7).unwrap();
        let mut job =
            cli.registry.run(&mut cli.context, "monitor interface pg0", Default::default()).unwrap().job;
        let (job, mut out) = (job.as_mut().unwrap(), String::new());
        assert!(matches!(job.step(&mut cli.context, &mut out), Step::After(_)) && out.is_empty());
        lane.add(index, [1000, 1_000_000]);
        assert!(matches!(job.step(&mut cli.context, &mut out), Step::After(_)));
        assert!(
            out.starts_with("rx: ") && !out.contains("rx: 0pps") && out.ends_with("tx: 0pps 0bps\n"),
            "{out}"
        );
        // A new interface of the same name and index is another one.
        cli.ok("delete packet-generator interface pg0");
        cli.ok("create packet-generator interface pg0");
        assert_eq!(cli.context.system.index("pg0").unwrap(), index);
        let Step::Failed(why) = job.step(&mut cli.context, &mut out) else { panic!("it goes on: {out}") };
        assert_eq!(why.to_string(), "pg0 was removed");
    }

    #[test]
    fn invalid_arguments_are_marked() {
        let mut cli = Cli::new();
        for (line, place) in [
            ("monitor interface pg0 interval 0.01", "0.01"),
            ("monitor interface pg0 interval 1e9", "1e9"),
            ("monitor interface pg0 interval x", "x"),
            ("monitor interface pg0 count 0", "0"),
            ("monitor interface pg9", "pg9"),
        ] {
            cli.refused(line, place);
        }
        assert_eq!(cli.ok("monitor interface pg0 count 3 pps").lines().count(), 3);
    }
}

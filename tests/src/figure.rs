//! What a benchmark of the whole process measured: a line for the reader, and an object for `target/bench`.

use std::fs;
use std::io::Write;
use std::path::Path;

/// Samples of one benchmark, and what they are to reach.
#[derive(Debug)]
pub struct Figure {
    /// Its name.
    pub bench: &'static str,
    /// Unit of the samples and of the target.
    pub unit: &'static str,
    /// One value a repetition, in no order.
    pub samples: Vec<f64>,
    /// The median is to be at most this.
    pub target: f64,
}

impl Figure {
    /// Runs these measurements, prints a table, and writes `target/bench/<file>`, one object a line. A measurement that
    /// cannot be made here gives `None`.
    ///
    /// # Panics
    /// When the directory or the file cannot be written.
    pub fn report(file: &str, measurements: &[fn() -> Option<Figure>]) {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench");
        fs::create_dir_all(&directory).expect("target/bench can be made");
        let mut file = fs::File::create(directory.join(file)).expect("target/bench can be written");
        println!("{:<16} {:>9} {:>9} {:>9} {:>9}", "bench", "median", "min", "max", "target");
        for measure in measurements {
            let Some(figure) = measure() else {
                println!("SKIPPED: it needs root or a user namespace");
                continue;
            };
            writeln!(file, "{}", figure.json()).expect("target/bench can be written");
            println!("{}", figure.line());
        }
    }

    /// Median, smallest, largest.
    fn summary(&self) -> (f64, f64, f64) {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        (sorted[sorted.len() / 2], sorted[0], sorted[sorted.len() - 1])
    }

    fn json(&self) -> String {
        let Figure { bench, unit, samples, .. } = self;
        let (median, min, max) = self.summary();
        format!(
            "{{\"bench\": \"{bench}\", \"unit\": \"{unit}\", \"median\": {median:.3}, \"min\": {min:.3}, \"max\": {max:.3}, \
             \"samples\": {}}}",
            samples.len()
        )
    }

    fn line(&self) -> String {
        let Figure { bench, unit, target, .. } = self;
        let (median, min, max) = self.summary();
        let verdict = if median <= *target { "ok" } else { "MISSED" };
        format!("{bench:<16} {median:>9.3} {min:>9.3} {max:>9.3} {target:>9.3}  {unit:<8} {verdict}")
    }
}

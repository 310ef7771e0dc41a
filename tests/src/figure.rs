//! Results of the benchmarks of the whole process: a printed line, and a JSON object in `target/bench`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Samples of one benchmark, and their target.
#[derive(Debug)]
pub struct Figure {
    /// Name of the benchmark.
    pub bench: &'static str,
    /// Unit of the samples and of the target.
    pub unit: &'static str,
    /// One value for each repetition, unordered.
    pub samples: Vec<f64>,
    /// Upper limit of the median. Infinite if the figure has no target and is for comparison only.
    pub target: f64,
}

impl Figure {
    /// Runs these measurements, prints a table, and writes `target/bench/<file>`, one object a line. A measurement that is not
    /// possible here reports that it is skipped and returns `None`.
    ///
    /// # Panics
    /// When the directory or the file cannot be written.
    pub fn report(file: &str, measurements: &[fn() -> Option<Figure>]) {
        drop(fs::remove_file(Self::directory().join(file)));
        let all: Vec<_> =
            measurements.iter().map(|measure| move || measure().map(|figure| vec![figure])).collect();
        Self::add(file, all);
    }

    /// Runs these measurements and appends to the file of another benchmark. A measurement may have several figures.
    ///
    /// # Panics
    /// When the directory or the file cannot be written.
    pub fn add<M: Fn() -> Option<Vec<Figure>>>(file: &str, measurements: impl IntoIterator<Item = M>) {
        let directory = Self::directory();
        fs::create_dir_all(&directory).expect("target/bench can be made");
        let file = fs::File::options().append(true).create(true).open(directory.join(file));
        let mut file = file.expect("target/bench can be written");
        println!("{:<20} {:>9} {:>9} {:>9} {:>9}", "bench", "median", "min", "max", "target");
        for measure in measurements {
            let Some(figures) = measure() else {
                // The measurement has reported why it was skipped.
                continue;
            };
            for figure in figures {
                writeln!(file, "{}", figure.json()).expect("target/bench can be written");
                println!("{}", figure.line());
            }
        }
    }

    fn directory() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench")
    }

    /// Returns the median, the smallest and the largest sample.
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
        let (target, verdict) = match (target.is_finite(), median <= *target) {
            (false, _) => (String::new(), ""),
            (true, reached) => (format!("{target:.3}"), if reached { "ok" } else { "MISSED" }),
        };
        format!("{bench:<20} {median:>9.3} {min:>9.3} {max:>9.3} {target:>9}  {unit:<8} {verdict}")
    }
}

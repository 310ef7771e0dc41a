//! Commands that wait for the result of another thread.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::app::{Context, Output, joined, on_a_thread};
use crate::cli::{Args, CliError, Job, Step, Values};
use crate::files;

/// The polling interval for the thread's result.
const LOOK: Duration = Duration::from_millis(1);

/// The rest of a command, which uses the result.
type Then<T> = Box<dyn FnOnce(&mut Context, &Args, T) -> Result<Output, CliError>>;
/// Returns the thread's result; `None` while the thread works.
type Look<T> = Box<dyn FnMut(&Args) -> Option<Result<T, CliError>>>;

/// A command that waits for a result, passes it to `then`, and runs the job that `then` outputs, if there is
/// one.
struct Later<T> {
    args: Args,
    look: Look<T>,
    then: Option<Then<T>>,
    rest: Option<Box<dyn Job<Context>>>,
}

/// Returns the output of a command that waits: `look` is called again and again until it returns a result, and then `then` is
/// called with the result.
pub fn later<T: 'static>(
    a: &Args,
    look: impl FnMut(&Args) -> Option<Result<T, CliError>> + 'static,
    then: impl FnOnce(&mut Context, &Args, T) -> Result<Output, CliError> + 'static,
) -> Output {
    let (look, then): (Look<T>, Then<T>) = (Box::new(look), Box::new(then));
    Output::job(Later { args: a.clone(), look, then: Some(then), rest: None })
}

impl<T> Job<Context> for Later<T> {
    fn step(&mut self, c: &mut Context, out: &mut String) -> Step {
        if let Some(job) = &mut self.rest {
            return job.step(c, out);
        }
        let Some(found) = (self.look)(&self.args) else { return Step::After(LOOK) };
        let Some(then) = self.then.take() else { return Step::Done };
        // Other commands may have set the origin meanwhile.
        c.origin = self.args.origin();
        match found.and_then(|found| then(c, &self.args, found)) {
            Err(error) => Step::Failed(error),
            Ok(output) => {
                let answer = output.render(self.args.json());
                out.push_str(&answer.text);
                // JSON output has no notices.
                out.push_str(&c.notice().filter(|_| !self.args.json()).unwrap_or_default());
                self.rest = answer.job;
                if self.rest.is_some() { Step::Again } else { Step::Done }
            }
        }
    }

    fn kept(&self) -> usize {
        self.rest.as_ref().map_or(0, |job| job.kept())
    }
}

/// See [`App::create_file`](net::feature::App::create_file).
pub fn create_file(
    a: &Args,
    name: &'static str,
    path: &Path,
    allows: impl FnOnce(&Path) -> io::Result<()> + Send + 'static,
    then: impl FnOnce(&mut Context, &Args, File) -> Result<Output, CliError> + 'static,
) -> Result<Output, CliError> {
    let path = path.to_owned();
    let create = |path: &Path| {
        allows(path)?;
        drivers::pcap::create(path)
    };
    let opening = on_a_thread(move || {
        files::open_by(&path, create)
            .map_err(|e| CliError::new(format!("{} cannot be written: {e}", path.display())))
    })?;
    let mut opening = Some(opening);
    let look = move |a: &Args| {
        let opened = opening.take_if(|opening| opening.is_finished())?;
        Some(joined(opened).map_err(|e| a.about(name, e)))
    };
    Ok(later(a, look, then))
}

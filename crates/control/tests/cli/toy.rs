//! A server with commands for tests, and its clients.

use control::cli::client::{ClientOptions, Connection, Failure, run_with};
use control::cli::{CliError, Job, Listener, Output, PAGE, Registry, Rows, Service, Step, Values, serve};
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::sync::oneshot;

/// Time limit for any wait on a busy machine.
pub const LONG: Duration = Duration::from_secs(20);

#[derive(Default)]
pub struct Toy {
    pub count: u32,
    /// Number of jobs that exist now.
    pub jobs: Arc<AtomicUsize>,
    /// Number of rows that the last list has made.
    pub rows: Arc<AtomicUsize>,
}

impl Values for Toy {
    fn values(&self, _: &str) -> Vec<String> {
        vec!["host-eth0".into(), "host-eth1".into()]
    }
}

/// Prints one number per slice, up to `last`; endlessly without `last`.
pub struct Numbers {
    next: u32,
    last: Option<u32>,
    text: String,
    jobs: Arc<AtomicUsize>,
}

impl Job<Toy> for Numbers {
    fn step(&mut self, _: &mut Toy, out: &mut String) -> Step {
        *out += &format!("{}{}\n", self.next, self.text);
        self.next += 1;
        match self.last {
            Some(last) if self.next > last => Step::Done,
            Some(_) => Step::Again,
            None => Step::After(Duration::from_millis(1)),
        }
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        self.jobs.fetch_sub(1, SeqCst);
    }
}

/// Sends bytes of all values, in parts of up to 100,000. The last part is empty.
pub struct Bytes {
    left: u32,
    jobs: Arc<AtomicUsize>,
}

impl Job<Toy> for Bytes {
    fn step(&mut self, _: &mut Toy, _: &mut String) -> Step {
        let n = self.left.min(100_000);
        if self.left == u32::MAX {
            return Step::Done;
        }
        self.left = if n == 0 { u32::MAX } else { self.left - n };
        Step::Data { bytes: (0..n).map(|i| i as u8).collect(), told: format!("{} are left", self.left) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        self.jobs.fetch_sub(1, SeqCst);
    }
}

/// A list of numbers.
pub struct List {
    next: u32,
    len: u32,
    /// Number of rows made.
    made: Arc<AtomicUsize>,
    jobs: Arc<AtomicUsize>,
}

impl Rows<Toy> for List {
    type Row = u32;

    fn next(&mut self, _: &Toy, page: &mut Vec<u32>) -> bool {
        let end = self.len.min(self.next + PAGE as u32);
        page.extend(self.next..end);
        self.next = end;
        self.made.store(end as usize, SeqCst);
        end < self.len
    }

    fn text(&mut self, page: &[u32], out: &mut String) {
        page.iter().for_each(|n| *out += &format!("{n}\n"));
    }
}

impl Drop for List {
    fn drop(&mut self) {
        self.jobs.fetch_sub(1, SeqCst);
    }
}

pub fn numbers(toy: &mut Toy, last: Option<u32>, text: String) -> Output<Toy> {
    toy.jobs.fetch_add(1, SeqCst);
    Output::job(Numbers { next: 1, last, text, jobs: Arc::clone(&toy.jobs) })
}

pub fn registry() -> Rc<Registry<Toy>> {
    let mut r = Registry::<Toy>::new();
    control::cli::exec(&mut r);
    r.add("show count", "Show the count.", |toy, _| Ok(Output::show(toy.count, toy.count.to_string())));
    r.add("add <n:u32>", "Add to the count.", |toy, args| {
        let n: u32 = args.need("n")?;
        toy.count = toy.count.checked_add(n).ok_or_else(|| args.fault("n", "too much"))?;
        Ok(Output::none())
    });
    r.add("set interface state <interface:interface> {up | down}", "Set it.", |_, _| Ok(Output::none()));
    r.add("numbers to <n:u32>", "Print numbers.", |toy, args| {
        let last = args.need("n")?;
        Ok(numbers(toy, Some(last), String::new()))
    });
    r.add("numbers forever", "Print numbers.", |toy, _| Ok(numbers(toy, None, String::new())));
    r.add("flood", "Print much, without end.", |toy, _| {
        let output = numbers(toy, Some(u32::MAX), "x".repeat(1 << 16));
        Ok(output)
    });
    r.add("list <len:u32>", "List numbers.", |toy, args| {
        toy.jobs.fetch_add(1, SeqCst);
        let (made, jobs) = (Arc::clone(&toy.rows), Arc::clone(&toy.jobs));
        Ok(Output::rows(List { next: 0, len: args.need("len")?, made, jobs }, args.json()))
    });
    r.add("bytes <n:u32>", "Give n bytes, in parts.", |toy, args| {
        if !args.call().binary {
            return Err(CliError::new("these are bytes"));
        }
        toy.jobs.fetch_add(1, SeqCst);
        Ok(Output::job(Bytes { left: args.need("n")?, jobs: Arc::clone(&toy.jobs) }))
    });
    r.add("big <n:u32>", "Print n letters.", |_, args| {
        Ok(Output::text("é".repeat(args.need::<u32>("n")? as usize)))
    });
    Rc::new(r)
}

/// A server on a thread of its own, with a socket in a temporary directory.
pub struct Server {
    pub directory: TempDir,
    pub jobs: Arc<AtomicUsize>,
    pub rows: Arc<AtomicUsize>,
    pub stop: Option<oneshot::Sender<()>>,
    pub thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    pub fn start() -> Server {
        Server::serving(Service::default)
    }

    pub fn serving(service: impl FnOnce() -> Service + Send + 'static) -> Server {
        let directory = tempfile::tempdir().unwrap();
        let (jobs, rows) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let listener = Listener::unix(&directory.path().join("cli.sock"), None).unwrap();
        let (stop, stopped) = oneshot::channel();
        let toy = Toy { jobs: Arc::clone(&jobs), rows: Arc::clone(&rows), ..Toy::default() };
        let thread = thread::spawn(move || {
            let service = service();
            on_local_set(async move {
                tokio::select! {
                    ended = serve(listener, registry(), Rc::new(RefCell::new(toy)), service) => ended.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        Server { directory, jobs, rows, stop: Some(stop), thread: Some(thread) }
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("cli.sock")
    }

    pub fn connect(&self) -> Connection {
        Connection::open(&self.socket()).unwrap()
    }

    /// Waits until this number of jobs exists.
    pub fn wait_for_jobs(&self, count: usize) {
        let begun = Instant::now();
        while self.jobs.load(SeqCst) != count {
            assert!(begun.elapsed() < LONG, "{} jobs instead of {count}", self.jobs.load(SeqCst));
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Runs `volley ctl`. Returns its exit code, output and errors.
    pub fn ctl(
        &self,
        words: &[&str],
        input: impl AsRef<[u8]>,
        change: impl FnOnce(&mut ClientOptions),
    ) -> (u8, String, String) {
        let words = words.iter().map(ToString::to_string).collect();
        let mut options = ClientOptions { socket: self.socket(), json: false, keep_going: false, words };
        change(&mut options);
        let (mut out, mut errors) = (Vec::new(), Vec::new());
        let code = run_with(&options, &mut input.as_ref(), &mut out, &mut errors);
        (code, String::from_utf8(out).unwrap(), String::from_utf8(errors).unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(Err(panic)) = self.thread.take().map(thread::JoinHandle::join)
            && !thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

pub fn on_local_set<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

pub fn run(connection: &mut Connection, line: &str) -> Result<String, Failure> {
    let mut out = Vec::new();
    connection.run(line, false, &mut out, &|| false)?;
    Ok(String::from_utf8(out).unwrap())
}

pub fn ok(code: u8, out: &str) -> (u8, String, String) {
    (code, out.into(), String::new())
}

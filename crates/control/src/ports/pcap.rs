//! Devices that replay and record capture files: `pcapN`.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use drivers::pcap::{self, Config, PACKETS, Record, Recording, Replay, Speed};
use drivers::{Patience, Progress};
use graph::{Builder, GraphError};
use model::object::Fact;
use model::schema::{Bad, Parsed, Schema, number, optional, parsed, truth};
use model::tuple::Tuple;
use model::yaml::quoted;
use net::Tables;
use net::feature::{
    self, App, Backed, Backing, Begun, Interfaces, Opened, Prepared, Registrar, Unopened, Unready,
    is_numbered, number_of, numbered,
};
use net::nodes::interface::install_input;
use net::router::Hooks;

use super::numbered_name;
use crate::app::{Context, Done};
use crate::cli::{Args, quote};
use crate::files;
use crate::intent::{Refused, View, refuse};
use crate::system::{Abilities, System};

/// Prefix of the interface names, before the number.
const PREFIX: &str = "pcap";

/// Index of the files to which devices record: file, interface.
const RECORDS: &str = "record";

/// Returns the interfaces that record to this file. A valid tree has at most one.
fn recorded(view: &View<'_>, file: &Path) -> impl Iterator<Item = String> {
    view.found(RECORDS, Tuple::of(file))
}

/// The fields of a device in the configuration file.
#[derive(Clone, Debug, Default, PartialEq)]
struct Files {
    rx: Option<PathBuf>,
    rate: Option<u32>,
    full: bool,
    /// Number of times to replay the file; `Some(None)` to replay it without end, and `None` if the number is not given.
    rounds: Option<Option<u32>>,
    tx: Option<PathBuf>,
    max: Option<u64>,
}

fn path() -> Parsed<PathBuf> {
    parsed(
        "an absolute path",
        &["/tmp/a.pcap"],
        |text| {
            let path = PathBuf::from(text);
            if path.is_absolute() {
                Ok(path)
            } else {
                Err(format!("{text} is not an absolute path: it must begin with /"))
            }
        },
        |path: &PathBuf| file(path),
    )
}

fn file(path: &Path) -> String {
    quoted(&path.display().to_string())
}

fn rounds() -> Parsed<Option<u32>> {
    parsed(
        "1 to 4294967295, or `forever`",
        &["forever", "2"],
        |text| match text {
            "forever" => Ok(None),
            text => text.parse().ok().filter(|n| *n > 0).map(Some).ok_or_else(|| {
                format!("\"{text}\" is neither a number from 1 to {} nor \"forever\"", u32::MAX)
            }),
        },
        |rounds| rounds.map_or("forever".into(), |n| n.to_string()),
    )
}

/// Returns the fields of `pcap`, the section of an interface `pcapN` in configuration files.
fn schema() -> &'static Schema<Files> {
    static SCHEMA: LazyLock<Schema<Files>> = LazyLock::new(|| {
        Schema::new(Files::default())
            .field(
                "rx",
                optional(path()),
                |f| f.rx.clone(),
                |f, path| f.rx = path,
                "The file to replay, pcap or pcapng, of at most 64 MiB. Replay begins whenever the interface is brought up.",
            )
            .field(
                "rate",
                optional(number(1..=u32::MAX).unit("packets a second")),
                |f| f.rate,
                |f, rate| f.rate = rate,
                "The replay rate; by default, packets are replayed at the times in the file.",
            )
            .field("full-speed", truth(), |f| f.full, |f, on| f.full = on, "Replays `rx` as fast as possible.")
            .field(
                "loop",
                optional(rounds()),
                |f| f.rounds,
                |f, n| f.rounds = n,
                "Number of times that `rx` is replayed; 1 by default.",
            )
            .field(
                "tx",
                optional(path()),
                |f| f.tx.clone(),
                |f, path| f.tx = path,
                "The file to record sent packets in. An existing capture file is replaced.",
            )
            .field(
                "max",
                optional(number(0..=u64::MAX).unit("packets")),
                |f| f.max,
                |f, n| f.max = n,
                "The maximum number of packets in `tx`; 100,000 by default.",
            )
            .check(Files::check)
    });
    &SCHEMA
}

impl Files {
    fn check(&self) -> Result<(), Bad> {
        let replayed = self.rate.is_some() || self.full || self.rounds.is_some();
        match self {
            Files { rx: None, .. } if replayed => {
                Err(Bad::new("", "rate, full-speed and loop need a file to replay: \"rx\""))
            }
            Files { rate: Some(_), full: true, .. } => Err(Bad::new(
                "",
                "a file cannot be replayed both at a rate and at full speed: leave out rate or full-speed",
            )),
            Files { tx: None, max: Some(_), .. } => Err(Bad::new("", "max needs a file to record: \"tx\"")),
            Files { rx: None, tx: None, .. } => {
                Err(Bad::new("", "no file is given: use \"rx\" to replay one, \"tx\" to record one, or both"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the configuration of the device with this number.
    fn config(self, number: u16) -> Config {
        let speed = match (self.rate, self.full) {
            (Some(pps), _) => Speed::Rate(pps),
            (None, true) => Speed::Full,
            (None, false) => Speed::Own,
        };
        let rounds = self.rounds.unwrap_or(Some(1));
        let replay = self.rx.map(|file| Replay { file, speed, rounds });
        let record = self.tx.map(|file| Record { file, most: self.max.unwrap_or(PACKETS) });
        Config { replay, record, ..Config::new(number) }
    }

    /// Returns the fields of a device's configuration.
    fn of(config: &Config) -> Files {
        let (replay, record) = (config.replay.as_ref(), config.record.as_ref());
        let rounds = replay.map(|r| r.rounds).filter(|n| *n != Some(1));
        Files {
            rx: replay.map(|r| r.file.clone()),
            rate: replay.and_then(|r| if let Speed::Rate(pps) = r.speed { Some(pps) } else { None }),
            full: replay.is_some_and(|r| r.speed == Speed::Full),
            rounds,
            tx: record.map(|r| r.file.clone()),
            max: record.map(|r| r.most),
        }
    }
}

impl Backing<System> for Config {
    const DEVICE: bool = true;

    fn validate(&self, name: &str, _: Option<u16>, view: &View<'_>, _: &Abilities) -> Result<(), Refused> {
        let (replay, record) = (self.replay.as_ref(), self.record.as_ref());
        for file in replay.map(|r| &r.file).into_iter().chain(record.map(|r| &r.file)) {
            if file.to_str().is_none_or(|text| text.contains(char::is_control)) {
                return refuse(format!(
                    "{} cannot be saved in a configuration: rename it or its folder, so that the path is a line of UTF-8",
                    file.display()
                ));
            }
        }
        let Some(record) = &self.record else { return Ok(()) };
        match recorded(view, &record.file).find(|other| other != name) {
            Some(other) => refuse(format!("{other} already records to {}", record.file.display())),
            None => Ok(()),
        }
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn find(&self) -> Result<(), Unready> {
        let Some(Record { file, .. }) = &self.record else { return Ok(()) };
        files::may_be_made(file).map_err(|e| {
            let why = Refused::new(format!("cannot write {}: {e}", file.display()));
            Unready { about: "tx", why }
        })
    }

    fn prepare(&self, patience: &Patience) -> Result<Prepared, Unready> {
        let Some(Replay { file, .. }) = &self.replay else { return Ok(None) };
        let load = |file: &Path, progress: &Progress| pcap::load(file, progress).map_err(|e| e.to_string());
        let recording = files::read_by(file, patience, load)
            .unwrap_or_else(|e| Err(format!("cannot replay {}: {e}", file.display())))
            .map_err(|why| Unready { about: "rx", why: Refused::new(why) })?;
        Ok(Some(Box::new(recording)))
    }

    fn open(&self, _: &str, prepared: Prepared, _: &mut System) -> Result<Opened, Unopened> {
        let recording = prepared.and_then(|prepared| prepared.downcast::<Recording>().ok());
        if self.replay.is_some() && recording.is_none() {
            // This thread must not read files of clients.
            return Err(Unopened { missing: true, ..Unopened::new("its files will be read again") });
        }
        let device = pcap::open_loaded(self, recording.map(|recording| *recording));
        // Any error counts as a missing device, so that the router starts, and the interface waits: other users may remove or replace the
        // files.
        device.map(Opened::Device).map_err(|e| Unopened { missing: true, ..Unopened::new(e) })
    }

    fn dump(&self, name: &str) -> String {
        let mut s = format!("create pcap interface {name}");
        let path = |p: &Path| quote(&p.display().to_string()).into_owned();
        if let Some(replay) = &self.replay {
            s += &format!(" rx {}", path(&replay.file));
            s += &match replay.speed {
                Speed::Own => String::new(),
                Speed::Rate(pps) => format!(" rate {pps}"),
                Speed::Full => " full-speed".into(),
            };
            s += &match replay.rounds {
                None => " loop forever".into(),
                Some(1) => String::new(),
                Some(n) => format!(" loop {n}"),
            };
        }
        if let Some(record) = &self.record {
            s += &format!(" tx {} max {}", path(&record.file), record.most);
        }
        s
    }

    fn facts(&self, name: &str, to: &mut dyn FnMut(Fact)) {
        if let Some(record) = &self.record {
            to(Fact::new(RECORDS, (&record.file, name)));
        }
    }

    fn lacks(&self, to: &mut dyn FnMut(String)) {
        // Opens the file to replay as the router would, but records nothing.
        let replayed = Config { record: None, ..self.clone() };
        if let Some(error) = replayed.replay.is_some().then(|| pcap::open(&replayed).err()).flatten() {
            to(error.to_string());
        }
        let folder = self.record.as_ref().and_then(|record| record.file.parent());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            to(format!("cannot record: no such directory: {}", folder.display()));
        }
    }
}

/// The feature `pcap`: devices that replay and record capture files.
pub struct Feature;

impl feature::Feature<Context> for Feature {
    fn name(&self) -> &'static str {
        "pcap"
    }

    fn about(&self) -> &'static str {
        "Replays capture files as received packets, and records sent packets."
    }

    fn install(&self, b: &mut Builder, t: &Tables, _: &mut Hooks) -> Result<(), GraphError> {
        install_input(b, t, pcap::INPUT_NODE);
        Ok(())
    }

    fn register(&self, r: &mut Registrar<'_, Context>) {
        r.interfaces(Interfaces {
            what: "a capture-file device",
            named: numbered(PREFIX),
            section: None,
            names: Box::new(is_numbered::<u16>(PREFIX)),
            field: Some("pcap"),
            device_type: None,
            read: Box::new(|r, name, at, fields| {
                let number = number_of(name, PREFIX)?;
                let Some(node) = fields.take("pcap") else {
                    r.fault(
                        at,
                        format!("{name} needs a \"pcap\" with a file to replay (rx), or to record (tx)"),
                    );
                    return None;
                };
                let files = schema().read(r, node.at, node).unwrap_or_default();
                Some(Begun::by(files.config(number)))
            }),
            is: |backed| backed.get::<Config>().is_some(),
            write: Box::new(|t, backed| {
                if let Some(config) = backed.get() {
                    t.map("pcap", |t| schema().write(t, &Files::of(config)));
                }
            }),
            title: "`pcap`".into(),
            rows: schema().rows(""),
            examples: Box::new(|| {
                let made = |files: Files| Backed::by(files.config(7));
                schema().examples().into_iter().map(|files| (format!("{PREFIX}7"), made(files))).collect()
            }),
        });
        r.command(
            "create pcap interface <name:word> [rx <rx:path>] [{rate <pps:1..4294967295> | full-speed}] \
             [loop {forever | <rounds:1..4294967295>}] [tx <tx:path>] [max <most:u64>] [index <index:u32>]",
            "Make a device (pcap0, pcap1, …) that receives the packets of the file \"rx\" (pcap or pcapng), and records sent \
             packets in the file \"tx\". Replay begins when the interface is brought up, by default at the times in the file.",
            create,
        );
        r.command("delete pcap interface <interface:interface>", "Remove a capture-file device.", |c, a| {
            c.delete_interface::<Config>(a, "interface", &a.need::<String>("interface")?)
        });
    }
}

fn create(c: &mut Context, a: &Args) -> Done {
    let (name, number) = numbered_name(a, PREFIX, "capture-file device")?;
    let mut config = Config::new(number);
    if let Some(file) = a.get::<PathBuf>("rx") {
        let speed = match a.get::<u32>("pps") {
            Some(pps) => Speed::Rate(pps),
            None if a.has("full-speed") => Speed::Full,
            None => Speed::Own,
        };
        let rounds = a.get::<u32>("rounds").or((!a.has("forever")).then_some(1));
        config.replay = Some(Replay { file, speed, rounds });
    } else if let Some(word) = ["rate", "full-speed", "loop"].into_iter().find(|word| a.has(word)) {
        return Err(a.fault(word, "this needs a file to replay: rx FILE"));
    }
    if let Some(file) = a.get::<PathBuf>("tx") {
        config.record = Some(Record { file, most: a.get::<u64>("most").unwrap_or(PACKETS) });
    } else if a.has("max") {
        return Err(a.fault("max", "max needs a file to record: tx FILE"));
    }
    if config.replay.is_none() && config.record.is_none() {
        return Err(
            a.fault("name", "no file is given: use rx FILE to replay one, tx FILE to record one, or both")
        );
    }
    let about = if config.replay.is_some() { "rx" } else { "tx" };
    c.create_interface(a, about, &name, config)
}

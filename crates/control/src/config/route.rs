//! VRFs and static routes.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use model::schema::{Bad, Form, Schema, inline, list, number, optional, parsed, text};
use model::yaml::{self, Content, Node, Reader, Text};
use net::ip::IpPrefix;

use super::Reading;
use crate::intent::{Branch, Family, Key, Route, Table, Tree, Value, Via};

/// The valid VRF numbers in `tables`. Table 0 is not listed there, because it always exists.
const TABLES: RangeInclusive<u32> = 1..=u32::MAX;

/// Reads `tables`: the VRFs besides table 0, as a list of their numbers, or as a map with their fields by number.
pub(super) fn tables(reading: &mut Reading<'_>, node: &Node) {
    if !matches!(node.content, Content::Map(_)) {
        for number in reading.r.list(node) {
            match reading.r.number(number, TABLES) {
                Some(table) => reading.set(number.at, Table::key(table), Table::default()),
                None => reading.lost.tables = true,
            }
        }
        return;
    }
    for (number, at, node) in reading.r.entries(node) {
        // Only one spelling of a number is valid, so that a table cannot be listed twice.
        let table = number.parse().ok().filter(|n: &u32| TABLES.contains(n) && n.to_string() == number);
        let Some(table) = table else {
            let range = format!("a number from {} to {}", TABLES.start(), TABLES.end());
            reading.r.fault(at, format!("\"{number}\" is not {range}"));
            reading.lost.tables = true;
            continue;
        };
        // The table exists even if its fields are wrong.
        let fields = Table::schema().read(&mut reading.r, at, node);
        reading.set(at, Table::key(table), fields.unwrap_or_default());
    }
}

/// Writes `tables`: the numbers alone if no VRF has a name.
pub(super) fn write_tables(t: &mut Text<'_>, tree: &Tree) {
    let all = tree.range(Key::all::<Table>());
    let all: Vec<(u32, &Table)> =
        all.filter_map(|(key, value)| Some((key.get::<Table>()?, value.get()?))).collect();
    if all.iter().all(|(_, table)| Table::schema().is_usual(table)) {
        let numbers: Vec<String> = all.iter().map(|(number, _)| number.to_string()).collect();
        return t.field("tables", (!all.is_empty()).then(|| format!("[ {} ]", numbers.join(", "))));
    }
    t.map("tables", |t| {
        for (number, table) in all {
            t.line(format_args!("{number}: {}", Table::schema().line(table)));
        }
    });
}

/// The value of `via` in a path.
#[derive(Clone, Debug, PartialEq)]
enum To {
    NextHop(IpAddr),
    /// A keyword of [`Via::WORDS`], such as `drop`.
    Word(Via),
}

struct Target;

impl Form for Target {
    type Value = To;

    fn read(&self, r: &mut Reader, node: &Node) -> Option<To> {
        let text = r.text(node)?;
        if let Some(via) = Via::of_word(text) {
            return Some(To::Word(via));
        }
        r.parsed(node, "an IP address, local, drop, unreachable or prohibit").map(To::NextHop)
    }

    fn line(&self, to: &To) -> String {
        match to {
            To::NextHop(hop) => yaml::ip(hop),
            To::Word(via) => via.word().unwrap_or_default().into(),
        }
    }

    fn values(&self) -> String {
        "an IP address, `local`, `drop`, `unreachable`, `prohibit`".into()
    }

    fn examples(&self) -> Vec<To> {
        let hops = ["192.0.2.1", "2001:db8::1"].into_iter().filter_map(|hop| hop.parse().ok());
        hops.map(To::NextHop).chain(Via::WORDS.map(|(_, via)| To::Word(via))).collect()
    }
}

/// A path in a file.
#[derive(Clone, Debug, PartialEq)]
struct Path {
    via: Option<To>,
    interface: Option<String>,
    table: Option<u32>,
    weight: u8,
}

impl Path {
    fn of(via: &Via, weight: u8) -> Path {
        let nothing = Path { via: None, interface: None, table: None, weight };
        match via {
            Via::NextHop(hop, interface) => {
                Path { via: Some(To::NextHop(*hop)), interface: interface.clone(), ..nothing }
            }
            Via::Attached(interface) => Path { interface: Some(interface.clone()), ..nothing },
            Via::Table(_, table) => Path { table: Some(*table), ..nothing },
            Via::Local | Via::Drop | Via::Unreachable | Via::Prohibit => {
                Path { via: Some(To::Word(via.clone())), ..nothing }
            }
        }
    }

    /// Returns the path for packets of a family; `None` unless it has exactly one target.
    fn branch(self, family: Family) -> Option<Branch> {
        let via = match (self.via, self.interface, self.table) {
            (Some(To::NextHop(hop)), interface, None) => Via::NextHop(hop, interface),
            (Some(To::Word(via)), None, None) => via,
            (None, Some(interface), None) => Via::Attached(interface),
            (None, None, Some(table)) => Via::Table(family, table),
            _ => return None,
        };
        Some(Branch { via, weight: self.weight })
    }

    fn check(&self) -> Result<(), Bad> {
        if let (Some(to @ To::Word(_)), Some(_), None) = (&self.via, &self.interface, self.table) {
            return Err(Bad::new("via", format!("\"{}\" cannot have an interface", Target.line(to))));
        }
        match self.clone().branch(Family::V4) {
            Some(_) => Ok(()),
            None => Err(Bad::new(
                "",
                "a route has exactly one target: \"via\" (optionally with \"interface\"), \"interface\" alone, \
                 \"lookup-in-table\", or a list of \"paths\"",
            )),
        }
    }
}

/// Returns the fields of a path: of a member of `paths`, or of a route with a single path.
fn path() -> &'static Schema<Path> {
    static SCHEMA: LazyLock<Schema<Path>> = LazyLock::new(|| {
        Schema::new(Path { via: None, interface: None, table: None, weight: 1 })
            .field(
                "via",
                optional(Target),
                |p| p.via.clone(),
                |p, via| p.via = via,
                "The next hop, the router itself (`local`), or a way to drop packets.",
            )
            .field(
                "interface",
                optional(text("an interface's name", &["host-eth0"])),
                |p| p.interface.clone(),
                |p, name| p.interface = name,
                "The interface of the next hop; required if the next hop is link-local. Without `via`, the destinations are directly on \
                 this interface's link.",
            )
            .field(
                "lookup-in-table",
                optional(number(0..=u32::MAX)),
                |p| p.table,
                |p, table| p.table = table,
                "The VRF in which to look up the destination.",
            )
            .field(
                "weight",
                number(1..=u8::MAX),
                |p| p.weight,
                |p, weight| p.weight = weight,
                "The share of flows, relative to the other paths.",
            )
            .check(Path::check)
    });
    &SCHEMA
}

/// A route in a file. A route with a single path can have the path's fields instead of `paths`; the path's fields are read separately.
#[derive(Clone, Debug, PartialEq)]
struct Said {
    prefix: Option<IpPrefix>,
    table: u32,
    paths: Option<Vec<Path>>,
}

/// Returns the fields of a route.
fn route() -> &'static Schema<Said> {
    static SCHEMA: LazyLock<Schema<Said>> = LazyLock::new(|| {
        let prefix =
            parsed("a prefix", &["10.0.0.0/8", "2001:db8::/32"], IpPrefix::exact, |prefix| yaml::ip(prefix));
        Schema::new(Said { prefix: None, table: 0, paths: None })
            .field("prefix", optional(prefix), |r| r.prefix, |r, prefix| r.prefix = prefix, "The destinations.")
            .needed("a route needs a \"prefix\"")
            .field("table", number(0..=u32::MAX), |r| r.table, |r, table| r.table = table, "The VRF: 0, or one in `tables`.")
            .field(
                "paths",
                optional(list(inline(path))),
                |r| r.paths.clone(),
                |r, paths| r.paths = paths,
                "Up to 64 paths that share the flows, each with the fields of a path. A route with a single path has these fields itself.",
            )
            .check(|r| match &r.paths {
                Some(paths) if paths.is_empty() => Err(Bad::new("paths", "a route needs at least one path")),
                _ => Ok(()),
            })
    });
    &SCHEMA
}

/// Reports a fault if `routes` is not a list. The members of the list have already been [read].
pub(super) fn all(reading: &mut Reading<'_>, node: &Node) {
    reading.r.list(node);
}

/// Reads a member of `routes`: a map with the prefix and its paths.
pub(super) fn read(r: &mut Reader, node: &Node) -> Option<(Key, Value)> {
    let mut fields = r.fields(node);
    let has_list = fields.take("paths").is_some();
    let said = route().read_fields(r, node.at, &mut fields);
    let only = (!has_list).then(|| path().read_fields(r, node.at, &mut fields));
    fields.end(r);
    let said = said?;
    let paths = only.map_or_else(|| said.paths.clone(), |only| Some(vec![only?]))?;
    object(&said, paths)
}

/// Returns the route with these paths.
fn object(said: &Said, paths: Vec<Path>) -> Option<(Key, Value)> {
    let prefix = said.prefix?;
    let family = Family::of(prefix.address());
    let branches = paths.into_iter().map(|path| path.branch(family)).collect::<Option<Vec<_>>>()?;
    Some((Route::key(said.table, prefix), Route::new(branches)?.into()))
}

/// Writes a member of `routes`.
pub(super) fn write(t: &mut Text<'_>, table: u32, prefix: IpPrefix, of: &Route) {
    let mut paths: Vec<Path> = of.paths().map(|(via, weight)| Path::of(via, weight)).collect();
    let only = if paths.len() == 1 { paths.pop() } else { None };
    let said = Said { prefix: Some(prefix), table, paths: only.is_none().then_some(paths) };
    let fields = route().fields(&said);
    match only {
        Some(only) => t.line(format_args!("- {{ {fields}, {} }}", path().fields(&only))),
        None => t.line(format_args!("- {{ {fields} }}")),
    }
}

/// Returns valid routes, with an example of each declared field.
#[cfg(test)]
pub(crate) fn examples() -> Vec<(Key, Value)> {
    let said = route().examples();
    let single = path().examples().into_iter().zip(said.iter().cycle());
    let single = single.filter_map(|(path, said)| object(said, vec![path]));
    let listed = said.iter().filter_map(|said| object(said, said.paths.clone()?));
    single.chain(listed).collect()
}

/// Returns the rows of the reference documentation for VRFs, for routes, and for paths.
pub(super) fn rows() -> [Vec<model::schema::Row>; 3] {
    [Table::schema().rows("NUMBER."), route().rows(""), path().rows("")]
}

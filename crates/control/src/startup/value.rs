//! Reads the values of parameters from a section's body.

use super::tree::{Item, Word};
use crate::logging::Level;
use model::place::{Fault, Place, hint};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::RangeInclusive,
    path::PathBuf,
    time::Duration,
};

/// The highest core number: the kernel's usual set of cores has 1,024 bits.
pub const LAST_CORE: usize = 1023;

/// The socket of the CLI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A UNIX socket.
    Socket(PathBuf),
    /// TCP.
    Tcp(SocketAddr),
}

/// A group of users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// By number.
    Id(u32),
    /// By name. Whether the machine has a group with this name is not checked before [`id`](Group::id).
    Name(String),
}

/// The group that VPP's packages create and that their startup.conf names. With this startup.conf, Volley must also start on machines that
/// never had VPP.
const GROUP_OF_VPP: &str = "vpp";

impl Group {
    /// Returns the group's ID. Returns `None` if the group is VPP's default group `vpp`, and this machine does not have it.
    ///
    /// # Errors
    /// If the machine knows no group with the name, or its groups cannot be read.
    pub fn id(&self) -> Result<Option<u32>, String> {
        match self {
            Self::Id(id) => Ok(Some(*id)),
            Self::Name(name) => match nix::unistd::Group::from_name(name) {
                Ok(Some(group)) => Ok(Some(group.gid.as_raw())),
                Ok(None) if name == GROUP_OF_VPP => Ok(None),
                Ok(None) => {
                    Err(format!("unknown group '{name}': create it (groupadd {name}), or use another"))
                }
                Err(e) => Err(format!("cannot look up the group '{name}': {e}")),
            },
        }
    }
}

/// A position in the body of a section. A method that reads a value moves past the value. If the value is not valid, the method returns a
/// fault with the expected form, and does not move. Only [`cores`](Cursor::cores) moves past an invalid value, too.
pub struct Cursor<'a> {
    items: &'a [Item],
    end: &'a Place,
}

impl<'a> Cursor<'a> {
    /// Returns a cursor at the start of `items`, whose body ends at `end`.
    pub fn new(items: &'a [Item], end: &'a Place) -> Self {
        Self { items, end }
    }

    /// Takes the next item, if any.
    pub fn take(&mut self) -> Option<&'a Item> {
        let (first, rest) = self.items.split_first()?;
        self.items = rest;
        Some(first)
    }

    /// Returns the next item, if any, without taking it.
    pub fn first(&self) -> Option<&'a Item> {
        self.items.first()
    }

    /// Returns the next item without taking it, if it is a word.
    pub fn peek(&self) -> Option<&'a Word> {
        match self.items.first() {
            Some(Item::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// True if the next words are those of `name`, which may have several words.
    pub fn starts_with(&self, name: &str) -> bool {
        let mut items = self.items.iter();
        name.split(' ').all(|part| matches!(items.next(), Some(Item::Word(word)) if word.text == part))
    }

    /// If the next items match this form, returns their number. In a form, `<>` stands for any word, `{}` for a block,
    /// and any other word for itself.
    pub fn matches(&self, form: &str) -> Option<usize> {
        let mut items = self.items.iter();
        let fits = |part: &str, item: Option<&Item>| match item {
            Some(Item::Word(word)) => part == "<>" || word.text == part,
            Some(Item::Block(_)) => part == "{}",
            None => false,
        };
        form.split(' ').all(|part| fits(part, items.next())).then(|| form.split(' ').count())
    }

    /// True if no items are left.
    pub fn is_done(&self) -> bool {
        self.items.is_empty()
    }

    /// Checks that no items are left.
    pub fn finish(&self) -> Result<(), Fault> {
        match self.items.first() {
            Some(item) => Err(Fault::new(item.place(), "expected '}' here")),
            None => Ok(()),
        }
    }

    /// Reads a word; `expected` describes it for faults, such as "a file's name".
    pub fn word(&mut self, expected: &str) -> Result<&'a Word, Fault> {
        match self.items.first() {
            Some(Item::Word(word)) => {
                self.take();
                Ok(word)
            }
            Some(Item::Block(block)) => {
                Err(Fault::new(&block.open, format!("expected {expected}, found '{{'")))
            }
            None => Err(Fault::new(self.end, format!("expected {expected}, found the end of the section"))),
        }
    }

    /// Reads a word as text.
    pub fn text(&mut self, expected: &str) -> Result<String, Fault> {
        Ok(self.word(expected)?.text.clone())
    }

    /// Reads a word that `read` accepts.
    fn parse<T>(&mut self, expected: &str, read: impl Fn(&str) -> Option<T>) -> Result<T, Fault> {
        let before = self.items;
        let word = self.word(expected)?;
        read(&word.text).ok_or_else(|| {
            self.items = before;
            Fault::new(&word.place, format!("expected {expected}, found '{}'", word.text))
        })
    }

    /// Reads a file's name.
    pub fn path(&mut self) -> Result<PathBuf, Fault> {
        self.parse("a file's name", |text| (!text.is_empty()).then(|| PathBuf::from(text)))
    }

    /// Reads a decimal number within `range`.
    pub fn number(&mut self, range: RangeInclusive<usize>) -> Result<usize, Fault> {
        let expected = format!("a number from {} to {}", range.start(), range.end());
        self.parse(&expected, |text| text.parse().ok().filter(|n| range.contains(n)))
    }

    /// Reads a number of seconds within `range`. The number may have a fraction.
    pub fn seconds(&mut self, range: RangeInclusive<f64>) -> Result<Duration, Fault> {
        let expected = format!("seconds from {} to {}", range.start(), range.end());
        let seconds: f64 = self.parse(&expected, |text| text.parse().ok().filter(|s| range.contains(s)))?;
        Ok(Duration::from_secs_f64(seconds))
    }

    /// Reads a size in bytes: a number, with `K`, `M` or `G` for binary multiples.
    pub fn size(&mut self) -> Result<u64, Fault> {
        self.parse("a size such as 4096, 64K, 32M or 2G", size)
    }

    /// Reads one of `words`.
    pub fn choice(&mut self, words: &[&'static str]) -> Result<&'static str, Fault> {
        let before = self.items;
        let word = self.word(&format!("one of {}", words.join(", ")))?;
        words.iter().find(|w| **w == word.text).copied().ok_or_else(|| {
            self.items = before;
            let hint = hint(&word.text, words.iter().copied());
            Fault::new(&word.place, format!("unexpected '{}': {hint}", word.text))
        })
    }

    /// Reads a list of cores, such as `2-3,18-19` or `2-3, 18-19`. Keeps its order.
    pub fn cores(&mut self) -> Result<Vec<usize>, Fault> {
        let expected = format!("cores from 0 to {LAST_CORE}, each once, such as 2-3,18-19");
        let first = self.word(&expected)?;
        let mut list = first.text.clone();
        let goes_on = |list: &str, word: &str| {
            word.starts_with(',') || (list.ends_with(',') && word.starts_with(|c: char| c.is_ascii_digit()))
        };
        while let Some(word) = self.peek().filter(|word| goes_on(&list, &word.text)) {
            list += &word.text;
            self.take();
        }
        // The words stay taken: a list may have several, and they would be taken for parameters.
        core_list(&list)
            .ok_or_else(|| Fault::new(&first.place, format!("expected {expected}, found '{list}'")))
    }

    /// Reads a set of cores as a hexadecimal mask; bit 0 is core 0.
    pub fn core_mask(&mut self) -> Result<Vec<usize>, Fault> {
        self.parse("a hexadecimal mask of cores, not 0, such as 0xc", core_mask)
    }

    /// Reads the socket of the CLI.
    pub fn listen(&mut self) -> Result<Listen, Fault> {
        self.parse("a socket's path, or an address with a port such as 127.0.0.1:5002", listen)
    }

    /// Reads an address with a port.
    pub fn address(&mut self) -> Result<SocketAddr, Fault> {
        self.parse("an address with a port such as 127.0.0.1:9482", |text| match listen(text)? {
            Listen::Tcp(address) => Some(address),
            Listen::Socket(_) => None,
        })
    }

    /// Reads a log level.
    pub fn level(&mut self) -> Result<Level, Fault> {
        let expected = format!("a level ({})", Level::names().collect::<Vec<_>>().join(", "));
        self.parse(&expected, Level::parse)
    }

    /// Reads a group, by ID or name.
    pub fn group(&mut self) -> Result<Group, Fault> {
        let name = self.text("a group's number or name")?;
        Ok(name.parse().map_or(Group::Name(name), Group::Id))
    }

    /// Reads the body of a parameter: a block in braces, or a single word in place of a block.
    pub fn body(&mut self, expected: &str) -> Result<Cursor<'a>, Fault> {
        match self.items.split_first() {
            Some((Item::Block(block), rest)) => {
                self.items = rest;
                Ok(Cursor::new(&block.items, &block.close))
            }
            Some((Item::Word(_), rest)) => {
                let (one, _) = self.items.split_at(1);
                self.items = rest;
                Ok(Cursor::new(one, self.end))
            }
            None => Err(Fault::new(self.end, format!("expected {expected}, found the end of the section"))),
        }
    }
}

fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text.get(digits.len()..)?.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn core_list(text: &str) -> Option<Vec<usize>> {
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        if first > last || last > LAST_CORE || (first..=last).any(|core| cores.contains(&core)) {
            return None;
        }
        cores.extend(first..=last);
    }
    Some(cores)
}

fn core_mask(text: &str) -> Option<Vec<usize>> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let mut cores = Vec::new();
    for (i, digit) in digits.chars().rev().enumerate() {
        let bits = digit.to_digit(16)?;
        cores.extend((0..4).filter(|bit| bits & (1 << bit) != 0).map(|bit| 4 * i + bit));
    }
    cores.last().is_some_and(|&last| last <= LAST_CORE).then_some(cores)
}

fn listen(text: &str) -> Option<Listen> {
    if text.is_empty() || text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    if text.contains('/') || !text.contains(':') {
        return Some(Listen::Socket(PathBuf::from(text)));
    }
    let address = match text.strip_prefix("localhost:") {
        Some(port) => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port.parse().ok()?),
        None => text.parse().ok()?,
    };
    (address.port() != 0).then_some(Listen::Tcp(address))
}

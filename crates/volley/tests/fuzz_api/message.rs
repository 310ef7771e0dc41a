//! Messages that are made from the definitions in the table of messages, and then partly changed.

use vapi::Table;
use vapi::shape::{Definition, Head, Info, Kind, Shape};

use control::app::Context;

use super::dice::Dice;

/// Texts that have a meaning in at least one message, such as interface names and commands.
const TEXTS: [&str; 14] = [
    "",
    "x",
    "loop0",
    "pg0",
    "pg0.7",
    "host-eth0",
    "eth0",
    "local0",
    "@fuzz",
    "fuzz.sock",
    "show interface",
    "show api trace",
    "create loopback interface",
    "\u{e9}\u{20ac}",
];

/// Numbers near limits of fields.
const NUMBERS: [u64; 14] = [0, 0, 1, 1, 2, 3, 7, 24, 32, 128, 1500, 0x7fff_ffff, 0xffff_ffff, u64::MAX];

/// Makes the bytes of values from the types (shapes) of fields.
struct Maker<'d> {
    dice: &'d mut Dice,
    out: Vec<u8>,
    /// The number of elements of the array that follows, as the last count field states it.
    count: usize,
}

impl Maker<'_> {
    fn number(&mut self, width: usize) {
        let n = match self.dice.below(4) {
            0 => self.dice.roll(),
            1 => self.dice.below(10) as u64,
            _ => self.dice.one_of(&NUMBERS),
        };
        self.out.extend(&n.to_be_bytes()[8 - width..]);
    }

    fn text(&mut self) -> Vec<u8> {
        match self.dice.below(8) {
            0 => {
                let n = self.dice.below(200);
                self.dice.bytes(n).collect()
            }
            _ => self.dice.one_of(&TEXTS).into(),
        }
    }

    /// Appends one of the values of an enumeration, or a sum of flags, or rarely any number.
    fn named(&mut self, width: &Shape, numbers: impl Fn(&mut Dice) -> i64) {
        if self.dice.one_in(8) {
            return self.value(width);
        }
        let (n, width) = (numbers(self.dice), width_of(width));
        self.out.extend(&n.to_be_bytes()[8 - width..]);
    }

    fn value(&mut self, shape: &Shape) {
        match shape {
            Shape::Plain(_) => self.number(width_of(shape)),
            Shape::Text(n) => {
                let mut text = self.text();
                text.resize(*n, if self.dice.one_in(16) { b'x' } else { 0 });
                self.out.extend(text);
            }
            Shape::Line => {
                let text = self.text();
                self.out.extend((text.len() as u32).to_be_bytes());
                self.out.extend(text);
            }
            Shape::Count(of) => {
                self.count = self.dice.below(4);
                let width = width_of(of);
                // Sometimes more elements are announced than follow.
                let said = if self.dice.one_in(10) { u64::MAX } else { self.count as u64 };
                self.out.extend(&said.to_be_bytes()[8 - width..]);
            }
            Shape::Array(element, n) => (0..*n).for_each(|_| self.value(element)),
            Shape::Tail(element) => (0..self.count).for_each(|_| self.value(element)),
            Shape::Defined(Definition { kind, .. }) => match kind {
                Kind::Enum(width, values) => {
                    self.named(width, |dice| values[dice.below(values.len())].number);
                }
                Kind::Flags(width, values) => self.named(width, |dice| {
                    let chosen = values.iter().filter(|_| dice.one_in(2));
                    chosen.map(|value| value.number).sum()
                }),
                Kind::Alias(target) => self.value(target),
                Kind::Struct(fields) => fields.iter().for_each(|field| self.value(field.shape)),
                Kind::Union(fields) => {
                    let longest = fields.iter().map(|field| width_of(field.shape)).max().unwrap_or(0);
                    let end = self.out.len() + longest;
                    let arm = self.dice.below(fields.len());
                    self.value(fields[arm].shape);
                    self.out.resize(end, 0);
                }
            },
        }
    }
}

/// Returns the encoded length of a type, in bytes; without the elements of an array of variable length.
pub fn width_of(shape: &Shape) -> usize {
    match shape {
        Shape::Plain("u16" | "i16") => 2,
        Shape::Plain("u32" | "i32") | Shape::Line => 4,
        Shape::Plain("u64" | "i64" | "f64") => 8,
        Shape::Plain(_) => 1,
        Shape::Text(n) => *n,
        Shape::Count(of) => width_of(of),
        Shape::Tail(_) => 0,
        Shape::Array(element, n) => n * width_of(element),
        Shape::Defined(Definition { kind, .. }) => match kind {
            Kind::Enum(of, _) | Kind::Flags(of, _) | Kind::Alias(of) => width_of(of),
            Kind::Struct(fields) => fields.iter().map(|field| width_of(field.shape)).sum(),
            Kind::Union(fields) => fields.iter().map(|field| width_of(field.shape)).max().unwrap_or(0),
        },
    }
}

/// Returns a complete message with this identifier and the fields of its definition. A count in it may be larger than the number of
/// elements.
fn whole(info: &Info, id: u16, dice: &mut Dice) -> Vec<u8> {
    let mut maker = Maker { dice, out: id.to_be_bytes().to_vec(), count: 0 };
    info.all().for_each(|field| maker.value(field.shape));
    maker.out
}

/// Returns a message of any type in the table, in some cases with changes. The message has at least its identifier.
pub fn message(table: &Table<Context>, dice: &mut Dice) -> Vec<u8> {
    let entries = table.entries();
    // Clients send requests, mostly.
    let at = match dice.one_in(8) {
        true => dice.below(entries.len()),
        false => {
            let requests: Vec<usize> =
                (0..entries.len()).filter(|at| entries[*at].service.is_some()).collect();
            dice.one_of(&requests)
        }
    };
    let mut message = whole(&entries[at].info, at as u16 + 1, dice);
    match dice.below(12) {
        0 => {
            let end = 2 + dice.below(message.len() - 1);
            message.truncate(end);
        }
        1 => {
            let more = dice.below(64);
            message.extend(dice.bytes(more).collect::<Vec<_>>());
        }
        2 | 3 => {
            for _ in 0..=dice.below(8) {
                let at = dice.below(message.len());
                message[at] ^= 1 << dice.below(8);
            }
        }
        4 => {
            let at = dice.below(message.len());
            let end = (at + dice.below(8)).min(message.len());
            message[at..end].fill(0xff);
        }
        5 => {
            let n = dice.below(300);
            message.truncate(2);
            message.extend(dice.bytes(n).collect::<Vec<_>>());
        }
        // Another identifier: the message then has the fields of another one.
        6 => message[..2].copy_from_slice(&(dice.below(entries.len() + 2) as u16).to_be_bytes()),
        _ => {}
    }
    // Without slashes, no message can name a file outside of the router's folder.
    message.iter_mut().filter(|b| **b == b'/').for_each(|b| *b = b'_');
    message
}

/// Returns the minimum length in bytes of a message with this description, and true if all such messages have this length.
pub fn length(info: &Info) -> (usize, bool) {
    let least = 2 + info.all().map(|field| width_of(field.shape)).sum::<usize>();
    let varies = info.fields.iter().any(|field| matches!(field.shape, Shape::Line) || has_tail(field.shape));
    (least, !varies)
}

fn has_tail(shape: &Shape) -> bool {
    match shape {
        Shape::Tail(_) => true,
        Shape::Defined(Definition { kind: Kind::Struct(fields), .. }) => {
            fields.iter().any(|field| has_tail(field.shape))
        }
        _ => false,
    }
}

/// Returns the request `control_ping` with this context.
pub fn ping(table: &Table<Context>, context: u32) -> Vec<u8> {
    let id = table.id("control_ping").expect("every router has it");
    [&id.to_be_bytes()[..], &[0; 4], &context.to_be_bytes()].concat()
}

/// Returns the request `cli_inband` with this command.
pub fn command(table: &Table<Context>, line: &str) -> Vec<u8> {
    let id = table.id("cli_inband").expect("every router has it");
    [&id.to_be_bytes()[..], &[0; 8], &(line.len() as u32).to_be_bytes(), line.as_bytes()].concat()
}

/// Returns the context of an answer; `None` if answers of this type have no context.
pub fn context(info: &Info, message: &[u8]) -> Option<u32> {
    let at = match info.head {
        Head::Reply | Head::Unsigned | Head::Details => 2,
        Head::Request => 6,
        Head::Event | Head::Bare => return None,
    };
    Some(u32::from_be_bytes(message.get(at..at + 4)?.try_into().ok()?))
}

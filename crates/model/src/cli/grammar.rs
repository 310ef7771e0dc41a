//! The syntax in which commands are declared.
//!
//! ```text
//! ip route add <prefix:prefix> [table <table:u32>] {via <via:ip> [<interface:interface>] | drop}... [count <n:u32>]
//! ```
//! A bare word is a keyword, `<name:type>` an argument, `[…]` an optional group and `{… | …}` a choice. `a/b/c`
//! is a keyword with synonyms: handlers use its first name, `a`. Keywords may be typed in capitals. Adjacent
//! optional groups may come in any order, each at most once. Every optional group and every alternative must
//! consume a word, so `[[a]]` is refused. `{… | …}...` is a choice that may be repeated, and a command has at
//! most one of these: its handler reads the words of each [round](super::Args::rounds). Types:
//!
//! | type | takes | value |
//! |---|---|---|
//! | `word` | one word, or a quoted text | `String` |
//! | `text` | the rest of the line | `String` |
//! | `path` | a file name, relative to the client's directory | `PathBuf` |
//! | `u8`, `u16`, `u32`, `u64` | a number, decimal or `0x…` | the number |
//! | `1..4094` | a number in this range, the ends included | the number |
//! | `range` | two numbers, the first one not above the second: `20-22` | `(u32, u32)` |
//! | `ip` | an address: `192.0.2.1`, `2001:db8::1` | `IpAddr` |
//! | `address`, `address4` | `192.0.2.1/24`, `2001:db8::1/64`, the address of an interface and its network | `(IpAddr, u8)` |
//! | `prefix`, `prefix4`, `prefix6` | `192.0.2.0/24`, `2001:db8::/32`; host bits stay; a bare address is a host prefix | `(IpAddr, u8)` |
//! | `mac` | `02:00:00:00:00:01` | `wire::Mac` |
//! | `interface`, `node`, `punt-reason`, `log-class`, `log-level` | a name of this kind that [`Values`](super::Values) lists | `String` |
//! | `table` | a number, or a name whose number [`Values`](super::Values) returns | the number |
//! | the name of a kind of [`objects`](super::Registry::objects) | the name of such an object | `String` |

use std::ops::RangeInclusive;

use crate::family::Family;

/// The type of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One word.
    Word,
    /// The rest of the line.
    Text,
    /// A file name.
    Path,
    /// A number in this range.
    Number(RangeInclusive<u64>),
    /// A first and a last number.
    Range,
    /// An address.
    Ip,
    /// An address with a prefix length. If a family is given, the address is of that family.
    Address(Option<Family>),
    /// A prefix, or an address, which means its host prefix. If a family is given, the value is of that family.
    Prefix(Option<Family>),
    /// An Ethernet address.
    Mac,
    /// The name of something of this kind that exists in the router, such as an interface.
    Name(String),
    /// The number or the name of a numbered object of this kind.
    Numbered(String),
}

impl Kind {
    /// Returns the argument type called `text`; `None` if there is no such type. Each kind of objects in `objects` is also an argument
    /// type.
    fn parse(text: &str, objects: &[&str]) -> Option<Kind> {
        Some(match text {
            "word" => Kind::Word,
            "text" => Kind::Text,
            "path" => Kind::Path,
            "u8" => Kind::Number(0..=u8::MAX.into()),
            "u16" => Kind::Number(0..=u16::MAX.into()),
            "u32" => Kind::Number(0..=u32::MAX.into()),
            "u64" => Kind::Number(0..=u64::MAX),
            "range" => Kind::Range,
            "ip" => Kind::Ip,
            "address" => Kind::Address(None),
            "address4" => Kind::Address(Some(Family::V4)),
            "prefix" => Kind::Prefix(None),
            "prefix4" => Kind::Prefix(Some(Family::V4)),
            "prefix6" => Kind::Prefix(Some(Family::V6)),
            "mac" => Kind::Mac,
            "interface" | "node" | "punt-reason" | "log-class" | "log-level" => Kind::Name(text.into()),
            "table" => Kind::Numbered(text.into()),
            _ if objects.contains(&text) => Kind::Name(text.into()),
            _ => {
                let (first, last) = text.split_once("..")?;
                let range = first.parse().ok()?..=last.parse().ok()?;
                Kind::Number((!range.is_empty()).then_some(range)?)
            }
        })
    }

    /// Returns a description of the expected value, for error messages and help.
    pub(super) fn describe(&self) -> String {
        match self {
            Kind::Word => "a word".into(),
            Kind::Text => "text".into(),
            Kind::Path => "a file name".into(),
            Kind::Number(range) => format!("a number from {} to {}", range.start(), range.end()),
            Kind::Range => "a range of numbers (such as 20-22)".into(),
            Kind::Ip => "an IP address (such as 192.0.2.1 or 2001:db8::1)".into(),
            Kind::Address(family) => format!(
                "{} with its prefix length (such as {})",
                some(*family, "address"),
                such_as(*family, "192.0.2.1/24, 192.0.2.1/32", "2001:db8::1/64")
            ),
            Kind::Prefix(family) => {
                let example = such_as(*family, "192.0.2.0/24", "2001:db8::/32");
                format!("{} (such as {example}) or address", some(*family, "prefix"))
            }
            Kind::Mac => "a MAC address (such as 02:00:00:00:00:01)".into(),
            Kind::Name(kind) if kind.starts_with(['a', 'e', 'i', 'o', 'u']) => {
                format!("the name of an {kind}")
            }
            Kind::Name(kind) => format!("the name of a {kind}"),
            Kind::Numbered(kind) => format!("the number or name of a {kind}"),
        }
    }
}

/// Returns a description such as "an IPv4 address", or "an IP address" without a family; `what` is the noun.
fn some(family: Option<Family>, what: &str) -> String {
    family.map_or_else(|| format!("an IP {what}"), |family| format!("an {} {what}", family.name()))
}

/// Returns the example of `family`; without a family, both examples.
fn such_as(family: Option<Family>, ip4: &str, ip6: &str) -> String {
    match family {
        None => format!("{ip4} or {ip6}"),
        Some(Family::V4) => ip4.into(),
        Some(Family::V6) => ip6.into(),
    }
}

/// A keyword of the grammar with its synonyms, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Keyword {
    /// The keyword's name for handlers, whichever spelling was typed.
    pub(super) name: String,
    /// The alternative spellings.
    synonyms: Vec<String>,
}

impl Keyword {
    fn parse(symbol: &str) -> Keyword {
        let mut spellings = symbol.split('/').map(str::to_owned);
        Keyword { name: spellings.next().unwrap_or_default(), synonyms: spellings.collect() }
    }

    /// Returns the word and its synonyms.
    pub(super) fn spellings(&self) -> impl Iterator<Item = &str> {
        [&self.name].into_iter().chain(&self.synonyms).map(String::as_str)
    }

    /// Returns the first spelling that begins with `word`. Upper and lower case are equal.
    pub(super) fn completed(&self, word: &str) -> Option<&str> {
        self.spellings().find(|spelling| {
            spelling.get(..word.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(word))
        })
    }

    /// True if `word` is one of the spellings. Upper and lower case are equal.
    pub(super) fn is(&self, word: &str) -> bool {
        self.spellings().any(|spelling| spelling.eq_ignore_ascii_case(word))
    }
}

/// An element that consumes one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Leaf {
    /// The keyword itself, or its beginning.
    Keyword(Keyword),
    /// A value.
    Arg {
        /// Its name for the handler.
        name: String,
        /// Its type.
        kind: Kind,
    },
}

/// A sequence of elements.
pub(super) type Seq = Vec<Item>;

/// An element of the grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// An element that consumes one word (or, if it is text, the rest of the line).
    Leaf(Leaf),
    /// Exactly one of these sequences.
    Choice(Vec<Seq>),
    /// One of these sequences, once or more.
    Rounds(Vec<Seq>),
    /// Each of these sequences at most once, in any order.
    Optional(Vec<Seq>),
}

/// The mark after a choice that may be repeated.
const AGAIN: &str = "...";

/// True if a sequence can match without consuming a word.
fn may_be_empty(seq: &[Item]) -> bool {
    seq.iter().all(|item| match item {
        Item::Leaf(_) => false,
        Item::Choice(ways) | Item::Rounds(ways) => ways.iter().any(|way| may_be_empty(way)),
        Item::Optional(_) => true,
    })
}

/// False if no line that begins with `word` can match the sequence. True does not mean that one can.
pub(super) fn may_begin_with(seq: &[Item], word: &str) -> bool {
    match seq.first() {
        Some(Item::Leaf(Leaf::Keyword(keyword))) => keyword.completed(word).is_some(),
        _ => true,
    }
}

/// Parses `syntax`, the declaration of a command. Besides the built-in types, an argument can have a kind of objects in `objects`
/// as its type. The error says what is wrong with the declaration.
pub(super) fn parse(syntax: &str, objects: &[&str]) -> Result<Seq, String> {
    let symbols = split(syntax)?;
    if symbols.iter().filter(|symbol| **symbol == AGAIN).count() > 1 {
        return Err(format!("more than one '{AGAIN}': the rounds would be ambiguous"));
    }
    let mut rest = symbols.as_slice();
    let seq = sequence(&mut rest, objects)?;
    if let Some(extra) = rest.first() {
        return Err(format!("'{extra}' without an opening bracket"));
    }
    if may_be_empty(&seq) {
        return Err("a command must begin with a word".into());
    }
    Ok(seq)
}

/// Splits a declaration into brackets, bars, arguments and keywords.
fn split(syntax: &str) -> Result<Vec<&str>, String> {
    let mut symbols = Vec::new();
    let mut rest = syntax.trim_start();
    while let Some(first) = rest.chars().next() {
        let len = match first {
            '[' | ']' | '{' | '}' | '|' => 1,
            '<' => rest.find('>').ok_or("'<' without '>'")? + 1,
            _ => rest.find(|c: char| c.is_whitespace() || "[]{}|<".contains(c)).unwrap_or(rest.len()),
        };
        let (symbol, after) = rest.split_at(len);
        symbols.push(symbol);
        rest = after.trim_start();
    }
    Ok(symbols)
}

/// Parses up to a closing bracket or a bar. The bracket or bar stays in `rest`.
fn sequence(rest: &mut &[&str], objects: &[&str]) -> Result<Seq, String> {
    let mut seq = Seq::new();
    while let Some((&symbol, after)) = rest.split_first() {
        if matches!(symbol, "]" | "}" | "|") {
            break;
        }
        *rest = after;
        match symbol {
            "[" => {
                let group = group(rest, "]", objects)?;
                match seq.last_mut() {
                    Some(Item::Optional(groups)) => groups.extend(group),
                    _ => seq.push(Item::Optional(group)),
                }
            }
            "{" => {
                let ways = group(rest, "}", objects)?;
                seq.push(match rest.split_first() {
                    Some((&AGAIN, after)) => {
                        *rest = after;
                        Item::Rounds(ways)
                    }
                    _ => Item::Choice(ways),
                });
            }
            AGAIN => return Err(format!("'{AGAIN}' without '}}' before it")),
            _ => seq.push(Item::Leaf(leaf(symbol, objects)?)),
        }
    }
    Ok(seq)
}

/// Parses alternatives up to and including the bracket `close`.
fn group(rest: &mut &[&str], close: &str, objects: &[&str]) -> Result<Vec<Seq>, String> {
    let mut ways = Vec::new();
    loop {
        let way = sequence(rest, objects)?;
        if may_be_empty(&way) {
            return Err(format!("a group before '{close}' can be empty"));
        }
        ways.push(way);
        let (&symbol, after) = rest.split_first().ok_or_else(|| format!("'{close}' is missing"))?;
        *rest = after;
        match symbol {
            "|" if close == "}" => {}
            _ if symbol == close => return Ok(ways),
            _ => return Err(format!("expected '{close}', found '{symbol}'")),
        }
    }
}

fn leaf(symbol: &str, objects: &[&str]) -> Result<Leaf, String> {
    let Some(inner) = symbol.strip_prefix('<').and_then(|s| s.strip_suffix('>')) else {
        let faulty = symbol.split('/').any(str::is_empty);
        return match faulty {
            true => Err(format!("'{symbol}' has an empty synonym")),
            false => Ok(Leaf::Keyword(Keyword::parse(symbol))),
        };
    };
    let (name, kind) = inner.split_once(':').ok_or_else(|| format!("{symbol} lacks a type"))?;
    let kind = Kind::parse(kind, objects).ok_or_else(|| format!("{symbol} has an unknown type"))?;
    Ok(Leaf::Arg { name: name.into(), kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(syntax: &str) -> Result<Seq, String> {
        super::parse(syntax, &["note"])
    }

    fn keyword(text: &str) -> Item {
        Item::Leaf(Leaf::Keyword(Keyword::parse(text)))
    }

    #[test]
    fn adjacent_groups_are_merged() {
        let seq = parse("a [b] [c {d|e}] f").unwrap();
        let choice = Item::Choice(vec![vec![keyword("d")], vec![keyword("e")]]);
        let optional = Item::Optional(vec![vec![keyword("b")], vec![keyword("c"), choice]]);
        assert_eq!(seq, [keyword("a"), optional, keyword("f")]);
    }

    #[test]
    fn a_choice_can_be_repeated() {
        let seq = parse("a [{b|c}...] d").unwrap();
        let rounds = Item::Rounds(vec![vec![keyword("b")], vec![keyword("c")]]);
        assert_eq!(seq, [keyword("a"), Item::Optional(vec![vec![rounds]]), keyword("d")]);
    }

    #[test]
    fn a_keyword_can_have_synonyms() {
        let Some(Item::Leaf(Leaf::Keyword(word))) = parse("neighbors/arp").unwrap().pop() else { panic!() };
        assert_eq!(word.name, "neighbors");
        assert!(word.is("Arp") && word.is("neighbors") && !word.is("neighbor"));
        assert_eq!(
            [word.completed("NEI"), word.completed("a"), word.completed("x")],
            [Some("neighbors"), Some("arp"), None]
        );
    }

    #[test]
    fn arguments_have_types() {
        let seq =
            parse("x <n:u16> <if:interface> <s:node> <o:note> <r:range> <t:table> <v:1..4094>").unwrap();
        let arg = |name: &str, kind| Item::Leaf(Leaf::Arg { name: name.into(), kind });
        let name = |kind: &str| Kind::Name(kind.into());
        assert_eq!(
            seq[1..],
            [
                arg("n", Kind::Number(0..=65535)),
                arg("if", name("interface")),
                arg("s", name("node")),
                arg("o", name("note")),
                arg("r", Kind::Range),
                arg("t", Kind::Numbered("table".into())),
                arg("v", Kind::Number(1..=4094))
            ]
        );
    }

    #[test]
    fn faulty_declarations_are_refused() {
        for (syntax, part) in [
            ("", "begin"),
            ("[a]", "begin"),
            ("a [b", "missing"),
            ("a b]", "without an opening bracket"),
            ("a [b | c]", "found '|'"),
            ("a {b]", "found ']'"),
            ("a [[b]]", "empty"),
            ("a {b | }", "empty"),
            ("a ...", "without '}'"),
            ("a [b] ...", "without '}'"),
            ("a {b}... {c}...", "more than one"),
            ("a <b", "without"),
            ("a b/", "empty synonym"),
            ("a <b:9..1>", "9..1"),
            ("a <b:1..>", "1.."),
            ("a <b>", "lacks a type"),
            ("a <b:u7>", "unknown type"),
        ] {
            let error = parse(syntax).unwrap_err();
            assert!(error.contains(part), "{syntax}: {error}");
        }
    }
}

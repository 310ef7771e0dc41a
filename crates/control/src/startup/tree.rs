//! Parses tokens into a tree: sections, each with a body of words and nested blocks.

use super::lex::{Kind, Token};
use model::place::{Fault, Place};

/// Maximum nesting of braces; no parameter needs more than three levels.
const DEPTH: usize = 8;

/// A word and its place.
#[derive(Clone, Debug)]
pub struct Word {
    /// The word, without quotes.
    pub text: String,
    /// Where it starts.
    pub place: Place,
}

/// A braced list.
#[derive(Clone, Debug)]
pub struct Block {
    /// The items between the braces.
    pub items: Vec<Item>,
    /// The opening brace.
    pub open: Place,
    /// The closing brace.
    pub close: Place,
}

/// An item of a body.
#[derive(Clone, Debug)]
pub enum Item {
    /// A word.
    Word(Word),
    /// A block that belongs to the words before it.
    Block(Block),
}

impl Item {
    /// Returns its place.
    pub fn place(&self) -> &Place {
        match self {
            Self::Word(word) => &word.place,
            Self::Block(block) => &block.open,
        }
    }
}

/// `name { … }`; or `name word`, short for a body of one word.
#[derive(Clone, Debug)]
pub struct Section {
    /// The name.
    pub name: Word,
    /// The body.
    pub items: Vec<Item>,
    /// The end of the body.
    pub end: Place,
}

/// Returns the sections in order. Also returns the faults: unmatched braces, blocks without a section name, and sections without a
/// body.
pub fn parse(tokens: Vec<Token>) -> (Vec<Section>, Vec<Fault>) {
    let (items, mut faults) = nest(tokens);
    let mut sections = Vec::new();
    let mut items = items.into_iter();
    while let Some(item) = items.next() {
        let name = match item {
            Item::Word(name) => name,
            Item::Block(block) => {
                faults.push(Fault::new(&block.open, "expected the name of a section before this '{'"));
                continue;
            }
        };
        match items.next() {
            Some(Item::Block(block)) => sections.push(Section { name, items: block.items, end: block.close }),
            Some(Item::Word(word)) => {
                let end = word.place.clone();
                sections.push(Section { name, items: vec![Item::Word(word)], end });
            }
            None => {
                let message = format!("'{}' has no body: expected '{{' after a section's name", name.text);
                faults.push(Fault::new(&name.place, message));
            }
        }
    }
    (sections, faults)
}

/// Matches braces. Keeps the items of an unclosed block, so that faults in it are found, too.
fn nest(tokens: Vec<Token>) -> (Vec<Item>, Vec<Fault>) {
    let mut faults = Vec::new();
    let mut items = Vec::new();
    let mut outer: Vec<(Place, Vec<Item>)> = Vec::new();
    for Token { kind, place } in tokens {
        match kind {
            Kind::Word(text) => items.push(Item::Word(Word { text, place })),
            Kind::Open if outer.len() == DEPTH => {
                faults.push(Fault::new(&place, format!("braces are nested deeper than {DEPTH}")));
                break;
            }
            Kind::Open => outer.push((place, std::mem::take(&mut items))),
            Kind::Close => match outer.pop() {
                Some((open, before)) => {
                    let block = Block { items: std::mem::replace(&mut items, before), open, close: place };
                    items.push(Item::Block(block));
                }
                None => faults.push(Fault::new(&place, "this '}' closes nothing: expected a '{' before it")),
            },
        }
    }
    while let Some((open, before)) = outer.pop() {
        faults.push(Fault::new(&open, "this '{' is not closed: expected a '}' for it"));
        let close = open.clone();
        let block = Block { items: std::mem::replace(&mut items, before), open, close };
        items.push(Item::Block(block));
    }
    (items, faults)
}

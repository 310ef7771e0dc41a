//! Splits text into tokens: words, `{` and `}`, each with its place.
//!
//! White space separates words; braces need none around them. A word that starts with `#` begins a comment, which ends with the line. A
//! word in double quotes may have any characters except control characters, such as line feeds. Inside the quotes, `\"` and `\\` are a
//! quote and a backslash.

use model::place::{Fault, Place};
use std::{iter::Peekable, str::Chars, sync::Arc};

/// The kind of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `{`
    Open,
    /// `}`
    Close,
    /// A word, without its quotes.
    Word(String),
}

/// A token and the place of its first character.
#[derive(Clone, Debug)]
pub struct Token {
    /// Its kind.
    pub kind: Kind,
    /// Where it starts.
    pub place: Place,
}

/// The origin of a text.
pub enum Source {
    /// A file with this name.
    File(Arc<str>),
    /// The argument with this number, counted from 1.
    Argument(usize),
}

/// Returns the tokens of `text`, and the faults that it finds: unclosed quotes and control characters.
pub fn lex(text: &str, source: &Source) -> (Vec<Token>, Vec<Fault>) {
    let mut lexer = Lexer { rest: text.chars().peekable(), source, line: 1, column: 1 };
    let (mut tokens, mut faults) = (Vec::new(), Vec::new());
    while let Some(&c) = lexer.rest.peek() {
        let place = lexer.place();
        let kind = match c {
            _ if c.is_whitespace() => {
                lexer.bump();
                continue;
            }
            '#' => {
                lexer.take_while(|c| c != '\n');
                continue;
            }
            '{' | '}' => {
                lexer.bump();
                if c == '{' { Kind::Open } else { Kind::Close }
            }
            '"' => match lexer.quoted() {
                Some(word) => Kind::Word(word),
                None => {
                    faults
                        .push(Fault::new(&place, "this quote is not closed: expected '\"' on the same line"));
                    continue;
                }
            },
            _ => Kind::Word(lexer.take_while(|c| !c.is_whitespace() && c != '{' && c != '}')),
        };
        match &kind {
            Kind::Word(word) if word.chars().any(model::visible::is_hidden) => {
                faults.push(Fault::new(&place, "control character in a word: expected plain text"));
            }
            _ => tokens.push(Token { kind, place }),
        }
    }
    (tokens, faults)
}

struct Lexer<'a> {
    rest: Peekable<Chars<'a>>,
    source: &'a Source,
    line: usize,
    column: usize,
}

impl Lexer<'_> {
    fn place(&self) -> Place {
        match self.source {
            Source::File(file) => Place::File { file: file.clone(), line: self.line, column: self.column },
            Source::Argument(number) => Place::Argument(*number),
        }
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        if c == '\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
        Some(c)
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(&c) = self.rest.peek()
            && belongs(c)
        {
            taken.push(c);
            self.bump();
        }
        taken
    }

    /// Reads a quoted word from its opening quote. Returns `None` if the line ends first.
    fn quoted(&mut self) -> Option<String> {
        self.bump();
        let mut word = String::new();
        while self.rest.peek().is_some_and(|&c| c != '\n') {
            match self.bump()? {
                '"' => return Some(word),
                '\\' if matches!(self.rest.peek(), Some('"' | '\\')) => word.extend(self.bump()),
                c => word.push(c),
            }
        }
        None
    }
}

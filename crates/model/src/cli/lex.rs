//! Splitting a line into words.

use super::error::CliError;
use std::borrow::Cow;
use std::ops::Range;

/// The word that makes a line of VPP's scripts a comment.
const COMMENT: &str = "comment";

/// Maximum number of words in a line. The time and the stack needed for a line grow with its words, and the
/// main thread parses lines of read-only clients, too.
pub(super) const MOST_WORDS: usize = 4096;

/// A word of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// The word without its quotes.
    pub text: Cow<'a, str>,
    /// The word's range of bytes in the line, quotes included.
    pub span: Range<usize>,
    /// True if at least a part of the word is quoted. Such a word is a value, never a keyword.
    pub quoted: bool,
}

/// The words of a line. Also says where an unclosed quote or a comment begins.
#[derive(Debug, Default)]
pub struct Line<'a> {
    /// The words, in order.
    pub tokens: Vec<Token<'a>>,
    /// Offset of the unclosed quote in bytes, if there is one.
    pub open_quote: Option<usize>,
    /// Offset of the comment in bytes; the length of the line if there is no comment.
    pub end: usize,
}

impl<'a> Line<'a> {
    /// Splits `line` at white space. `"…"` and `'…'` quote a word; inside `"…"`, `\` escapes the next
    /// character. A `#` at the start of a word begins a comment. A line that begins with `//` or with the
    /// word `comment` is a comment.
    pub fn read(line: &'a str) -> Line<'a> {
        let mut found = Line { end: line.len(), ..Line::default() };
        if is_comment(line) {
            found.end = line.len() - line.trim_start().len();
            return found;
        }
        let mut chars = line.char_indices().peekable();
        while let Some(&(start, first)) = chars.peek() {
            if first.is_whitespace() {
                chars.next();
                continue;
            }
            if first == '#' {
                found.end = start;
                break;
            }
            let mut quote: Option<(char, usize)> = None;
            // Filled once the word differs from its text in the line.
            let mut changed: Option<String> = None;
            let mut end = start;
            while let Some(&(at, c)) = chars.peek() {
                if quote.is_none() && c.is_whitespace() {
                    break;
                }
                chars.next();
                end = at + c.len_utf8();
                let prefix = || line.get(start..at).unwrap_or_default().to_owned();
                match quote {
                    Some((mark, _)) if c == mark => quote = None,
                    Some(('"', _)) if c == '\\' => {
                        if let Some((at, next)) = chars.next() {
                            end = at + next.len_utf8();
                            changed.get_or_insert_with(prefix).push(next);
                        }
                    }
                    None if c == '"' || c == '\'' => {
                        quote = Some((c, at));
                        changed.get_or_insert_with(prefix);
                    }
                    _ => {
                        if let Some(text) = &mut changed {
                            text.push(c);
                        }
                    }
                }
            }
            found.open_quote = quote.map(|(_, at)| at);
            let quoted = changed.is_some();
            let text =
                changed.map_or_else(|| Cow::Borrowed(line.get(start..end).unwrap_or_default()), Cow::Owned);
            found.tokens.push(Token { text, span: start..end, quoted });
        }
        found
    }

    /// As [`read`](Line::read), but `line` must be complete.
    ///
    /// # Errors
    /// Fails if a quote is not closed, or the line has too many words.
    pub fn whole(line: &'a str) -> Result<Line<'a>, CliError> {
        let found = Line::read(line);
        match found.open_quote {
            _ if found.is_too_long() => {
                Err(CliError::new(format!("the line is too long: a command has at most {MOST_WORDS} words")))
            }
            Some(at) => Err(CliError::new("this quote is not closed").at(line, at..at + 1)),
            None => Ok(found),
        }
    }

    /// True if the line has more words than a command may have.
    pub(super) fn is_too_long(&self) -> bool {
        self.tokens.len() > MOST_WORDS
    }
}

/// True if the whole line is a comment: it begins with `//`, or with VPP's word `comment`.
pub fn is_comment(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    first.starts_with("//") || first.eq_ignore_ascii_case(COMMENT)
}

/// Returns the text after the word `comment` at the start of a line; `None` if the line begins with another word. If the text is a block
/// in braces, it may continue in the following lines.
pub fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.get(..COMMENT.len()).filter(|_| is_comment(line) && !line.starts_with("//"))?;
    line.get(COMMENT.len()..)
}

/// Returns `word`, quoted if necessary, so that the parser reads it as one word. A brace or a backslash is quoted, too: without quotes, it
/// could continue the command on the next line of a file.
pub fn quote(word: &str) -> Cow<'_, str> {
    quote_if(word, "\"'{}\\")
}

/// As [`quote`], for a word that a user has typed in a shell. Braces are not quoted: they group words, as in a command that is typed at
/// the prompt.
pub fn quote_typed(word: &str) -> Cow<'_, str> {
    quote_if(word, "\"'")
}

/// Returns `word`, quoted if it contains one of the characters `special`, or if the parser would not read it as one word without quotes.
fn quote_if<'w>(word: &'w str, special: &str) -> Cow<'w, str> {
    let plain = !word.is_empty()
        && word != "|"
        && !word.starts_with('#')
        && !is_comment(word)
        && !word.contains(|c: char| c.is_whitespace() || special.contains(c));
    if plain {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// As [`quote`], but also quotes `?` and `--json`, for a word that may be the last one of a command: there
/// `?` requests help, and `--json` JSON output.
pub fn quote_last(word: &str) -> Cow<'_, str> {
    match word {
        "?" | "--json" | "-j" => Cow::Owned(format!("\"{word}\"")),
        _ => quote(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(line: &str) -> Vec<String> {
        Line::whole(line).unwrap().tokens.into_iter().map(|t| t.text.into_owned()).collect()
    }

    #[test]
    fn words_quotes_and_comments() {
        assert_eq!(words("  set  int # no"), ["set", "int"]);
        assert_eq!(words("a#b 'c d' \"e \\\"f\" g'h i'j ''"), ["a#b", "c d", "e \"f", "gh ij", ""]);
        assert_eq!(words("# all"), [""; 0]);
        assert_eq!(words("#"), [""; 0]);
        for line in ["// it's", "  //x", "comment { don't }", "Comment", "comment\tx"] {
            assert_eq!(words(line), [""; 0], "{line}");
        }
        assert_eq!(words("a //b comment"), ["a", "//b", "comment"]);
        assert_eq!(words("comments x"), ["comments", "x"]);
    }

    #[test]
    fn places_are_bytes_of_the_line() {
        let line = "é 'b c' d";
        let found = Line::read(line);
        let parts: Vec<_> = found.tokens.iter().map(|t| (&line[t.span.clone()], t.quoted)).collect();
        assert_eq!(parts, [("é", false), ("'b c'", true), ("d", false)]);
        assert_eq!(Line::read("ab  # c").end, 4);
    }

    #[test]
    fn an_open_quote_is_marked() {
        let error = Line::whole("say 'it").unwrap_err();
        assert_eq!(error.render(), "say 'it\n    ^\nthis quote is not closed");
        assert!(Line::whole("say \"it\\").is_err());
    }

    #[test]
    fn a_word_that_starts_like_a_comment_is_quoted() {
        for word in ["//", "//x", "comment", "COMMENT", "#x"] {
            assert_eq!(words(&quote(word)), [word]);
        }
        assert_eq!(quote("comments"), "comments");
    }

    proptest! {
        #[test]
        fn quoted_words_are_read_back(list in prop::collection::vec(".*", 0..5)) {
            let line = list.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(words(&line), list);
        }
    }
}

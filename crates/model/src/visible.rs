//! Hidden characters: those that control a terminal, or change the direction of text.
//!
//! A terminal must not get them from a name, a path or a peer. They are refused in typed words, so that the
//! configuration contains none. In output, [`visible`] escapes them.

use std::borrow::Cow;
use std::fmt::Write;

/// True for characters that control a terminal (C0, DEL, C1) or the direction of text.
pub fn is_hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns an error text about the first hidden character of `word`; `None` if it has none.
pub fn hidden(word: &str) -> Option<String> {
    let c = word.chars().find(|c| is_hidden(*c))?;
    Some(format!("the character U+{:04X} cannot be part of a word: it controls terminals", u32::from(c)))
}

/// Returns the text with each hidden character escaped, for example as `\u001b`, which JSON reads as that
/// character. Line feeds and tabs stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    let escapes = |c: char| is_hidden(c) && !matches!(c, '\n' | '\t');
    // Nearly all text: this loop has no branches.
    let plain = |b: u8| (b' '..=b'~').contains(&b) | (b == b'\n') | (b == b'\t');
    if text.bytes().fold(true, |all, b| all & plain(b)) || !text.contains(escapes) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        // Writing to a string cannot fail.
        let _ = if escapes(c) { write!(shown, "\\u{:04x}", u32::from(c)) } else { shown.write_char(c) };
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(visible("a\x1b[2J\r\n\tb\u{7f}\u{9b}"), "a\\u001b[2J\\u000d\n\tb\\u007f\\u009b");
        assert_eq!(visible("\u{202e}x\u{2069} é →"), "\\u202ex\\u2069 é →");
        assert!(matches!(visible("a\nb"), Cow::Borrowed(_)));
        let json = serde_json::to_string("\u{9b}\u{202e}\"").unwrap();
        assert_eq!(serde_json::from_str::<String>(&visible(&json)).unwrap(), "\u{9b}\u{202e}\"");
        assert!(hidden("a\tb").unwrap().contains("U+0009") && hidden("é").is_none());
    }
}

//! Escapes of JSON that YAML does not have.

use std::borrow::Cow;

/// Replaces pairs of escaped surrogates, such as `\ud83d\ude00`, by their characters. JSON escapes characters beyond 16 bits in this form
/// (RFC 8259 section 7), but YAML parsers do not accept it. All other text stays unchanged, even a surrogate without its pair, which the
/// YAML parser then refuses.
pub fn join_surrogates(text: &str) -> Cow<'_, str> {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return text.into();
    }
    let (mut joined, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        joined.push_str(before);
        let pair = unit(escape).zip(escape.get(6..).and_then(unit));
        let character = pair.and_then(|(high, low)| char::decode_utf16([high, low]).next()?.ok());
        match character.filter(|c| u32::from(*c) > 0xffff) {
            Some(character) => {
                joined.push(character);
                rest = escape.get(12..).unwrap_or_default();
            }
            None => {
                // An escaped backslash does not begin another escape.
                let end = escape.char_indices().nth(2).map_or(escape.len(), |(end, _)| end);
                let (kept, after) = escape.split_at(end);
                joined.push_str(kept);
                rest = after;
            }
        }
    }
    joined.push_str(rest);
    joined.into()
}

/// Returns the code unit of the escape `\uXXXX` at the beginning.
fn unit(escape: &str) -> Option<u16> {
    let digits = escape.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok().filter(|_| digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pairs_become_characters_and_the_rest_stays() {
        let cases = [
            (r#"{"a": "\ud83d\ude00!"}"#, "{\"a\": \"😀!\"}"),
            (r"\\ud83d\ude00", r"\\ud83d\ude00"),
            (r"\\\ud83d\ude00", "\\\\😀"),
            (r"\ud83d \ude00 \ud83d", r"\ud83d \ude00 \ud83d"),
            (r"\u00e9\ud83", r"\u00e9\ud83"),
        ];
        for (text, joined) in cases {
            assert_eq!(join_surrogates(text), joined);
        }
    }

    proptest! {
        /// The result has the same strings as the JSON document, as read by a JSON parser.
        #[test]
        fn the_meaning_stays(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            let escaped: String = json
                .encode_utf16()
                .map(|unit| if unit < 0x80 { char::from(unit as u8).to_string() } else { format!("\\u{unit:04x}") })
                .collect();
            prop_assert_eq!(serde_json::from_str::<String>(&join_surrogates(&escaped)).unwrap(), text);
        }
    }
}

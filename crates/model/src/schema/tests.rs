//! Tests that read and write a record with a field of every form.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::*;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Color {
    #[default]
    Green,
    Off,
}

impl Color {
    const ALL: [Color; 2] = [Color::Green, Color::Off];

    fn word(self) -> &'static str {
        if self == Color::Green { "green" } else { "off" }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Span {
    least: u8,
    most: u8,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct All {
    color: Color,
    on: bool,
    size: u16,
    name: Option<String>,
    span: Span,
    rows: Vec<u8>,
    spans: BTreeMap<u32, Span>,
    wide: BTreeMap<String, Span>,
}

static SPAN: LazyLock<Schema<Span>> = LazyLock::new(|| {
    Schema::new(Span::default())
        .field("least", number(0..=9), |s| s.least, |s, n| s.least = n, "The least.")
        .field("most", number(0..=9), |s| s.most, |s, n| s.most = n, "The most.")
        .check(|s| if s.least > s.most { Err(Bad::new("least", "more than the most")) } else { Ok(()) })
});

fn span() -> &'static Schema<Span> {
    &SPAN
}

fn index() -> Parsed<u32> {
    parsed(
        "a number",
        &["7"],
        |text| text.parse().map_err(|_| format!("{text} is no number")),
        u32::to_string,
    )
}

static ALL: LazyLock<Schema<All>> = LazyLock::new(|| {
    Schema::new(All::default())
        .field("color", words(&Color::ALL, Color::word), |a| a.color, |a, c| a.color = c, "A color.")
        .field("on", truth(), |a| a.on, |a, on| a.on = on, "A switch.")
        .field("size", number(10..=20).unit("bytes"), |a| a.size, |a, n| a.size = n, "A size.")
        .always()
        .field("name", optional(text("a name", &["x y"])), |a| a.name.clone(), |a, n| a.name = n, "A name.")
        .field("span", inline(span), |a| a.span.clone(), |a, s| a.span = s, "Inside.")
        .field("rows", list(number(0..=3)), |a| a.rows.clone(), |a, r| a.rows = r, "Numbers.")
        .field(
            "spans",
            keyed("NUMBER", index(), span, true),
            |a| a.spans.clone(),
            |a, s| a.spans = s,
            "By number.",
        )
        .field(
            "wide",
            keyed("NAME", text("a name", &["b c"]), span, false),
            |a| a.wide.clone(),
            |a, s| a.wide = s,
            "By name.",
        )
        .check(|a| if a.size == 13 { Err(Bad::new("", "not 13")) } else { Ok(()) })
});

/// Returns the result, or the faults with their places.
fn read(text: &str) -> Result<All, Vec<String>> {
    let mut r = Reader::new("f");
    let document = r.document(text, "", |_, _| ());
    let value = document.and_then(|node| ALL.read(&mut r, node.at, &node));
    assert_eq!(value.is_some(), r.faults.is_empty(), "{:?}", r.faults);
    value.ok_or_else(|| r.faults.iter().map(ToString::to_string).collect())
}

fn written(value: &All) -> String {
    let mut text = String::new();
    ALL.write(&mut Text::new(&mut text, false, false), value);
    text
}

#[test]
fn each_example_is_read_back() {
    let examples = ALL.examples();
    assert!(examples.len() > 100, "{}", examples.len());
    for value in &examples {
        // The examples contain the size 0, which is the default, but is not valid in a file.
        let value = All { size: value.size.max(10), ..value.clone() };
        assert_eq!(read(&written(&value)).as_ref(), Ok(&value), "{}", written(&value));
        assert_eq!(read(&ALL.line(&value)).as_ref(), Ok(&value), "{}", ALL.line(&value));
    }
    // Each example value of each field occurs in one of the records.
    assert!(examples.iter().any(|a| a.color == Color::Off && a.name.as_deref() == Some("x y")));
    assert!(examples.iter().any(|a| a.wide.values().any(|s| s.most == 9) && a.rows == [0, 3]));
    assert!(examples.iter().all(|a| a.span.least <= a.span.most));
}

#[test]
fn written_yaml_is_short_and_plain() {
    let span = Span { least: 1, most: 2 };
    let value = All {
        color: Color::Off,
        on: true,
        size: 10,
        name: Some("no".into()),
        span: span.clone(),
        rows: vec![1, 2],
        spans: [(3, span.clone()), (4, Span::default())].into(),
        wide: [("b c".into(), span)].into(),
    };
    let text = "color: \"off\"\non: true\nsize: 10\nname: \"no\"\nspan: { least: 1, most: 2 }\nrows: [ 1, 2 ]\nspans:\n  3:\n    \
                least: 1\n    most: 2\n  4: {}\nwide:\n  \"b c\": { least: 1, most: 2 }\n";
    assert_eq!(written(&value), text);
    assert_eq!(written(&All::default()), "size: 0\n", "what is always said, and nothing else");
}

#[test]
fn each_fault_has_its_place() {
    let faults = read("color: red\non: 7\nsize: 9\nname: \"\"\nspan: { least: 3, most: 2 }\nrows: [ 1, 9 ]\nspans: { x: {} }\nwhat: 1\n")
        .unwrap_err();
    let places: Vec<&str> = faults.iter().filter_map(|fault| fault.split(": ").next()).collect();
    assert_eq!(
        places,
        ["f:1:8", "f:2:5", "f:3:7", "f:4:7", "f:5:16", "f:6:12", "f:7:10", "f:8:1"],
        "{faults:?}"
    );
    assert_eq!(faults[4], "f:5:16: more than the most");
    // The fault is of the record as a whole, so its place is that of the record.
    assert_eq!(read("{ on: true, size: 13 }").unwrap_err(), ["f:1:1: not 13"]);
}

/// Other schemas may have fields in the same map. Those fields are not checked here, and a map with only such fields is no fault.
#[test]
fn fields_are_read_from_a_shared_map() {
    for (text, most, faults) in [
        ("{ x: 1 }", 0, 0),
        ("{ x: 1, most: 3 }", 3, 0),
        ("{ least: 4, most: 3 }", 3, 1),
        ("{ least: x, most: 3 }", 3, 1),
    ] {
        let mut r = Reader::new("f");
        let node = r.document(text, "", |_, _| ()).unwrap();
        let (mut fields, mut span) = (r.fields(&node), Span::default());
        SPAN.read_into(&mut r, &mut fields, &mut span);
        assert_eq!(span.most, most, "{text}");
        assert_eq!(r.faults.len(), faults, "{text}");
    }
}

#[test]
fn a_record_may_need_a_field() {
    let schema = || {
        Schema::new(Span::default()).field("most", number(0..=9), |s| s.most, |s, n| s.most = n, "The most.")
    };
    let schema = schema().needed("it needs a \"most\"");
    let mut r = Reader::new("f");
    let node = r.document("x: {}", "", |_, _| ()).unwrap();
    let (_, at, inner) = r.entries(&node).next().unwrap();
    assert_eq!(schema.read(&mut r, at, inner), None);
    assert_eq!(r.faults[0].to_string(), "f:1:1: it needs a \"most\"");
    assert_eq!(schema.line(&Span::default()), "{ most: 0 }");
}

#[test]
fn the_reference_lists_nested_fields() {
    let rows = ALL.rows("a.");
    let of =
        |name: &str| rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{name}: {rows:?}"));
    assert_eq!(of("a.color").values, "`green`, `off`");
    assert_eq!((of("a.color").usual.as_str(), of("a.name").usual.as_str()), ("green", ""));
    assert_eq!(of("a.size").values, "10 to 20 bytes");
    assert_eq!(of("a.span.least").help, "The least.");
    assert_eq!(of("a.spans.NUMBER.most").usual, "0");
    assert_eq!(of("a.wide").values, "maps by a name");
}

#[test]
fn the_syntax_of_commands_follows_from_the_fields() {
    assert_eq!(ALL.syntax("color", ""), "{green | off}");
    assert_eq!(SPAN.syntax("least", "n"), "<n:0..9>");
    assert_eq!(ALL.syntax("name", "name"), "<name:word>");
    assert_eq!(number(0..=u32::MAX).syntax("n"), "<n:u32>");
}

//! Filters after a command: `show interface | match eth1 | count`.
//!
//! They process the text of a command line by line while the command produces it, so that a long list is never in memory as a
//! whole.

use super::complete::{Candidate, Completion};
use super::error::CliError;
use super::lex::{Line, Token};
use super::output::{Answer, Job, Step};
use regex_automata::Input;
use regex_automata::meta::{Cache, Config, Regex};
use regex_automata::util::syntax;
use std::time::{Duration, Instant};

/// The word that separates a command from its filters.
const BAR: &str = "|";

/// The filters with their help.
const WORDS: [(&str, &str); 3] = [
    ("match", "show the lines that match a regular expression"),
    ("except", "show the lines that do not match a regular expression"),
    ("count", "show the number of lines"),
];

/// Maximum number of filters in a line. Filters have limits because the main thread also compiles and runs them for read-only
/// clients. Compiling an expression takes a millisecond or two.
const MOST_FILTERS: usize = 4;
/// Maximum length of an expression, in bytes.
const MOST_BYTES: usize = 200;
/// Maximum size of a compiled expression, in bytes.
const MOST_COMPILED: usize = 32 << 10;
/// Maximum size of the cache of a compiled expression, in bytes.
const MOST_CACHED: usize = 64 << 10;
/// Time after which filtering pauses, so that the main thread can do other work.
const SLICE: Duration = Duration::from_micros(500);

/// One filter.
#[derive(Debug)]
enum Filter {
    Match(Box<Expression>),
    Except(Box<Expression>),
    Count(u64),
}

/// A regular expression. It uses only the two search engines that need the least memory.
#[derive(Debug)]
struct Expression {
    regex: Regex,
    cache: Cache,
}

impl Expression {
    /// Compiles an expression, which matches bytes and ignores case. The error says why the expression is
    /// refused.
    fn new(text: &str) -> Result<Expression, &'static str> {
        let syntax = syntax::Config::new().case_insensitive(true).unicode(false).utf8(false);
        let config = Config::new()
            .utf8_empty(false)
            .nfa_size_limit(Some(MOST_COMPILED))
            .hybrid_cache_capacity(MOST_CACHED)
            .onepass(false)
            .dfa(false)
            .backtrack(false);
        let built = Regex::builder().syntax(syntax).configure(config).build(text);
        let regex = built.map_err(|e| match e.size_limit() {
            Some(_) => "the regular expression is too large",
            None => "invalid regular expression",
        })?;
        Ok(Expression { cache: regex.create_cache(), regex })
    }

    fn matches(&mut self, line: &str) -> bool {
        self.regex.search_half_with(&mut self.cache, &Input::new(line).earliest(true)).is_some()
    }

    /// Returns the memory of the compiled expression and its cache, in bytes.
    fn bytes(&self) -> usize {
        self.regex.memory_usage() + self.cache.memory_usage()
    }
}

impl Filter {
    /// Returns true if this filter passes `line` on to the next filter.
    fn takes(&mut self, line: &str) -> bool {
        match self {
            Filter::Match(expression) => expression.matches(line),
            Filter::Except(expression) => !expression.matches(line),
            Filter::Count(lines) => {
                *lines += 1;
                false
            }
        }
    }
}

/// The filters of a line, in order.
#[derive(Debug)]
pub(super) struct Pipe {
    filters: Vec<Filter>,
    /// The last line of the text so far, if it is not complete.
    begun: String,
}

/// True if a word separates a command from a filter.
fn is_bar(token: &Token<'_>) -> bool {
    !token.quoted && token.text == BAR
}

/// Splits a line into the command and its filters. A bar that no filter follows belongs to the command.
///
/// # Errors
/// Fails if the line has an unclosed quote or too many words. Also fails if there are too many filters, if a filter is unknown, or if its
/// argument is missing, invalid or not expected.
pub(super) fn split(line: &str) -> Result<(&str, Option<Pipe>), CliError> {
    let found = Line::whole(line)?;
    let Some(at) = begins(&found.tokens) else { return Ok((line, None)) };
    let (command, rest) = found.tokens.split_at(at);
    let mut filters = Vec::new();
    for words in rest.split(is_bar).skip(1) {
        if filters.len() == MOST_FILTERS {
            return Err(CliError::new(format!("too many filters: a command has at most {MOST_FILTERS}")));
        }
        filters.push(filter(line, words, rest)?);
    }
    let end = command.last().map_or(0, |token| token.span.end);
    Ok((line.get(..end).unwrap_or_default(), Some(Pipe { filters, begun: String::new() })))
}

/// Returns the index of the first bar that a filter follows.
fn begins(tokens: &[Token<'_>]) -> Option<usize> {
    let filter = |token: &Token<'_>| !token.quoted && named(&token.text).is_some();
    (1..tokens.len()).find(|at| is_bar(&tokens[*at]) && tokens.get(at + 1).is_some_and(filter))
}

/// Returns the filter that `word` names or abbreviates; `None` if there is none, or more than one.
fn named(word: &str) -> Option<&'static str> {
    let mut all =
        WORDS.iter().map(|(name, _)| *name).filter(|name| !word.is_empty() && name.starts_with(word));
    all.next().filter(|_| all.next().is_none())
}

/// Parses one filter. `words` are the filter's words, and `rest` are the words after them.
fn filter(line: &str, words: &[Token<'_>], rest: &[Token<'_>]) -> Result<Filter, CliError> {
    let end = rest.last().map_or(line.len(), |token| token.span.end);
    let fault = |why: String, token: Option<&Token<'_>>| {
        Err(CliError::new(why).at(line, token.map_or(end..end, |token| token.span.clone())))
    };
    let [first, arguments @ ..] = words else {
        return fault(
            "expected a filter after '|': match EXPRESSION, except EXPRESSION or count".into(),
            None,
        );
    };
    let name = named(&first.text);
    match (name, arguments) {
        (Some("count"), []) => Ok(Filter::Count(0)),
        (Some("count"), [extra, ..]) => fault("unexpected word: count takes no argument".into(), Some(extra)),
        (Some(name), []) => fault(format!("{name} needs a regular expression"), Some(first)),
        (Some(_), [text]) if text.text.len() > MOST_BYTES => {
            fault(format!("the regular expression is longer than {MOST_BYTES} bytes"), Some(text))
        }
        (Some(name), [text]) => match Expression::new(&text.text).map(Box::new) {
            Ok(expression) if name == "match" => Ok(Filter::Match(expression)),
            Ok(expression) => Ok(Filter::Except(expression)),
            Err(why) => fault(why.into(), Some(text)),
        },
        (Some(name), [_, extra, ..]) => fault(
            format!("unexpected word: {name} takes one expression; quote an expression that contains blanks"),
            Some(extra),
        ),
        (None, _) => fault("unknown filter: expected match, except or count".into(), Some(first)),
    }
}

impl Pipe {
    /// Filters a command's output in a job, because a slow expression takes milliseconds for 64 KiB of text.
    pub(super) fn filter<C: 'static>(self, Answer { text, job }: Answer<C>) -> Answer<C> {
        let step = if job.is_some() { Step::Again } else { Step::Done };
        Answer { text: String::new(), job: Some(Box::new(Piped { pipe: self, job, text, at: 0, step })) }
    }

    /// Filters `text`, and appends the lines that pass to `out`.
    fn take(&mut self, text: &str, out: &mut String) {
        let mut rest = text;
        while let Some((line, after)) = rest.split_once('\n') {
            rest = after;
            if self.begun.is_empty() {
                self.line(line, out);
            } else {
                let mut whole = std::mem::take(&mut self.begun);
                whole.push_str(line);
                self.line(&whole, out);
            }
        }
        self.begun.push_str(rest);
    }

    /// Returns the memory of the filters in bytes.
    fn bytes(&self) -> usize {
        let of = |filter: &Filter| match filter {
            Filter::Match(expression) | Filter::Except(expression) => expression.bytes(),
            Filter::Count(_) => 0,
        };
        self.begun.capacity() + self.filters.iter().map(of).sum::<usize>()
    }

    fn line(&mut self, line: &str, out: &mut String) {
        if self.filters.iter_mut().all(|filter| filter.takes(line)) {
            out.push_str(line);
            out.push('\n');
        }
    }

    /// Filters the last line if it has no line feed, and appends the result of each `count`.
    fn end(&mut self, out: &mut String) {
        if !self.begun.is_empty() {
            let last = std::mem::take(&mut self.begun);
            self.line(&last, out);
        }
        for n in 0..self.filters.len() {
            let Some(Filter::Count(lines)) = self.filters.get(n) else { continue };
            let text = format!("Count: {lines} lines");
            if self.filters.iter_mut().skip(n + 1).all(|filter| filter.takes(&text)) {
                out.push_str(&text);
                out.push('\n');
            }
        }
    }
}

/// A job that runs a command's job and filters its text.
struct Piped<C> {
    pipe: Pipe,
    /// The job of the command, if it has one.
    job: Option<Box<dyn Job<C>>>,
    /// The text that the command has produced last.
    text: String,
    /// Number of bytes of `text` that the filters have processed.
    at: usize,
    /// The step that the command's job returned with this text.
    step: Step,
}

impl<C> Job<C> for Piped<C> {
    fn step(&mut self, cx: &mut C, out: &mut String) -> Step {
        if self.at == self.text.len() {
            self.text.clear();
            self.at = 0;
            self.step = self.job.as_mut().map_or(Step::Done, |job| job.step(cx, &mut self.text));
        }
        let start = Instant::now();
        while let Some(rest) = self.text.get(self.at..).filter(|rest| !rest.is_empty()) {
            if start.elapsed() > SLICE {
                return Step::Again;
            }
            let len = rest.find('\n').map_or(rest.len(), |end| end + 1);
            self.pipe.take(&rest[..len], out);
            self.at += len;
        }
        if matches!(self.step, Step::Done | Step::Failed(_)) {
            self.pipe.end(out);
        }
        std::mem::replace(&mut self.step, Step::Again)
    }

    fn kept(&self) -> usize {
        let job = self.job.as_ref().map_or(0, |job| job.kept());
        self.pipe.bytes() + self.text.capacity() + job
    }
}

/// Completes the name of a filter at the end of a line. Returns `None` if the last word does not follow a bar directly, or if no word
/// precedes the bar. The last word may be empty.
pub(super) fn complete(line: &str) -> Option<Completion> {
    let found = Line::read(line);
    let mut before = found.tokens.as_slice();
    let (from, begun) = match before {
        [rest @ .., last] if last.span.end == line.len() && !is_bar(last) => {
            before = rest;
            (last.span.start, &*last.text)
        }
        _ => (line.len(), ""),
    };
    if before.len() < 2 || !before.last().is_some_and(is_bar) {
        return None;
    }
    let words = WORDS.iter().filter(|(name, _)| name.starts_with(begun));
    let candidates = words.map(|(name, help)| Candidate {
        text: (*name).into(),
        help: (*help).into(),
        placeholder: false,
    });
    Some(Completion { from, candidates: candidates.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job that prints one part per step.
    struct Parts(Vec<&'static str>);

    impl Job<()> for Parts {
        fn step(&mut self, (): &mut (), out: &mut String) -> Step {
            match self.0.is_empty() {
                true => Step::Done,
                false => {
                    out.push_str(self.0.remove(0));
                    Step::Again
                }
            }
        }
    }

    fn run(line: &str, now: &str, later: Vec<&'static str>) -> String {
        let (_, pipe) = split(line).unwrap();
        let job: Box<dyn Job<()>> = Box::new(Parts(later));
        let Answer { mut text, job } = pipe.unwrap().filter(Answer { text: now.into(), job: Some(job) });
        let mut job = job.unwrap();
        while !matches!(job.step(&mut (), &mut text), Step::Done) {}
        text
    }

    #[test]
    fn lines_are_filtered_across_slices() {
        let whole = "eth0 up\neth1 down\nloop0 up\n";
        for (line, wanted) in [
            ("show int | match UP$", "eth0 up\nloop0 up\n"),
            ("show int | ex 'h[01] '", "loop0 up\n"),
            ("show int | match eth | match down", "eth1 down\n"),
            ("show int | count", "Count: 3 lines\n"),
            ("show int | except loop | cou", "Count: 2 lines\n"),
            ("show int | count | match 4", ""),
        ] {
            assert_eq!(run(line, whole, vec![]), wanted, "{line}");
            assert_eq!(run(line, "eth0", vec![" u", "p\neth1 down\nlo", "op0 up"]), wanted, "{line}");
        }
    }

    /// A text is not filtered at once, but in slices of a job, so that a slow expression on a long text does not block the main thread.
    #[test]
    fn a_text_without_a_job_is_filtered_in_slices_too() {
        let (_, pipe) = split("show int | match up").unwrap();
        let Answer { mut text, job } =
            pipe.unwrap().filter(Answer { text: "eth0 up\neth1 down\n".into(), job: None });
        assert_eq!(text, "");
        let mut job = job.unwrap();
        while !matches!(job.step(&mut (), &mut text), Step::Done) {}
        assert_eq!(text, "eth0 up\n");
    }

    #[test]
    fn a_line_is_split_at_a_bar_before_a_filter() {
        assert_eq!(split("show  int   | match x").unwrap().0, "show  int");
        for line in [
            "show int",
            "trace add pg-input 1 filter 'a | match b'",
            "packet-generator new { a | b }",
            "| match x",
        ] {
            let (command, pipe) = split(line).unwrap();
            assert!(command == line && pipe.is_none(), "{line}");
        }
    }

    #[test]
    fn faults_of_filters_have_their_place() {
        for (line, why) in [
            ("show int | match", "match needs a regular expression"),
            ("show int | match (", "invalid regular expression"),
            ("show int | match a b", "takes one expression"),
            ("show int | count 3", "count takes no argument"),
            ("show int | match a | grep b", "unknown filter"),
            ("show int | match a |", "expected a filter"),
            ("show int | match (a{1000}){1000}", "too large"),
        ] {
            let error = split(line).unwrap_err().render();
            assert!(error.contains(why) && error.starts_with(line), "{error}");
        }
    }

    #[test]
    fn the_number_of_filters_is_limited() {
        let line = |n: usize| format!("show int{}", " | match .{9}".repeat(n));
        assert!(split(&line(4)).is_ok());
        assert!(split(&line(5)).unwrap_err().render().contains("at most 4"));
        let long = format!("show int | match {}", "a".repeat(201));
        assert!(split(&long).unwrap_err().render().contains("longer than 200 bytes"));
    }

    /// A filter takes less than 256 KiB of memory. This matters because any user may start filters, and a filter keeps its memory while
    /// its client does not read.
    #[test]
    fn a_filter_needs_little_memory() {
        let text = |n: usize| {
            let letter = |i: usize| char::from(b'a' + ((n * 31 + i * i * 7) % 26) as u8);
            (0..200).map(letter).collect::<String>()
        };
        let all = [
            "a|b",
            ".{1,90}x",
            "[a-m].{9}[n-z].{9}x",
            r"(\w+ ){9}\d+$",
            "(a|ab|abc|b)*(c|cd)*x",
            &"(.|a)*".repeat(30),
            &"a".repeat(200),
        ];
        for expression in all {
            let mut expression = Expression::new(expression).unwrap();
            for n in 0..2000 {
                expression.matches(&text(n));
            }
            assert!(expression.bytes() < 256 << 10, "{} bytes: {expression:?}", expression.bytes());
        }
    }

    #[test]
    fn filters_are_completed() {
        let words = |line: &str| {
            complete(line).map(|c| (c.from, c.candidates.into_iter().map(|c| c.text).collect::<Vec<_>>()))
        };
        assert_eq!(words("show int | m"), Some((11, vec!["match".into()])));
        assert_eq!(words("show int | ").map(|(from, all)| (from, all.len())), Some((11, 3)));
        assert_eq!(words("show int "), None);
    }
}

//! The subscriber that receives the program's messages.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Instant;

use tracing::field::{Field, Visit};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::{Level, Log, class};

/// The field that makes a message an event.
const EVENT: &str = "event";

/// Passes messages to the log.
pub(super) struct Listener(pub(super) Arc<Log>);

impl Listener {
    fn wants(&self, at: &Metadata<'_>) -> bool {
        let wanted = self.0.bounds[class::of(at.target())].get();
        at.is_event()
            && (Level::from(*at.level()) <= wanted.level.max(wanted.syslog_level)
                || at.fields().field(EVENT).is_some())
    }
}

impl<S: Subscriber> Layer<S> for Listener {
    fn register_callsite(&self, at: &'static Metadata<'static>) -> Interest {
        if self.wants(at) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, at: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.wants(at)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut words = Words::default();
        event.record(&mut words);
        let Words { message, fields, kind } = words;
        self.0.hear(event.metadata(), kind, message + &fields, Instant::now());
    }
}

/// The contents of a message: its text, the fields after it, and its kind of event.
#[derive(Default)]
struct Words {
    message: String,
    fields: String,
    kind: Option<String>,
}

impl Visit for Words {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            EVENT => self.kind = Some(value.to_owned()),
            "message" => self.message.push_str(value),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

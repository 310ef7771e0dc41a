//! The policers of an interface by name, as the operator configures them.

use std::sync::LazyLock;

use model::cli::quote;
use model::key::Key;
use model::metrics::{Kind, Metric};
use model::reason::Reason;
use model::schema::{Described, Schema, inline, optional, text};
use net::feature::{App, Configured, Counter, Registrar};
use net::router::{Router, RouterError};

use crate::action::Action;
use crate::node::Policing;
use crate::object;
use crate::rate::{Kind as Algorithm, Params, Round, Unit};
use crate::table::Policers;

static DROPS: Metric = Metric {
    name: "volley_interface_policer_drops_total",
    kind: Kind::Counter,
    labels: &["interface", "direction"],
    help: "Packets dropped by the interface's policer, on interfaces with a policer in that direction. Dropped outgoing packets are \
           counted as sent, too.",
};

/// Example policers of all kinds, with their names. The names are example values of the interfaces' settings, which tests use.
const EXAMPLES: [(&str, Params); 5] = [
    ("gold", limit(Algorithm::OneRateTwoColors, Unit::Pps, 50, 0, Action::Transmit)),
    ("a silver one", limit(Algorithm::OneRateTwoColors, Unit::Kbps, 3000, 0, Action::Drop)),
    ("srtcm", limit(Algorithm::OneRateThreeColors, Unit::Kbps, 1500, 1500, Action::Mark(12))),
    ("trtcm", limit(Algorithm::TwoRates2698, Unit::Kbps, 1500, 3000, Action::Mark(63))),
    ("trtcm-4115", limit(Algorithm::TwoRates4115, Unit::Pps, 5, 5, Action::Transmit)),
];

/// Returns the parameters of a policer with a low rate and the bursts `cb` and `eb`. It is color-aware if
/// `exceed` marks packets.
const fn limit(kind: Algorithm, unit: Unit, cb: u64, eb: u64, exceed: Action) -> Params {
    let two = matches!(kind, Algorithm::TwoRates2698 | Algorithm::TwoRates4115);
    Params {
        kind,
        unit,
        cir: 800,
        eir: if two { 900 } else { 0 },
        cb,
        eb,
        aware: matches!(exceed, Action::Mark(_)),
        round: Round::Closest,
        conform: Action::Transmit,
        exceed,
        violate: Action::Drop,
    }
}

/// The names of the policers of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicedBy {
    /// The policer for received packets.
    pub input: Option<String>,
    /// The policer for sent packets.
    pub output: Option<String>,
}

impl PolicedBy {
    /// Returns both names, each with the word for its direction.
    fn each(&self) -> [(&'static str, &Option<String>); 2] {
        [("input", &self.input), ("output", &self.output)]
    }
}

/// Returns the fields of `policer` in the configuration of an interface.
fn both() -> &'static Schema<PolicedBy> {
    static SCHEMA: LazyLock<Schema<PolicedBy>> = LazyLock::new(|| {
        let policer = || optional(text("a policer's name", &EXAMPLES.map(|(name, _)| name)));
        Schema::new(PolicedBy::default())
            .field(
                "input",
                policer(),
                |p| p.input.clone(),
                |p, name| p.input = name,
                "The policer of received packets.",
            )
            .field(
                "output",
                policer(),
                |p| p.output.clone(),
                |p, name| p.output = name,
                "The policer of sent packets.",
            )
    });
    &SCHEMA
}

impl Described for PolicedBy {
    fn schema() -> &'static Schema<Self> {
        static SCHEMA: LazyLock<Schema<PolicedBy>> = LazyLock::new(|| {
            Schema::new(PolicedBy::default()).field(
                "policer",
                inline(both),
                PolicedBy::clone,
                |p, both| *p = both,
                "Limits the rate of packets, by policers of the section `policers`.",
            )
        });
        &SCHEMA
    }
}

impl Configured for PolicedBy {
    type Setting = Policing;
    const COUNTERS: &'static [Counter<Policing>] = &[
        Counter { metric: &DROPS, labels: &["input"], is_used: |policing| policing.input.is_some() },
        Counter { metric: &DROPS, labels: &["output"], is_used: |policing| policing.output.is_some() },
    ];

    fn resolve(&self, router: &Router) -> Result<Policing, RouterError> {
        let policers = router.state::<Policers>()?;
        let index = |name: &Option<String>| {
            let find = |name: &String| {
                policers
                    .find(name)
                    .ok_or_else(|| RouterError::new(format!("no policer {name}")).because(Reason::NotThere))
            };
            name.as_ref().map(find).transpose()
        };
        Ok(Policing { input: index(&self.input)?, output: index(&self.output)? })
    }

    fn uses(&self, to: &mut dyn FnMut(Key)) {
        self.each().into_iter().filter_map(|(_, name)| name.as_ref()).for_each(|name| to(object::key(name)));
    }

    fn dump(&self, interface: &str) -> Vec<String> {
        let both = self.each().into_iter().filter_map(|(way, name)| Some((way, name.as_ref()?)));
        both.map(|(way, name)| format!("policer {way} name {} {interface}", quote(name))).collect()
    }

    fn way(feature: &str, interface: &str) -> Option<String> {
        let way = if feature == "policer-output" { "output" } else { "input" };
        feature.starts_with("policer-").then(|| {
            format!(
                "{feature} needs a policer: use \"policer {way} [unapply] name NAME {interface}\", or \"policer\" in a YAML file"
            )
        })
    }

    fn make_examples(router: &mut Router) -> Result<(), RouterError> {
        let now = router.now();
        let policers = router.state_mut::<Policers>()?;
        EXAMPLES.iter().try_for_each(|(name, params)| policers.add_named(name, *params, now).map(drop))
    }
}

/// Declares the setting.
pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    r.setting::<PolicedBy>();
}

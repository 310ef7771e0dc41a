//! The module `policer` of VPP's binary API.
#![allow(non_camel_case_types)]

use model::object::Change;
use net::feature::{App, message};
use vapi::types::interface_index;
use vapi::wire::Text;
use vapi::{Caller, Code, DONE, Done, Table, define};

use crate::action::Action;
use crate::configured::PolicedBy;
use crate::object;
use crate::rate::{Kind, Params, Round, Unit};
use crate::table::Policers;

define! {
    /// The unit of rates and bursts.
    enum sse2_qos_rate_type: u8 {
        /// Rates in kbit/s, bursts in bytes.
        SSE2_QOS_RATE_API_KBPS = 0,
        /// Rates in packets a second, bursts in milliseconds at that rate.
        SSE2_QOS_RATE_API_PPS = 1,
        /// Not a valid unit.
        SSE2_QOS_RATE_API_INVALID = 2,
    }
    /// How rates are rounded.
    enum sse2_qos_round_type: u8 {
        /// To the closest possible rate.
        SSE2_QOS_ROUND_API_TO_CLOSEST = 0,
        /// To the next higher possible rate.
        SSE2_QOS_ROUND_API_TO_UP = 1,
        /// To the next lower possible rate.
        SSE2_QOS_ROUND_API_TO_DOWN = 2,
        /// Not a valid rounding.
        SSE2_QOS_ROUND_API_INVALID = 3,
    }
    /// The algorithm.
    enum sse2_qos_policer_type: u8 {
        /// One rate, two colors.
        SSE2_QOS_POLICER_TYPE_API_1R2C = 0,
        /// One rate, three colors.
        SSE2_QOS_POLICER_TYPE_API_1R3C_RFC_2697 = 1,
        /// Two rates, three colors.
        SSE2_QOS_POLICER_TYPE_API_2R3C_RFC_2698 = 2,
        /// Two rates, three colors.
        SSE2_QOS_POLICER_TYPE_API_2R3C_RFC_4115 = 3,
        /// Two rates, three colors, by the Metro Ethernet Forum.
        SSE2_QOS_POLICER_TYPE_API_2R3C_RFC_MEF5CF1 = 4,
        /// Not a valid algorithm.
        SSE2_QOS_POLICER_TYPE_API_MAX = 5,
    }
    /// What happens to packets of a color.
    enum sse2_qos_action_type: u8 {
        /// They are dropped.
        SSE2_QOS_ACTION_API_DROP = 0,
        /// They pass.
        SSE2_QOS_ACTION_API_TRANSMIT = 1,
        /// They get a DSCP and pass.
        SSE2_QOS_ACTION_API_MARK_AND_TRANSMIT = 2,
    }
    /// An action.
    struct sse2_qos_action {
        /// The type of the action.
        r#type: sse2_qos_action_type,
        /// The DSCP to set, for `SSE2_QOS_ACTION_API_MARK_AND_TRANSMIT`.
        dscp: u8,
    }
    /// The parameters of a policer.
    struct policer_config {
        /// The committed rate.
        cir: u32,
        /// The excess or peak rate.
        eir: u32,
        /// The committed burst.
        cb: u64,
        /// The excess or peak burst.
        eb: u64,
        /// The unit of rates and bursts.
        rate_type: sse2_qos_rate_type,
        /// The rounding of rates.
        round_type: sse2_qos_round_type,
        /// The algorithm.
        r#type: sse2_qos_policer_type,
        /// True if the policer takes the color of arriving packets into account.
        color_aware: bool,
        /// The action for green packets.
        conform_action: sse2_qos_action,
        /// The action for yellow packets.
        exceed_action: sse2_qos_action,
        /// The action for red packets.
        violate_action: sse2_qos_action,
    }
    /// Binds a policer to a worker.
    request policer_bind { name: Text<64>, worker_index: u32, bind_enable: bool }
    /// Binds a policer to a worker.
    request policer_bind_v2 { policer_index: u32, worker_index: u32, bind_enable: bool }
    /// Polices the packets received on an interface.
    request policer_input { name: Text<64>, sw_if_index: interface_index, apply: bool }
    /// Polices the packets received on an interface.
    request policer_input_v2 { policer_index: u32, sw_if_index: interface_index, apply: bool }
    /// Polices the packets sent on an interface.
    request policer_output { name: Text<64>, sw_if_index: interface_index, apply: bool }
    /// Polices the packets sent on an interface.
    request policer_output_v2 { policer_index: u32, sw_if_index: interface_index, apply: bool }
    /// Makes or changes a policer, or removes it.
    request policer_add_del {
        is_add: bool,
        name: Text<64>,
        cir: u32,
        eir: u32,
        cb: u64,
        eb: u64,
        rate_type: sse2_qos_rate_type,
        round_type: sse2_qos_round_type,
        r#type: sse2_qos_policer_type,
        color_aware: bool,
        conform_action: sse2_qos_action,
        exceed_action: sse2_qos_action,
        violate_action: sse2_qos_action,
    } -> policer_add_del_reply { policer_index: u32 }
    /// Makes a policer.
    request policer_add { name: Text<64>, infos: policer_config } -> policer_add_reply { policer_index: u32 }
    /// Removes a policer.
    request policer_del { policer_index: u32 }
    /// Changes a policer.
    request policer_update { policer_index: u32, infos: policer_config }
    /// Fills the buckets of a policer.
    request policer_reset { policer_index: u32 }
    /// Asks for all policers, or for one by its name.
    dump policer_dump { match_name_valid: bool, match_name: Text<64> } -> policer_details {
        name: Text<64>,
        cir: u32,
        eir: u32,
        cb: u64,
        eb: u64,
        rate_type: sse2_qos_rate_type,
        round_type: sse2_qos_round_type,
        r#type: sse2_qos_policer_type,
        conform_action: sse2_qos_action,
        exceed_action: sse2_qos_action,
        violate_action: sse2_qos_action,
        single_rate: bool,
        color_aware: bool,
        scale: u32,
        cir_tokens_per_period: u32,
        pir_tokens_per_period: u32,
        current_limit: u32,
        current_bucket: u32,
        extended_limit: u32,
        extended_bucket: u32,
        last_update_time: u64,
    }
    /// Asks for all policers (~0), or for one by its index.
    dump policer_dump_v2 { policer_index: u32 } -> policer_details;
}

/// Adds the module.
pub(crate) fn register<C: App>(table: &mut Table<C>) {
    table
        .module("policer", [3, 0, 0])
        // Binding a policer to a worker has no effect: all workers share the policer, and together keep its
        // rate exactly.
        .request::<policer_bind>(|c, _, q| index_of(c, &q.name.0).and(DONE))
        .request::<policer_bind_v2>(|c, _, q| name_of(c, q.policer_index).and(DONE))
        .request::<policer_input>(|c, _, q| police(c, q.sw_if_index, (q.name.0, q.apply), input))
        .request::<policer_input_v2>(|c, _, q| {
            let name = name_of(c, q.policer_index)?;
            police(c, q.sw_if_index, (name, q.apply), input)
        })
        .request::<policer_output>(|c, _, q| police(c, q.sw_if_index, (q.name.0, q.apply), output))
        .request::<policer_output_v2>(|c, _, q| {
            let name = name_of(c, q.policer_index)?;
            police(c, q.sw_if_index, (name, q.apply), output)
        })
        .request::<policer_add_del>(add_del)
        .request::<policer_add>(|c, _, q| {
            if index_of(c, &q.name.0).is_ok() {
                return Err(Code::VALUE_EXIST);
            }
            set(c, &q.name.0, &q.infos)?;
            Ok(policer_add_reply { policer_index: index_of(c, &q.name.0)? })
        })
        .request::<policer_del>(|c, _, q| {
            let name = name_of(c, q.policer_index)?;
            message::make(c, vec![Change::remove(object::key(&name))])
        })
        .request::<policer_update>(|c, _, q| {
            let name = name_of(c, q.policer_index)?;
            set(c, &name, &q.infos)
        })
        .operation::<policer_reset>(|c, _, q| {
            let now = c.router().now();
            let policers = c.router_mut().state_mut::<Policers>().map_err(message::refused)?;
            policers.reset(q.policer_index, now).map_err(message::refused)?;
            DONE
        })
        .dump::<policer_dump, _>(|_, q| {
            let mut next = Some(0);
            move |c: &C| loop {
                let (index, details) = from(c, next?)?;
                next = index.checked_add(1);
                if !q.match_name_valid || q.match_name == details.name {
                    return Some(details);
                }
            }
        })
        .dump::<policer_dump_v2, _>(|_, q| {
            let one = (q.policer_index != u32::MAX).then_some(q.policer_index);
            let mut next = Some(one.unwrap_or(0));
            move |c: &C| {
                let (index, details) = from(c, next?)?;
                next = index.checked_add(1).filter(|_| one.is_none());
                one.is_none_or(|one| one == index).then_some(details)
            }
        });
}

fn policers<C: App>(c: &C) -> Result<&Policers, Code> {
    c.router().state().map_err(message::refused)
}

fn index_of<C: App>(c: &C, name: &str) -> Result<u32, Code> {
    policers(c)?.find(name).ok_or(Code::NO_SUCH_ENTRY)
}

fn name_of<C: App>(c: &C, index: u32) -> Result<String, Code> {
    policers(c)?.name(index).map(str::to_owned).ok_or(Code::NO_SUCH_ENTRY)
}

fn input(by: &mut PolicedBy) -> &mut Option<String> {
    &mut by.input
}

fn output(by: &mut PolicedBy) -> &mut Option<String> {
    &mut by.output
}

/// Sets the policer of an interface for one direction if `apply` is true; otherwise removes it.
fn police<C: App>(
    c: &mut C,
    interface: interface_index,
    (name, apply): (String, bool),
    direction: fn(&mut PolicedBy) -> &mut Option<String>,
) -> Result<Done, Code> {
    index_of(c, &name)?;
    message::set(c, interface, |by: &mut PolicedBy| *direction(by) = apply.then_some(name))
}

fn add_del<C: App>(c: &mut C, _: &Caller, q: policer_add_del) -> Result<policer_add_del_reply, Code> {
    let name = q.name.0;
    if !q.is_add {
        let policer_index = index_of(c, &name)?;
        message::make(c, vec![Change::remove(object::key(&name))])?;
        return Ok(policer_add_del_reply { policer_index });
    }
    let config = policer_config {
        cir: q.cir,
        eir: q.eir,
        cb: q.cb,
        eb: q.eb,
        rate_type: q.rate_type,
        round_type: q.round_type,
        r#type: q.r#type,
        color_aware: q.color_aware,
        conform_action: q.conform_action,
        exceed_action: q.exceed_action,
        violate_action: q.violate_action,
    };
    set(c, &name, &config)?;
    Ok(policer_add_del_reply { policer_index: index_of(c, &name)? })
}

fn set<C: App>(c: &mut C, name: &str, config: &policer_config) -> Result<Done, Code> {
    let params = params(config).ok_or(Code::INVALID_VALUE)?;
    params.check().map_err(|_| Code::INVALID_VALUE)?;
    message::make(c, vec![Change::set(object::key(name), params)])
}

/// The algorithms, in the order of their numbers in the API.
const KINDS: [Kind; 4] = Kind::ALL;
/// The ways to round, in the order of their numbers in the API.
const ROUNDS: [Round; 3] = Round::ALL;

/// Returns the parameters of a policer; `None` if one of them is not possible.
fn params(q: &policer_config) -> Option<Params> {
    let kind = *KINDS.get(usize::from(q.r#type.0))?;
    let unit = match q.rate_type {
        sse2_qos_rate_type::SSE2_QOS_RATE_API_KBPS => Unit::Kbps,
        sse2_qos_rate_type::SSE2_QOS_RATE_API_PPS => Unit::Pps,
        _ => return None,
    };
    // Like VPP, takes the burst of a policer with packet rates as milliseconds at its rate.
    let burst = |burst: u64, rate: u32| match unit {
        Unit::Kbps => Some(burst),
        Unit::Pps if burst == 0 => Some(0),
        Unit::Pps => Some((burst.checked_mul(rate.into())? / 1000).max(1)),
    };
    let two_rates = matches!(kind, Kind::TwoRates2698 | Kind::TwoRates4115);
    let three_colors = kind != Kind::OneRateTwoColors;
    Some(Params {
        kind,
        unit,
        cir: q.cir.into(),
        // A parameter that the kind does not use is ignored.
        eir: if two_rates { q.eir.into() } else { 0 },
        cb: burst(q.cb, q.cir)?,
        eb: if three_colors { burst(q.eb, if two_rates { q.eir } else { q.cir })? } else { 0 },
        aware: q.color_aware,
        round: *ROUNDS.get(usize::from(q.round_type.0))?,
        conform: action(&q.conform_action)?,
        exceed: action(&q.exceed_action)?,
        violate: action(&q.violate_action)?,
    })
}

fn action(action: &sse2_qos_action) -> Option<Action> {
    match action.r#type {
        sse2_qos_action_type::SSE2_QOS_ACTION_API_DROP => Some(Action::Drop),
        sse2_qos_action_type::SSE2_QOS_ACTION_API_TRANSMIT => Some(Action::Transmit),
        sse2_qos_action_type::SSE2_QOS_ACTION_API_MARK_AND_TRANSMIT => {
            (action.dscp <= crate::MAX_DSCP).then_some(Action::Mark(action.dscp))
        }
        _ => None,
    }
}

fn of_action(action: Action) -> sse2_qos_action {
    let of = |r#type, dscp| sse2_qos_action { r#type, dscp };
    match action {
        Action::Drop => of(sse2_qos_action_type::SSE2_QOS_ACTION_API_DROP, 0),
        Action::Transmit => of(sse2_qos_action_type::SSE2_QOS_ACTION_API_TRANSMIT, 0),
        Action::Mark(dscp) => of(sse2_qos_action_type::SSE2_QOS_ACTION_API_MARK_AND_TRANSMIT, dscp),
    }
}

/// Returns the first policer whose index is at least `index`; `None` if there is none.
fn from<C: App>(c: &C, index: u32) -> Option<(u32, policer_details)> {
    let policers = policers(c).ok()?;
    let index = policers.from(index).next()?;
    let p = policers.get(index)?;
    let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let place = |at: Option<usize>| at.unwrap_or_default() as u8;
    let burst = |burst: u64, rate: u64| match p.unit {
        Unit::Kbps => burst,
        Unit::Pps => (burst * 1000).checked_div(rate).unwrap_or(0),
    };
    let two_rates = matches!(p.kind, Kind::TwoRates2698 | Kind::TwoRates4115);
    let [committed, excess] = policers.tokens(index, c.router().now())?;
    let details = policer_details {
        name: policers.name(index).unwrap_or_default().into(),
        cir: small(p.cir),
        eir: small(p.eir),
        cb: burst(p.cb, p.cir),
        eb: burst(p.eb, if two_rates { p.eir } else { p.cir }),
        rate_type: match p.unit {
            Unit::Kbps => sse2_qos_rate_type::SSE2_QOS_RATE_API_KBPS,
            Unit::Pps => sse2_qos_rate_type::SSE2_QOS_RATE_API_PPS,
        },
        round_type: sse2_qos_round_type(place(ROUNDS.iter().position(|round| *round == p.round))),
        r#type: sse2_qos_policer_type(place(KINDS.iter().position(|kind| *kind == p.kind))),
        conform_action: of_action(p.conform),
        exceed_action: of_action(p.exceed),
        violate_action: of_action(p.violate),
        single_rate: !two_rates,
        color_aware: p.aware,
        // Tokens are bytes or packets, without a scale.
        scale: 0,
        current_limit: small(p.cb),
        current_bucket: small(committed),
        extended_limit: small(p.eb),
        extended_bucket: small(excess),
        ..Default::default()
    };
    Some((index, details))
}

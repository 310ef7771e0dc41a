//! What a plan means for interfaces and their devices.

use drivers::pcap::Replay;

use super::{Interface, Key, Plan, Spec};

/// The interfaces that go and come again.
pub fn made_anew(plan: &Plan) -> impl Iterator<Item = String> {
    let gone = plan.steps.iter().filter(|step| step.to.is_none());
    let again = gone.filter(|step| plan.after.tree().contains_key(&step.key));
    again.filter_map(|step| Interface::name_in(&step.key))
}

/// The interfaces that stay while their devices are opened anew.
pub fn opened_anew(plan: &Plan) -> impl Iterator<Item = String> {
    plan.steps.iter().filter_map(|step| {
        let (old, new) = (step.from.as_ref()?.get::<Interface>()?, step.to.as_ref()?.get::<Interface>()?);
        if old.spec == new.spec { None } else { Interface::device_in(&step.key) }
    })
}

/// The devices that are made of files which are replayed.
pub fn replays(plan: &Plan) -> impl Iterator<Item = (&Key, &Replay)> {
    let made = plan.steps.iter().filter(|step| step.from.is_none());
    made.filter_map(|step| match &step.to.as_ref()?.get::<Interface>()?.spec {
        Spec::Pcap(_, config) => Some((&step.key, config.replay.as_ref()?)),
        _ => None,
    })
}

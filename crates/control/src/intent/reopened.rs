//! The effects of a plan on interfaces and their devices.

use super::{Interface, Key, Plan};
use crate::system::{Backed, Spec};

/// Returns the interfaces that the plan removes and creates again.
pub fn recreated(plan: &Plan) -> impl Iterator<Item = String> {
    let gone = plan.steps.iter().filter(|step| step.to.is_none());
    let again = gone.filter(|step| plan.after.tree().contains_key(&step.key));
    again.filter_map(|step| Interface::name_in(&step.key))
}

/// Returns the interfaces that stay while their devices are reopened.
pub fn reopened(plan: &Plan) -> impl Iterator<Item = String> {
    plan.steps.iter().filter_map(|step| {
        let (old, new) = (step.from.as_ref()?.get::<Interface>()?, step.to.as_ref()?.get::<Interface>()?);
        if old.spec == new.spec { None } else { Interface::device_in(&step.key) }
    })
}

/// Returns the new interfaces whose devices take long to open: the key, the name and the options of each.
pub fn slow(plan: &Plan) -> impl Iterator<Item = (&Key, String, &Backed)> {
    let made = plan.steps.iter().filter(|step| step.from.is_none());
    made.filter_map(|step| match &step.to.as_ref()?.get::<Interface>()?.spec {
        Spec::Backed(backed) if backed.is_slow() => Some((&step.key, Interface::name_in(&step.key)?, backed)),
        _ => None,
    })
}

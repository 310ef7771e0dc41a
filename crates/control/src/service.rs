//! Notifications to the service manager, if one started the router (sd_notify(3)): ready, stopping, the status, and
//! the watchdog while no worker hangs.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval};

use crate::app::Context;

/// Interval of updates of the status, unless the watchdog needs a shorter one.
const LOOK: Duration = Duration::from_secs(5);

/// Reports that the router forwards.
pub fn ready(context: &Context) {
    tell(&[NotifyState::Ready, NotifyState::Status(&status(context))]);
}

/// Reports that the router stops, and why.
pub fn stopping(why: &str) {
    tell(&[NotifyState::Stopping, NotifyState::Status(why)]);
}

/// Notifies the service manager's watchdog at least twice in its timeout, and updates the status. If a worker hangs, the watchdog is not
/// notified, and the service manager restarts the router.
///
/// Runs on the main thread's executor. So if the main thread hangs, the watchdog is not notified either.
pub async fn watch(context: Rc<RefCell<Context>>) {
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return;
    }
    let half = sd_notify::watchdog_enabled().map(|allowed| allowed / 2).filter(|half| !half.is_zero());
    let mut beats = interval(half.unwrap_or(LOOK).min(LOOK));
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut said = status(&context.borrow());
    loop {
        beats.tick().await;
        let context = context.borrow();
        let turn = context.trouble.workers_turn();
        if turn && half.is_some() {
            tell(&[NotifyState::Watchdog]);
        }
        let now = if turn { status(&context) } else { "a worker hangs".into() };
        if now != said {
            tell(&[NotifyState::Status(&now)]);
            said = now;
        }
    }
}

/// Returns the router's status in a line.
fn status(context: &Context) -> String {
    let router = &context.system.router;
    let all = router.interfaces().count();
    let usable = router.interfaces().filter(|i| router.usable(i.index)).count();
    let confirm = match context.confirmation() {
        None => "",
        Some(waiting) if waiting.failed().is_none() => "; a change awaits confirmation",
        Some(_) => "; an unconfirmed change could not be rolled back",
    };
    format!("forwarding; {usable} of {all} interfaces usable{confirm}")
}

fn tell(what: &[NotifyState<'_>]) {
    if let Err(e) = sd_notify::notify(what) {
        tracing::warn!("cannot notify the service manager: {e}");
    }
}

//! What the router tells the service manager that started it, if one did (sd_notify(3)): that it forwards, that it ends,
//! how it is, and, for as long as its workers turn, that it need not be killed.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval};

use crate::commands::Context;

/// How often the line of status is looked at, when the watchdog does not want to hear of it sooner.
const LOOK: Duration = Duration::from_secs(5);

/// Says that the router forwards.
pub fn ready(context: &Context) {
    tell(&[NotifyState::Ready, NotifyState::Status(&status(context))]);
}

/// Says that the router ends, because of `why`.
pub fn stopping(why: &str) {
    tell(&[NotifyState::Stopping, NotifyState::Status(why)]);
}

/// Keeps the service manager's watchdog quiet, twice in the time that it allows, and the line of status true. A worker that does
/// not turn any more forwards nothing: then the watchdog hears nothing, and has the router started anew.
///
/// Runs on the main thread's executor, so that it also falls silent when that hangs.
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
        let now = if turn { status(&context) } else { "a worker does not turn any more".into() };
        if now != said {
            tell(&[NotifyState::Status(&now)]);
            said = now;
        }
    }
}

/// How the router is, in a line.
fn status(context: &Context) -> String {
    let router = &context.system.router;
    let all = router.interfaces().count();
    let usable = router.interfaces().filter(|i| router.usable(i.index)).count();
    let confirm = match (context.awaits_confirmation(), context.vain_ways_back()) {
        (false, _) => "",
        (true, (0, _)) => "; a change waits to be confirmed",
        (true, _) => "; a change that nobody confirmed could not be taken back",
    };
    format!("forwarding; {usable} of {all} interfaces usable{confirm}")
}

fn tell(what: &[NotifyState<'_>]) {
    if let Err(e) = sd_notify::notify(what) {
        tracing::warn!("the service manager cannot be told: {e}");
    }
}

//! The system's power supply.

use hearth_app::power::{Power, Supply};
use keepawake::KeepAwake;
use starship_battery::{Batteries, Manager, State, units::ratio::ratio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// The system's power supply.
#[derive(Debug)]
pub struct SystemPower {
    /// Sends whether the system is to be kept awake.
    awake_requests: Sender<bool>,
}

impl SystemPower {
    /// Starts the thread that inhibits sleep, which Windows ties to a thread.
    pub fn new() -> Self {
        let (awake_requests, requests) = channel();
        thread::spawn(move || inhibit_sleep(&requests));
        Self { awake_requests }
    }
}

impl Power for SystemPower {
    fn supply(&self) -> Supply {
        let batteries = Manager::new().and_then(|manager| manager.batteries());
        batteries.map_or(Supply::Mains, supply)
    }

    fn keep_awake(&self, awake: bool) {
        // The thread lives as long as `self`.
        let _ = self.awake_requests.send(awake);
    }
}

/// The supply that batteries imply. Batteries that cannot be read are ignored; the charges are
/// averaged.
fn supply(batteries: Batteries) -> Supply {
    let (mut is_discharging, mut total_charge, mut count) = (false, 0.0, 0.0);
    for battery in batteries.flatten() {
        is_discharging |= battery.state() == State::Discharging;
        total_charge += battery.state_of_charge().get::<ratio>();
        count += 1.0;
    }
    if is_discharging {
        Supply::Battery {
            charge: total_charge / count,
        }
    } else {
        Supply::Mains
    }
}

/// Inhibits sleep, or allows it again, on each request, until the sender is dropped.
fn inhibit_sleep(requests: &Receiver<bool>) {
    let mut inhibitor: Option<KeepAwake> = None;
    for awake in requests {
        if !awake {
            inhibitor = None;
            continue;
        }
        let created = keepawake::Builder::default()
            .idle(true)
            .reason("Fine-tuning a model")
            .app_name("Hearth")
            .app_reverse_domain("io.github.hearth-app.hearth")
            .create();
        match created {
            Ok(created) => inhibitor = Some(created),
            // The run then pauses during sleep and continues afterwards.
            Err(error) => tracing::warn!(%error, "the machine may sleep during a run"),
        }
    }
    drop(inhibitor);
}

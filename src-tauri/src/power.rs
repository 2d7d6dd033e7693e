//! The system's power supply.

use hearth_app::power::{Power, Supply};
use keepawake::KeepAwake;
use starship_battery::{Batteries, Manager, State, units::ratio::ratio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// The system's power supply.
#[derive(Debug)]
pub struct SystemPower {
    awake: Sender<bool>,
}

impl SystemPower {
    /// Starts the thread that inhibits sleep, which Windows ties to a thread.
    pub fn new() -> Self {
        let (awake, requests) = channel();
        thread::spawn(move || inhibit_sleep(&requests));
        Self { awake }
    }
}

impl Power for SystemPower {
    fn supply(&self) -> Supply {
        let batteries = Manager::new().and_then(|manager| manager.batteries());
        batteries.map_or(Supply::Mains, supply)
    }

    fn keep_awake(&self, awake: bool) {
        // The thread lives as long as `self`.
        let _ = self.awake.send(awake);
    }
}

/// Batteries that cannot be read are ignored; the charge of several is averaged.
fn supply(batteries: Batteries) -> Supply {
    let (mut discharging, mut charge, mut count) = (false, 0.0, 0.0);
    for battery in batteries.flatten() {
        discharging |= battery.state() == State::Discharging;
        charge += battery.state_of_charge().get::<ratio>();
        count += 1.0;
    }
    if discharging {
        Supply::Battery { charge: charge / count }
    } else {
        Supply::Mains
    }
}

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
            // A run continues after sleep.
            Err(error) => tracing::warn!(%error, "the machine may sleep during a run"),
        }
    }
    drop(inhibitor);
}

//! The machine's power, as the system tells it.

use hearth_app::power::{Power, Supply};
use keepawake::KeepAwake;
use starship_battery::{Batteries, Manager, State, units::ratio::ratio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// The power of the machine that Hearth runs on.
#[derive(Debug)]
pub struct SystemPower {
    awake: Sender<bool>,
}

impl SystemPower {
    /// Starts the thread that keeps the machine awake when it is to be: Windows ties that to a thread.
    pub fn new() -> Self {
        let (awake, wanted) = channel();
        thread::spawn(move || watch(&wanted));
        Self { awake }
    }
}

impl Power for SystemPower {
    fn supply(&self) -> Supply {
        let batteries = Manager::new().and_then(|manager| manager.batteries());
        batteries.map_or(Supply::Mains, supply)
    }

    fn keep_awake(&self, awake: bool) {
        // The thread lives as long as this.
        let _ = self.awake.send(awake);
    }
}

/// A battery that cannot be read is none. Of several, what they hold together counts.
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

fn watch(wanted: &Receiver<bool>) {
    let mut kept: Option<KeepAwake> = None;
    for awake in wanted {
        if !awake {
            kept = None;
            continue;
        }
        let asked = keepawake::Builder::default()
            .idle(true)
            .reason("Fine-tuning a model")
            .app_name("Hearth")
            .app_reverse_domain("io.github.hearth-app.hearth")
            .create();
        match asked {
            Ok(asked) => kept = Some(asked),
            // A run that sleeps goes on when it wakes.
            Err(error) => tracing::warn!(%error, "the machine may fall asleep during a run"),
        }
    }
    drop(kept);
}

//! The machine's power supply.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A source of power.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Supply {
    /// Mains power, or a battery in an unknown state.
    Mains,
    /// A discharging battery.
    Battery {
        /// Remaining charge from 0 to 1.
        charge: f32,
    },
}

/// The machine's power supply. Both methods may block.
pub trait Power: Debug + Send + Sync {
    /// The present source.
    fn supply(&self) -> Supply;

    /// Inhibits automatic sleep, or allows it again. Called on changes only.
    fn keep_awake(&self, awake: bool);
}

/// A machine on mains power that never sleeps.
#[derive(Debug, Clone, Copy, Default)]
pub struct AlwaysOn;

impl Power for AlwaysOn {
    fn supply(&self) -> Supply {
        Supply::Mains
    }

    fn keep_awake(&self, _: bool) {}
}

/// Whether a battery discharges, without waiting for the system, which may take long to answer.
#[derive(Debug)]
pub(crate) struct OnBattery {
    power: Arc<dyn Power>,
    last: AtomicBool,
    is_reading: AtomicBool,
}

impl OnBattery {
    /// Begins to read `power`.
    pub fn new(power: Arc<dyn Power>) -> Arc<Self> {
        let created = Arc::new(Self {
            power,
            last: AtomicBool::new(false),
            is_reading: AtomicBool::new(false),
        });
        created.get();
        created
    }

    /// The last value that was read. Reads again in the background.
    pub fn get(self: &Arc<Self>) -> bool {
        if !self.is_reading.swap(true, Ordering::AcqRel) {
            let this = Arc::clone(self);
            let reader = thread::Builder::new().name("power".to_owned()).spawn(move || {
                let is_discharging = matches!(this.power.supply(), Supply::Battery { .. });
                this.last.store(is_discharging, Ordering::Relaxed);
                this.is_reading.store(false, Ordering::Release);
            });
            if reader.is_err() {
                self.is_reading.store(false, Ordering::Release);
            }
        }
        self.last.load(Ordering::Relaxed)
    }
}

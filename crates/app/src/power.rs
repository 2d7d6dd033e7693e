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
    /// The current source.
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

/// A cached state of the battery. The system may take long to return it, so readers do not wait.
#[derive(Debug)]
pub(crate) struct OnBattery {
    power: Arc<dyn Power>,
    /// Whether the battery was discharging at the last read.
    last: AtomicBool,
    is_reading: AtomicBool,
}

impl OnBattery {
    /// Starts the first read.
    pub fn new(power: Arc<dyn Power>) -> Arc<Self> {
        let created = Arc::new(Self {
            power,
            last: AtomicBool::new(false),
            is_reading: AtomicBool::new(false),
        });
        created.get();
        created
    }

    /// Returns whether the battery was discharging at the last read, and reads again in the
    /// background.
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

//! The machine's power supply.

use std::fmt::Debug;

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

//! What fine-tuning needs of the machine beside its processor: power.

use std::fmt::Debug;

/// Where the machine's power comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Supply {
    /// The mains, or a battery that nothing is known of.
    Mains,
    /// A battery that discharges.
    Battery {
        /// What is left of it, from 0 to 1.
        charge: f32,
    },
}

/// The machine's power. Both may wait for the system.
pub trait Power: Debug + Send + Sync {
    /// Where it comes from now.
    fn supply(&self) -> Supply;

    /// Keeps the machine from falling asleep by itself, or no longer does. Only ever called when that changes.
    fn keep_awake(&self, awake: bool);
}

/// A machine that is always on.
#[derive(Debug, Clone, Copy, Default)]
pub struct AlwaysOn;

impl Power for AlwaysOn {
    fn supply(&self) -> Supply {
        Supply::Mains
    }

    fn keep_awake(&self, _: bool) {}
}

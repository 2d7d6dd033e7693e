//! Counting kernel launches on GPUs.

#[cfg(feature = "gpu")]
use cubecl::launched::LaunchedKernels;
#[cfg(feature = "gpu")]
use cubecl::logging::{LaunchObservation, LaunchObserver};
#[cfg(feature = "gpu")]
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Counts kernel launches of all threads from [`Count::begin`] to [`Count::end`]. One count at a
/// time.
pub struct Count {
    #[cfg(feature = "gpu")]
    launched: Arc<Launched>,
    #[cfg(feature = "gpu")]
    distinct: LaunchedKernels,
    #[cfg(feature = "gpu")]
    _observation: LaunchObservation,
}

#[cfg(feature = "gpu")]
#[derive(Default)]
struct Launched(AtomicU64);

#[cfg(feature = "gpu")]
impl LaunchObserver for Launched {
    fn launched(&self, _: &'static str) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Count {
    /// Starts counting from 0.
    pub fn begin() -> Self {
        #[cfg(feature = "gpu")]
        {
            let launched = Arc::<Launched>::default();
            Self {
                _observation: LaunchObservation::new(launched.clone()),
                distinct: LaunchedKernels::new(),
                launched,
            }
        }
        #[cfg(not(feature = "gpu"))]
        Self {}
    }

    /// The number of launches, and of distinct kernels, each of which is compiled once.
    pub fn end(self) -> (u64, u64) {
        #[cfg(feature = "gpu")]
        return (
            self.launched.0.load(Ordering::Relaxed),
            self.distinct.finish().len() as u64,
        );
        #[cfg(not(feature = "gpu"))]
        (0, 0)
    }
}

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

/// Counts the kernel launches of all threads from [`Count::begin`] to [`Count::end`]. Only one
/// count can be in progress.
pub struct Count {
    #[cfg(feature = "gpu")]
    launches: Arc<LaunchCounter>,
    #[cfg(feature = "gpu")]
    kernels: LaunchedKernels,
    #[cfg(feature = "gpu")]
    _observation: LaunchObservation,
}

#[cfg(feature = "gpu")]
#[derive(Default)]
struct LaunchCounter(AtomicU64);

#[cfg(feature = "gpu")]
impl LaunchObserver for LaunchCounter {
    fn launched(&self, _: &'static str) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Count {
    /// Starts counting from 0.
    pub fn begin() -> Self {
        #[cfg(feature = "gpu")]
        {
            let launches = Arc::<LaunchCounter>::default();
            Self {
                _observation: LaunchObservation::new(launches.clone()),
                kernels: LaunchedKernels::new(),
                launches,
            }
        }
        #[cfg(not(feature = "gpu"))]
        Self {}
    }

    /// Returns the number of launches, and the number of distinct kernels, each of which is
    /// compiled once.
    pub fn end(self) -> (u64, u64) {
        #[cfg(feature = "gpu")]
        return (
            self.launches.0.load(Ordering::Relaxed),
            self.kernels.finish().len() as u64,
        );
        #[cfg(not(feature = "gpu"))]
        (0, 0)
    }
}

//! The number of threads that compute a model.

use super::physical_cores;
use crate::numbers::saturating_u32;
use hearth_protocol::{LoadReason, Problem, ProblemCode};

/// Maximum number of threads. A larger number is a typing error.
const MAX_THREADS: u32 = 1024;

/// The number of threads: the requested one, or one per physical core.
///
/// # Errors
/// The requested number is 0 or too large.
pub(crate) fn team_size(requested: Option<u32>) -> Result<u32, Problem> {
    let threads = requested.unwrap_or_else(|| saturating_u32(physical_cores()));
    if (1..=MAX_THREADS).contains(&threads) {
        return Ok(threads);
    }
    let reason = LoadReason::BadThreads {
        threads,
        max: MAX_THREADS,
    };
    Err(Problem::new(ProblemCode::BadRequest, reason))
}

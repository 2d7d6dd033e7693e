//! Estimates, before a download, whether a model fits on this machine.

use crate::hardware;
use hearth_formats::byte_size;
use hearth_protocol::{Estimate, Verdict, estimate};

/// Estimates whether a model file of this many bytes fits on this machine. The second value is the
/// reason, as a sentence.
pub fn estimate_fit(size: u64) -> (Estimate, String) {
    let estimate = estimate(size, &hardware::devices_for(None));
    (estimate, sentence(&estimate))
}

fn sentence(estimate: &Estimate) -> String {
    let Some(room) = estimate.room else {
        return "The free memory is unknown.".to_owned();
    };
    match estimate.verdict {
        Verdict::WontFit => format!(
            "It probably needs more than the {} of memory that are free now.",
            byte_size(room)
        ),
        Verdict::FitsWithLessContext { context } => {
            format!("It probably fits with a context of about {context} tokens.")
        }
        Verdict::Slow => format!(
            "It probably fits, but answers will be slower than most people read: about {:.1} tokens per second.",
            estimate.tokens_per_second.unwrap_or_default()
        ),
        Verdict::Fits => "It probably fits in the memory that is free now.".to_owned(),
    }
}

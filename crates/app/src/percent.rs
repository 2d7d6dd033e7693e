//! Progress in whole percent.

/// Progress up to a total. It never decreases, even if the work starts over.
#[derive(Debug)]
pub(crate) struct Percent {
    /// The count at 100 %.
    pub total: u64,
    percent: u64,
}

impl Percent {
    pub(crate) fn new(total: u64) -> Self {
        Self { total, percent: 0 }
    }

    /// The completed fraction, from 0 to 1, if it has grown by at least one percent.
    pub(crate) fn advance(&mut self, done: u64) -> Option<f32> {
        let percent = (done.saturating_mul(100) / self.total.max(1)).min(100);
        if percent <= self.percent {
            return None;
        }
        self.percent = percent;
        Some(percent as f32 / 100.0)
    }
}

//! Draft statistics in the output of commands.

use hearth_protocol::DraftStats;
use serde::Serialize;

/// The draft's fields in a JSON report.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct DraftReport {
    drafted: u32,
    accepted: u32,
    draft_gain: f64,
    draft_used: f64,
    draft_stopped: bool,
}

impl From<DraftStats> for DraftReport {
    fn from(stats: DraftStats) -> Self {
        Self {
            drafted: stats.drafted,
            accepted: stats.accepted,
            draft_gain: stats.gain,
            draft_used: stats.used,
            draft_stopped: stats.stopped,
        }
    }
}

/// A description of the statistics in one sentence; `None` if nothing was drafted.
pub fn sentence(stats: DraftStats) -> Option<String> {
    let DraftStats {
        drafted,
        accepted,
        gain,
        used,
        stopped,
        ..
    } = stats;
    let suffix = if stopped {
        "; switched off at the suffix, because it cost more than it gained"
    } else {
        ""
    };
    (drafted > 0).then(|| {
        let (kind, percent) = (stats.kind, 100.0 * used);
        format!(
            "draft ({kind}): {accepted} of {drafted} tokens accepted, in {percent:.0} % of the steps, {gain:.2} times \
             as fast as without{suffix}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_protocol::DraftKind;

    #[test]
    fn a_sentence_says_what_the_draft_did_and_whether_it_stopped() {
        let mut stats = DraftStats {
            kind: DraftKind::Ngram,
            drafted: 40,
            accepted: 30,
            gain: 1.5,
            used: 0.25,
            stopped: false,
        };
        let expected = "draft (ngram): 30 of 40 tokens accepted, in 25 % of the steps, 1.50 times as fast as without";
        assert_eq!(sentence(stats).as_deref(), Some(expected));
        stats.stopped = true;
        assert!(sentence(stats).is_some_and(|sentence| sentence.ends_with("it cost more than it gained")));
        assert_eq!(sentence(DraftStats { drafted: 0, ..stats }), None);
    }
}

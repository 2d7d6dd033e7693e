//! The stats of an answer: the stats of its generation, added to the stats that it had when it was
//! continued.

use crate::wire::Stats;
use hearth_protocol::{DraftStats, Summary, TextKind};
use tokio::time::Instant;

/// Measures the duration of an answer's thoughts.
#[derive(Debug, Default)]
pub(super) struct ThinkingTimer {
    /// When the thought in progress began.
    thought_start: Option<Instant>,
    /// When the text after the last thought began.
    text_start: Option<Instant>,
    /// Duration of the completed thoughts.
    seconds: f64,
}

impl ThinkingTimer {
    /// Records a piece of text.
    pub fn record(&mut self, kind: TextKind) {
        match kind {
            TextKind::Thinking => {
                self.thought_start.get_or_insert_with(Instant::now);
                self.text_start = None;
            }
            TextKind::Text => {
                self.seconds = self.seconds();
                self.thought_start = None;
                self.text_start.get_or_insert_with(Instant::now);
            }
        }
    }

    /// Records that the text since the last thought was a thought.
    pub fn fold(&mut self) {
        self.seconds += self
            .text_start
            .take()
            .map_or(0.0, |start| start.elapsed().as_secs_f64());
    }

    /// Duration of all thoughts so far, in seconds.
    pub fn seconds(&self) -> f64 {
        self.seconds + self.thought_start.map_or(0.0, |start| start.elapsed().as_secs_f64())
    }
}

/// The stats of an answer. `before` are its stats when it was continued.
pub(super) fn from_summary(summary: &Summary, cached: u32, thinking_seconds: f64, before: Option<Stats>) -> Stats {
    let now = Stats {
        prompt_tokens: summary.prompt_tokens,
        cached_tokens: cached,
        tokens: summary.tokens,
        tokens_per_second: summary.tokens_per_second,
        prompt_tokens_per_second: summary.prompt_tokens_per_second,
        first_token_seconds: summary.first_token_seconds,
        context_used: summary.context_used,
        context: summary.context,
        draft: summary.draft,
        thinking_seconds: (thinking_seconds > 0.0).then_some(thinking_seconds),
    };
    match before {
        Some(before) => sum(before, now),
        None => now,
    }
}

/// Tokens and times add up. The prompt and its figures come from the first generation.
fn sum(before: Stats, now: Stats) -> Stats {
    // An answer cancelled before it began has no context.
    if now.context == 0 {
        return before;
    }
    let thinking = [before.thinking_seconds, now.thinking_seconds];
    Stats {
        tokens: before.tokens.saturating_add(now.tokens),
        tokens_per_second: mean_rate([
            (before.tokens, before.tokens_per_second),
            (now.tokens, now.tokens_per_second),
        ]),
        context_used: now.context_used,
        context: now.context,
        draft: match (before.draft, now.draft) {
            (Some(before), Some(now)) => Some(add_drafts(before, now)),
            (before, now) => now.or(before),
        },
        thinking_seconds: thinking
            .iter()
            .any(Option::is_some)
            .then(|| thinking.iter().flatten().sum()),
        ..before
    }
}

/// The rate of tokens that were generated at these rates. A rate of 0 was not measured.
fn mean_rate(parts: [(u32, f64); 2]) -> f64 {
    let measured = parts.iter().filter(|(_, rate)| *rate > 0.0);
    let (tokens, seconds) = measured.fold((0.0, 0.0), |(tokens, seconds), &(n, rate)| {
        (tokens + f64::from(n), seconds + f64::from(n) / rate)
    });
    if seconds > 0.0 { tokens / seconds } else { 0.0 }
}

/// Counts add up. The gain and the use are taken from the longer draft.
fn add_drafts(before: DraftStats, now: DraftStats) -> DraftStats {
    let longer = if now.drafted >= before.drafted { now } else { before };
    DraftStats {
        drafted: before.drafted.saturating_add(now.drafted),
        accepted: before.accepted.saturating_add(now.accepted),
        stopped: now.stopped,
        kind: now.kind,
        ..longer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(tokens: u32, tokens_per_second: f64, thinking_seconds: Option<f64>) -> Stats {
        Stats {
            prompt_tokens: tokens * 2,
            cached_tokens: 1,
            tokens,
            tokens_per_second,
            prompt_tokens_per_second: 10.0,
            first_token_seconds: 0.5,
            context_used: tokens * 3,
            context: 100,
            draft: None,
            thinking_seconds,
        }
    }

    #[test]
    fn tokens_and_times_of_a_continued_answer_add_up() {
        let sum = sum(stats(10, 5.0, Some(1.5)), stats(30, 30.0, Some(0.5)));
        assert_eq!((sum.tokens, sum.thinking_seconds), (40, Some(2.0)));
        // Two seconds and one.
        assert!((sum.tokens_per_second - 40.0 / 3.0).abs() < 1e-9, "{sum:?}");
        assert_eq!((sum.prompt_tokens, sum.context_used), (20, 90));
        let unmeasured = super::sum(stats(10, 5.0, None), stats(1, 0.0, None));
        assert_eq!((unmeasured.tokens, unmeasured.tokens_per_second), (11, 5.0));
        assert_eq!(unmeasured.thinking_seconds, None);
        let none = super::sum(
            stats(10, 5.0, None),
            Stats {
                context: 0,
                ..stats(0, 0.0, None)
            },
        );
        assert_eq!(none, stats(10, 5.0, None));
    }
}

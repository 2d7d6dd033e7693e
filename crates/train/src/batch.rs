//! Packed batches: examples concatenated without padding.

use hearth_llm::ops::NOT_TRAINED;
use std::sync::Arc;

/// A training example.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Example {
    /// The tokens.
    pub ids: Vec<u32>,
    /// The loss mask. The first token is never trained on, since nothing predicts it.
    pub trained: Vec<bool>,
}

impl Example {
    /// The number of trained tokens.
    pub fn trained_tokens(&self) -> usize {
        self.trained.iter().skip(1).filter(|trained| **trained).count()
    }

    /// Truncates to `length` tokens; returns whether the example was longer.
    pub fn truncate(&mut self, length: usize) -> bool {
        let was_longer = self.ids.len() > length;
        self.ids.truncate(length);
        self.trained.truncate(length);
        was_longer
    }
}

/// Examples packed into one pass. A token attends only to earlier tokens of the same example.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Input tokens: all but each example's last, which predicts nothing.
    pub ids: Arc<[u32]>,
    /// The target of each input token, or [`NOT_TRAINED`].
    pub targets: Arc<[u32]>,
    /// Positions and bounds of the examples.
    pub rows: Arc<hearth_llm::Batch>,
    /// Number of trained tokens.
    pub trained: usize,
    /// Number of tokens of the examples, including their last.
    pub tokens: usize,
}

impl Batch {
    /// Packs these examples.
    pub fn new<'a>(examples: impl IntoIterator<Item = &'a Example>) -> Self {
        let (mut ids, mut targets, mut lengths, mut tokens) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for example in examples {
            tokens += example.ids.len();
            let length = example.ids.len().saturating_sub(1);
            lengths.push(length);
            ids.extend_from_slice(&example.ids[..length]);
            let next_tokens = example.ids.iter().zip(&example.trained).skip(1);
            targets.extend(next_tokens.map(|(id, trained)| if *trained { *id } else { NOT_TRAINED }));
        }
        Self {
            trained: targets.iter().filter(|target| **target != NOT_TRAINED).count(),
            ids: ids.into(),
            targets: targets.into(),
            rows: Arc::new(hearth_llm::Batch::of_lengths(&lengths)),
            tokens,
        }
    }

    /// Packs the examples, in order, into batches of at most `max_tokens` tokens, for evaluation.
    /// A longer example forms a separate batch.
    pub fn of_tokens(examples: &[Example], max_tokens: usize) -> Vec<Self> {
        let (mut batches, mut batch_start, mut batch_tokens) = (Vec::new(), 0, 0);
        for (index, example) in examples.iter().enumerate() {
            if index > batch_start && batch_tokens + example.ids.len() > max_tokens {
                batches.push(Self::new(&examples[batch_start..index]));
                (batch_start, batch_tokens) = (index, 0);
            }
            batch_tokens += example.ids.len();
        }
        if batch_start < examples.len() {
            batches.push(Self::new(&examples[batch_start..]));
        }
        batches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An example whose tokens from `first_trained` on are trained.
    fn example(ids: &[u32], first_trained: usize) -> Example {
        Example {
            ids: ids.to_vec(),
            trained: (0..ids.len()).map(|index| index >= first_trained).collect(),
        }
    }

    #[test]
    fn each_token_predicts_the_next_of_its_own_example() {
        let batch = Batch::new(&[example(&[1, 2, 3], 2), example(&[4, 5], 0), example(&[6], 0)]);
        assert_eq!(*batch.ids, [1, 2, 4]);
        assert_eq!(*batch.targets, [NOT_TRAINED, 3, 5]);
        assert_eq!(batch.rows.starts(), [0, 0, 2]);
        assert_eq!(batch.rows.positions(), [0, 1, 0]);
        assert_eq!((batch.trained, batch.tokens), (2, 6));
    }

    #[test]
    fn batches_hold_at_most_the_requested_tokens() {
        let examples = [3, 3, 3, 9, 1].map(|length| example(&vec![1; length], 1));
        let sizes: Vec<usize> = Batch::of_tokens(&examples, 6)
            .iter()
            .map(|batch| batch.tokens)
            .collect();
        assert_eq!(sizes, [6, 3, 9, 1]);
        assert!(Batch::of_tokens(&[], 6).is_empty());
    }
}

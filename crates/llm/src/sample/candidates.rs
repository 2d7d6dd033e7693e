//! The candidates: the tokens that the filters have not removed.

use std::cmp::Ordering;

/// A token that may be drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub id: u32,
    pub logit: f32,
}

impl Candidate {
    /// Orders by descending logit, then ascending id. The logits of candidates are finite.
    pub fn order(&self, other: &Self) -> Ordering {
        other
            .logit
            .partial_cmp(&self.logit)
            .unwrap_or(Ordering::Equal)
            .then(self.id.cmp(&other.id))
    }
}

/// The tokens that the filters have not removed. The first filter that needs a list creates it.
/// Until then, the candidates are all tokens with finite logits.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// The logits of all tokens if `is_modified` is set.
    modified: Vec<f32>,
    /// Whether a filter modified logits.
    is_modified: bool,
    /// The candidates if `is_listed` is set.
    list: Vec<Candidate>,
    is_listed: bool,
    /// Divides the logits before the softmax. With 0, the first of the most likely candidates is
    /// certain.
    pub temperature: f32,
}

impl Candidates {
    /// Resets the candidates to all tokens. All other methods must be passed the same logits.
    pub fn begin(&mut self) {
        (self.is_modified, self.is_listed, self.temperature) = (false, false, 1.0);
    }

    /// The logits of all tokens.
    pub fn logits<'a>(&'a self, logits: &'a [f32]) -> &'a [f32] {
        if self.is_modified { &self.modified } else { logits }
    }

    /// The logits of all tokens, for a filter that modifies them. Must be called before the
    /// candidates are listed.
    pub fn logits_mut(&mut self, logits: &[f32]) -> &mut [f32] {
        debug_assert!(!self.is_listed, "a filter of logits runs before filters of candidates");
        if !self.is_modified {
            self.modified.clear();
            self.modified.extend_from_slice(logits);
            self.is_modified = true;
        }
        &mut self.modified
    }

    /// Whether the candidates were listed.
    pub fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Lists the candidates that `select` chooses from the logits of all tokens.
    pub fn list_with(&mut self, logits: &[f32], select: impl FnOnce(&[f32], &mut Vec<Candidate>)) {
        self.list.clear();
        select(if self.is_modified { &self.modified } else { logits }, &mut self.list);
        self.is_listed = true;
    }

    /// The list of candidates. If there is none yet, lists all tokens with finite logits by id.
    pub fn list(&mut self, logits: &[f32]) -> &mut Vec<Candidate> {
        if !self.is_listed {
            self.list_with(logits, |logits, list| {
                let finite = logits.iter().enumerate().filter(|(_, logit)| logit.is_finite());
                list.extend(finite.map(|(id, &logit)| Candidate { id: id as u32, logit }));
            });
        }
        &mut self.list
    }
}

/// Sorts the candidates in this order, and keeps the shortest prefix of at least one whose weights
/// sum to enough.
pub(super) fn keep_mass(
    candidates: &mut Vec<Candidate>,
    order: impl Fn(&Candidate, &Candidate) -> Ordering,
    weight: impl Fn(&Candidate) -> f64,
    is_enough: impl Fn(f64) -> bool,
) {
    // Sorts a growing prefix instead of the whole vocabulary, since usually few are kept.
    let mut sorted = 64;
    loop {
        if sorted < candidates.len() {
            candidates.select_nth_unstable_by(sorted, &order);
        }
        sorted = sorted.min(candidates.len());
        candidates[..sorted].sort_unstable_by(&order);
        let mut sum = 0.0;
        let last_kept = candidates[..sorted].iter().position(|candidate| {
            sum += weight(candidate);
            is_enough(sum)
        });
        match last_kept {
            Some(last) => return candidates.truncate(last + 1),
            None if sorted == candidates.len() => return,
            None => sorted *= 8,
        }
    }
}

//! The tokens that filters have left.

use std::cmp::Ordering;

/// A token that may be drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub id: u32,
    pub logit: f32,
}

impl Candidate {
    /// Orders by descending logit, then ascending id. Only finite logits become candidates.
    pub fn order(&self, other: &Self) -> Ordering {
        other
            .logit
            .partial_cmp(&self.logit)
            .unwrap_or(Ordering::Equal)
            .then(self.id.cmp(&other.id))
    }
}

/// The tokens that filters have left. They are listed when a filter first needs a list: until then
/// they are all tokens with finite logits, which may have been changed.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// The logits of all tokens, if a filter changed any.
    changed: Vec<f32>,
    is_changed: bool,
    list: Vec<Candidate>,
    is_listed: bool,
    /// Divides the logits when they become probabilities; 0 leaves the first most likely.
    pub temperature: f32,
}

impl Candidates {
    /// All tokens. The same logits are passed to every method.
    pub fn begin(&mut self) {
        (self.is_changed, self.is_listed, self.temperature) = (false, false, 1.0);
    }

    /// The logits of all tokens.
    pub fn logits<'a>(&'a self, logits: &'a [f32]) -> &'a [f32] {
        if self.is_changed { &self.changed } else { logits }
    }

    /// The logits of all tokens, to change them before they are listed.
    pub fn logits_mut(&mut self, logits: &[f32]) -> &mut [f32] {
        debug_assert!(!self.is_listed, "a filter of logits runs before filters of candidates");
        if !self.is_changed {
            self.changed.clear();
            self.changed.extend_from_slice(logits);
            self.is_changed = true;
        }
        &mut self.changed
    }

    /// Whether they were listed.
    pub fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Lists what `select` chooses from the logits of all tokens.
    pub fn list_with(&mut self, logits: &[f32], select: impl FnOnce(&[f32], &mut Vec<Candidate>)) {
        self.list.clear();
        select(if self.is_changed { &self.changed } else { logits }, &mut self.list);
        self.is_listed = true;
    }

    /// The list: of all tokens with finite logits by id, or what filters left of it in their order.
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

/// Keeps the first candidates in this order until their weights sum to enough, at least one, in
/// order.
pub(super) fn keep_mass(
    candidates: &mut Vec<Candidate>,
    order: impl Fn(&Candidate, &Candidate) -> Ordering,
    weight: impl Fn(&Candidate) -> f64,
    is_enough: impl Fn(f64) -> bool,
) {
    // Usually few are needed: sorts a growing prefix instead of the whole vocabulary.
    let mut sorted = 64;
    loop {
        if sorted < candidates.len() {
            candidates.select_nth_unstable_by(sorted, &order);
        }
        sorted = sorted.min(candidates.len());
        candidates[..sorted].sort_unstable_by(&order);
        let mut reached = 0.0;
        let cut = candidates[..sorted].iter().position(|c| {
            reached += weight(c);
            is_enough(reached)
        });
        match cut {
            Some(last) => return candidates.truncate(last + 1),
            None if sorted == candidates.len() => return,
            None => sorted *= 8,
        }
    }
}

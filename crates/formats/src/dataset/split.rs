//! The validation split.

use super::finding::{Finding, FindingKind, Severity};
use super::near_duplicates::{LshIndex, MinHash};
use super::report::lines_of;
use super::{Example, hash};
use std::collections::BTreeMap;

/// Indices of the training and validation examples, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Training examples.
    pub train: Vec<usize>,
    /// Validation examples; may be empty.
    pub eval: Vec<usize>,
}

/// Below this number of examples there is no validation split.
const MIN_EXAMPLES: usize = 5;

/// Maximum number of validation examples: more add time to every evaluation but little precision.
const MAX_VALIDATION: usize = 200;

/// Splits off a share of the examples for validation, given their fingerprints
/// ([`Example::fingerprint`] or [`Rendered::fingerprint`](super::Rendered::fingerprint)).
/// Deterministic for the same examples, share and seed, independent of their order. Equal examples
/// are on the same side. At least one example remains for training; at most two hundred are split
/// off, and none from fewer than five.
pub fn split(fingerprints: &[u64], share: f32, seed: u64) -> Split {
    let count = fingerprints.len();
    let target = (count as f64 * f64::from(share.clamp(0.0, 1.0))).round() as usize;
    // At least one, unless the share is 0.
    let min_target = usize::from(share > 0.0);
    let target = target.max(min_target).min(MAX_VALIDATION).min(count.saturating_sub(1));
    let target = if count < MIN_EXAMPLES { 0 } else { target };
    let mut groups: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, &fingerprint) in fingerprints.iter().enumerate() {
        groups
            .entry(hash::mix(fingerprint ^ hash::mix(seed)))
            .or_default()
            .push(index);
    }
    let (mut train, mut eval) = (Vec::new(), Vec::new());
    for group in groups.into_values() {
        let side = if eval.len() + group.len() <= target {
            &mut eval
        } else {
            &mut train
        };
        side.extend(group);
    }
    train.sort_unstable();
    eval.sort_unstable();
    Split { train, eval }
}

/// Finds validation examples that are near-duplicates of training examples, which make the
/// validation loss look too good. `None` if there are none.
pub fn leaks(examples: &[Example], split: &Split) -> Option<Finding> {
    let mut lsh = LshIndex::default();
    let indexed = |&index: &usize| Some((index, examples.get(index)?));
    for (index, example) in split.train.iter().filter_map(indexed) {
        lsh.insert(index, &MinHash::new(example));
    }
    let validation = split.eval.iter().filter_map(indexed).map(|(_, example)| example);
    let leaked =
        validation.filter(|example| !lsh.is_work_exhausted() && lsh.find(&MinHash::new(example), examples).is_some());
    let leaked: Vec<u32> = leaked.map(|example| example.line).collect();
    (!leaked.is_empty()).then(|| Finding {
        kind: FindingKind::Leaks {
            count: leaked.len() as u32,
            total: split.eval.len() as u32,
        },
        severity: Severity::Warning,
        lines: lines_of(leaked),
    })
}

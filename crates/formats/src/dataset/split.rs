//! Which examples are not trained on but measured with.

use super::report::{Finding, Severity, lines_of};
use super::similar::{Index, Sketch};
use super::{Example, hash};
use std::collections::BTreeMap;

/// Examples that are trained on and examples that are held out, by their places, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Trained on; all of them where there is nothing to hold out.
    pub train: Vec<usize>,
    /// Held out.
    pub eval: Vec<usize>,
}

/// With fewer examples none is held out: each is needed.
const FEWEST: usize = 5;

/// More tell hardly anything that these do not, and take time at every evaluation.
const MOST_HELD_OUT: usize = 200;

/// Holds out a share of examples, given their fingerprints ([`Example::fingerprint`] or
/// [`Rendered::fingerprint`](super::Rendered::fingerprint)).
///
/// The same examples, share and seed give the same split everywhere, in whatever order the examples come. Equal examples lie on
/// the same side. At least one is trained on, at most two hundred are held out, and none of fewer than five.
pub fn split(fingerprints: &[u64], share: f32, seed: u64) -> Split {
    let count = fingerprints.len();
    let wanted = (count as f64 * f64::from(share.clamp(0.0, 1.0))).round() as usize;
    // One to measure with is better than none.
    let least = usize::from(share > 0.0);
    let wanted = wanted.max(least).min(MOST_HELD_OUT).min(count.saturating_sub(1));
    let wanted = if count < FEWEST { 0 } else { wanted };
    let mut groups: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (place, &fingerprint) in fingerprints.iter().enumerate() {
        groups
            .entry(hash::mix(fingerprint ^ hash::mix(seed)))
            .or_default()
            .push(place);
    }
    let (mut train, mut eval) = (Vec::new(), Vec::new());
    for group in groups.into_values() {
        let side = if eval.len() + group.len() <= wanted {
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

/// Held-out examples that are nearly the same as one that is trained on: they measure what was learnt by heart. None: there are
/// none.
pub fn leaks(examples: &[Example], split: &Split) -> Option<Finding> {
    let mut index = Index::default();
    let at = |&place: &usize| Some((place, examples.get(place)?));
    for (place, example) in split.train.iter().filter_map(at) {
        index.insert(place, &Sketch::new(example));
    }
    let held_out = split.eval.iter().filter_map(at).map(|(_, example)| example);
    let leaked =
        held_out.filter(|example| !index.is_exhausted() && index.find(&Sketch::new(example), examples).is_some());
    let leaked: Vec<u32> = leaked.map(|example| example.line).collect();
    (!leaked.is_empty()).then(|| Finding {
        kind: "leaks",
        severity: Severity::Warning,
        message: format!(
            "{} of {} held-out examples are nearly the same as one that is trained on, so the held-out loss will look better than \
             it is. Remove near-duplicates from the file.",
            leaked.len(),
            split.eval.len()
        ),
        lines: lines_of(leaked),
    })
}

//! Finds near-duplicate examples in linear time: MinHash with locality-sensitive hashing (LSH).
//! <https://en.wikipedia.org/wiki/MinHash>

use super::{Content, Example, hash};
use crate::chat_template::Role;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};

/// Jaccard similarity of shingles from which two examples are near-duplicates: in a hundred words,
/// about four changed ones that are not adjacent.
const MIN_SIMILARITY: f64 = 0.8;

/// Words per shingle.
const SHINGLE: usize = 3;

/// Maximum number of words of an example that are hashed.
const MAX_WORDS: usize = 20_000;

/// Number of examples with cached shingles.
const RECENT: usize = 16;

/// Maximum bytes of words hashed to compare candidates.
const MAX_WORK: usize = 1 << 30;

/// LSH bands, and rows per band. At a similarity of [`MIN_SIMILARITY`] the four rows of a band
/// agree with a probability of 0.8^4 = 41 %, and at least one of sixteen bands with 99.98 %.
const BANDS: usize = 16;
const ROWS: usize = 4;

/// The sorted, unique shingle hashes of an example, and the bytes of the words hashed. Punctuation,
/// case and system prompts, which many examples share, are ignored.
fn shingles(example: &Example) -> (Vec<u64>, usize) {
    let texts: Vec<&str> = match &example.content {
        Content::Text(text) => vec![text],
        Content::PromptAnswer { prompt, answer, .. } => vec![prompt, answer],
        Content::Chat(messages) => {
            let turns = messages.iter().filter(|message| message.role != Role::System);
            turns.map(|message| message.content.as_str()).collect()
        }
    };
    let words = texts
        .iter()
        .flat_map(|text| text.split(|c: char| !c.is_alphanumeric()))
        .filter(|word| !word.is_empty());
    let mut bytes = 0;
    let words: Vec<u64> = words
        .take(MAX_WORDS)
        .inspect(|word| bytes += word.len() + 1)
        .map(|word| hash::bytes(word.to_lowercase().as_bytes()))
        .collect();
    let combine = |words: &[u64]| {
        words
            .iter()
            .fold(0u64, |state, word| hash::mix(state.rotate_left(1) ^ word))
    };
    let mut shingles: Vec<u64> = match words.len() {
        0 => Vec::new(),
        1..SHINGLE => vec![combine(&words)],
        _ => words.windows(SHINGLE).map(combine).collect(),
    };
    shingles.sort_unstable();
    shingles.dedup();
    (shingles, bytes)
}

/// The MinHash signature of an example.
pub(super) struct MinHash {
    shingles: Vec<u64>,
    /// A hash per band; empty if there are no shingles, so that empty examples do not match.
    bands: Vec<u64>,
}

impl MinHash {
    pub fn new(example: &Example) -> Self {
        let (shingles, _) = shingles(example);
        let bands = if shingles.is_empty() { 0 } else { BANDS };
        let band = |band: usize| {
            let min_hash = |row: usize| {
                let seed = hash::mix((band * ROWS + row + 1) as u64);
                shingles
                    .iter()
                    .map(|shingle| hash::mix(shingle ^ seed))
                    .min()
                    .unwrap_or(0)
            };
            (0..ROWS).fold(band as u64, |state, row| hash::mix(state ^ min_hash(row)))
        };
        let bands = (0..bands).map(band).collect();
        Self { shingles, bands }
    }
}

/// Examples indexed by their bands.
pub(super) struct LshIndex {
    /// The first example with each band hash.
    bands: HashMap<u64, usize>,
    /// Cached shingles of the most recent candidates.
    recent: RefCell<VecDeque<(usize, Vec<u64>)>>,
    /// Remaining bytes of words to hash for comparisons.
    work_left: Cell<usize>,
}

impl Default for LshIndex {
    fn default() -> Self {
        Self {
            bands: HashMap::new(),
            recent: RefCell::default(),
            work_left: Cell::new(MAX_WORK),
        }
    }
}

impl LshIndex {
    /// Adds an example.
    pub fn insert(&mut self, index: usize, signature: &MinHash) {
        for &band in &signature.bands {
            self.bands.entry(band).or_insert(index);
        }
    }

    /// Returns the earliest near-duplicate among the first examples of matching bands.
    pub fn find(&self, signature: &MinHash, examples: &[Example]) -> Option<usize> {
        let mut candidates: Vec<usize> = signature
            .bands
            .iter()
            .filter_map(|band| self.bands.get(band).copied())
            .collect();
        candidates.sort_unstable();
        candidates.dedup();
        let is_near = |&index: &usize| self.similarity(signature, index, examples) >= MIN_SIMILARITY;
        candidates.into_iter().find(is_near)
    }

    /// The similarity of a signature to an earlier example.
    fn similarity(&self, signature: &MinHash, index: usize, examples: &[Example]) -> f64 {
        let mut recent = self.recent.borrow_mut();
        if let Some((_, shingles)) = recent.iter().find(|(other, _)| *other == index) {
            return jaccard(&signature.shingles, shingles);
        }
        let (shingles, bytes) = shingles(&examples[index]);
        self.work_left.set(self.work_left.get().saturating_sub(bytes));
        let similarity = jaccard(&signature.shingles, &shingles);
        recent.truncate(RECENT - 1);
        recent.push_front((index, shingles));
        similarity
    }

    /// Whether the work limit is reached: a long example is hashed again for each short one that
    /// matches a band of it.
    pub fn is_work_exhausted(&self) -> bool {
        self.work_left.get() == 0
    }
}

/// Jaccard similarity: the size of the intersection over the size of the union.
fn jaccard(left: &[u64], right: &[u64]) -> f64 {
    let intersection = left
        .iter()
        .filter(|shingle| right.binary_search(shingle).is_ok())
        .count();
    intersection as f64 / (left.len() + right.len() - intersection).max(1) as f64
}

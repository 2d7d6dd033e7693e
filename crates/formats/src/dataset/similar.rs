//! Finds examples that are nearly the same, without comparing each with each (MinHash with bands).
//! <https://en.wikipedia.org/wiki/MinHash>

use super::{Content, Example, hash};
use crate::chat_template::Role;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};

/// Two examples are nearly the same where they share this much of their shingles (those of both over those of either): in a
/// hundred words, about four changed ones that stand apart.
const ALIKE: f64 = 0.8;

/// Words in a shingle.
const SHINGLE: usize = 3;

/// Words of an example that are looked at.
const MOST_WORDS: usize = 20_000;

/// Examples whose shingles are at hand.
const RECENT: usize = 16;

/// Bytes of words that are looked at to compare examples with earlier ones.
const MOST_WORK: usize = 1 << 30;

/// Of two examples that share [`ALIKE`], the four smallest hashes of a band agree with 0.8^4 = 41 %, so that one of sixteen bands
/// does with 99.98 %.
const BANDS: usize = 16;
const ROWS: usize = 4;

/// The shingles of an example, hashed, in order, each once. Punctuation, letter case and system prompts, which many examples
/// share, do not count. With the bytes of the words that they are made of.
fn shingles(example: &Example) -> (Vec<u64>, usize) {
    let texts: Vec<&str> = match &example.content {
        Content::Text(text) => vec![text],
        Content::PromptAnswer { prompt, answer, .. } => vec![prompt, answer],
        Content::Chat(messages) => {
            let said = messages.iter().filter(|message| message.role != Role::System);
            said.map(|message| message.content.as_str()).collect()
        }
    };
    let words = texts
        .iter()
        .flat_map(|text| text.split(|c: char| !c.is_alphanumeric()))
        .filter(|word| !word.is_empty());
    let mut bytes = 0;
    let words: Vec<u64> = words
        .take(MOST_WORDS)
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

/// What of an example is compared.
pub(super) struct Sketch {
    shingles: Vec<u64>,
    /// A number for every band; none where there are no shingles, since nothing is like nothing.
    bands: Vec<u64>,
}

impl Sketch {
    pub fn new(example: &Example) -> Self {
        let (shingles, _) = shingles(example);
        let bands = if shingles.is_empty() { 0 } else { BANDS };
        let band = |band: usize| {
            let least = |row: usize| {
                let seed = hash::mix((band * ROWS + row + 1) as u64);
                shingles
                    .iter()
                    .map(|shingle| hash::mix(shingle ^ seed))
                    .min()
                    .unwrap_or(0)
            };
            (0..ROWS).fold(band as u64, |state, row| hash::mix(state ^ least(row)))
        };
        let bands = (0..bands).map(band).collect();
        Self { shingles, bands }
    }
}

/// Examples by their bands.
pub(super) struct Index {
    /// The first example with a band.
    bands: HashMap<u64, usize>,
    /// The shingles of examples that were compared with last.
    recent: RefCell<VecDeque<(usize, Vec<u64>)>>,
    /// Bytes of words that may still be looked at once more.
    work_left: Cell<usize>,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            bands: HashMap::new(),
            recent: RefCell::default(),
            work_left: Cell::new(MOST_WORK),
        }
    }
}

impl Index {
    /// Remembers an example.
    pub fn insert(&mut self, place: usize, sketch: &Sketch) {
        for &band in &sketch.bands {
            self.bands.entry(band).or_insert(place);
        }
    }

    /// The earliest remembered example that is nearly the same, as far as the first of every band tell.
    pub fn find(&self, sketch: &Sketch, all: &[Example]) -> Option<usize> {
        let mut candidates: Vec<usize> = sketch
            .bands
            .iter()
            .filter_map(|band| self.bands.get(band).copied())
            .collect();
        candidates.sort_unstable();
        candidates.dedup();
        let alike = |&place: &usize| self.overlap(sketch, place, all) >= ALIKE;
        candidates.into_iter().find(alike)
    }

    /// What a sketch shares with an earlier example.
    fn overlap(&self, sketch: &Sketch, place: usize, all: &[Example]) -> f64 {
        let mut recent = self.recent.borrow_mut();
        if let Some((_, shingles)) = recent.iter().find(|(other, _)| *other == place) {
            return overlap(&sketch.shingles, shingles);
        }
        let (shingles, bytes) = shingles(&all[place]);
        self.work_left.set(self.work_left.get().saturating_sub(bytes));
        let shared = overlap(&sketch.shingles, &shingles);
        recent.truncate(RECENT - 1);
        recent.push_front((place, shingles));
        shared
    }

    /// Whether so much was compared that no more should be: a long example that many short ones seem to be like is gone through for
    /// each of them.
    pub fn is_exhausted(&self) -> bool {
        self.work_left.get() == 0
    }
}

/// Those of both over those of either.
fn overlap(one: &[u64], other: &[u64]) -> f64 {
    let both = one
        .iter()
        .filter(|shingle| other.binary_search(shingle).is_ok())
        .count();
    both as f64 / (one.len() + other.len() - both).max(1) as f64
}

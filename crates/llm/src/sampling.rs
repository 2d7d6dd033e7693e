//! Choosing the next token from the model's logits.
//!
//! The order is llama.cpp's: penalties, top-k, top-p, min-p, temperature, then a draw. Top-p and
//! min-p look at the probabilities before the temperature flattens them, so raising the temperature
//! never lets in a token that they had refused.

use std::collections::{HashMap, VecDeque};
use thiserror::Error;

/// How the next token is chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// Divides the logits before the draw; 0 takes the likeliest token always (greedy).
    pub temperature: f32,
    /// Keep the k likeliest; 0 keeps all.
    pub top_k: usize,
    /// Keep the likeliest whose probabilities reach p together; 1 keeps all.
    pub top_p: f32,
    /// Drop what is less likely than this share of the likeliest; 0 drops nothing.
    pub min_p: f32,
    /// Divides the positive logits of tokens seen lately, and multiplies the negative ones; 1
    /// changes nothing.
    pub repetition_penalty: f32,
    /// Taken from a token's logit for every time it was seen lately; 0 changes nothing.
    pub frequency_penalty: f32,
    /// Taken once from the logit of a token that was seen lately; 0 changes nothing.
    pub presence_penalty: f32,
    /// How many tokens back "lately" reaches.
    pub repeat_last_n: usize,
    /// The same seed draws the same numbers on every machine.
    pub seed: u64,
}

impl SamplingParams {
    /// The likeliest token always, whatever came before.
    pub fn greedy() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            repeat_last_n: 0,
            seed: 0,
        }
    }

    /// Whether it takes the likeliest token always, so that nothing but that need be known of the
    /// logits.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0 && !self.penalises()
    }

    fn penalises(&self) -> bool {
        self.repeat_last_n > 0
            && (self.repetition_penalty != 1.0 || self.frequency_penalty != 0.0 || self.presence_penalty != 0.0)
    }
}

/// Why no token was chosen.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SamplingError {
    /// A setting outside its range.
    #[error("{name} is {value}, but has to be {range}")]
    Setting {
        /// The setting's name.
        name: &'static str,
        /// What it was set to.
        value: f32,
        /// What it may be.
        range: &'static str,
    },
    /// Not one logit is a finite number, so that the weights must be damaged.
    #[error("the model's logits are not numbers; its file is probably damaged, download it again")]
    NoScores,
}

/// Chooses tokens, one after the other.
#[derive(Debug, Clone)]
pub struct Sampler {
    sampling: SamplingParams,
    draws: Draws,
    recent: VecDeque<u32>,
    counts: HashMap<u32, u32>,
    /// The logits with penalties; a copy only where there are any.
    penalised: Vec<f32>,
    candidates: Vec<Candidate>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Candidate {
    id: u32,
    logit: f32,
}

impl Candidate {
    /// The likelier first, and of equals the lower id. Only finite logits become candidates.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        other
            .logit
            .partial_cmp(&self.logit)
            .unwrap_or(std::cmp::Ordering::Equal)
            .then(self.id.cmp(&other.id))
    }
}

impl Sampler {
    /// A sampler that has seen nothing yet.
    ///
    /// # Errors
    /// [`SamplingError::Setting`] for a number outside its range.
    pub fn new(sampling: SamplingParams) -> Result<Self, SamplingError> {
        let checks: [(&'static str, f32, bool, &'static str); 6] = [
            (
                "temperature",
                sampling.temperature,
                sampling.temperature >= 0.0,
                "0 or more",
            ),
            (
                "top_p",
                sampling.top_p,
                (0.0..=1.0).contains(&sampling.top_p),
                "from 0 to 1",
            ),
            (
                "min_p",
                sampling.min_p,
                (0.0..=1.0).contains(&sampling.min_p),
                "from 0 to 1",
            ),
            (
                "repetition_penalty",
                sampling.repetition_penalty,
                sampling.repetition_penalty > 0.0,
                "more than 0",
            ),
            ("frequency_penalty", sampling.frequency_penalty, true, "a number"),
            ("presence_penalty", sampling.presence_penalty, true, "a number"),
        ];
        for (name, value, within, range) in checks {
            if !within || !value.is_finite() {
                return Err(SamplingError::Setting { name, value, range });
            }
        }
        Ok(Self {
            draws: Draws::new(sampling.seed),
            recent: VecDeque::new(),
            counts: HashMap::new(),
            penalised: Vec::new(),
            candidates: Vec::new(),
            sampling,
        })
    }

    /// Tells the penalties of a token, of the prompt or of the answer.
    pub fn accept(&mut self, token: u32) {
        if !self.sampling.penalises() {
            return;
        }
        if self.recent.len() == self.sampling.repeat_last_n
            && let Some(oldest) = self.recent.pop_front()
            && let Some(count) = self.counts.get_mut(&oldest)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&oldest);
            }
        }
        self.recent.push_back(token);
        *self.counts.entry(token).or_default() += 1;
    }

    /// The next token, given a logit for each one of the vocabulary. Scores that are not finite are
    /// never chosen.
    ///
    /// # Errors
    /// [`SamplingError::NoScores`] when none is finite.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32, SamplingError> {
        let mut penalised = std::mem::take(&mut self.penalised);
        let logits = if self.counts.is_empty() {
            logits
        } else {
            self.penalise(logits, &mut penalised)
        };
        let token = if self.sampling.temperature == 0.0 {
            greedy(logits)
        } else {
            self.draw(logits)
        };
        self.penalised = penalised;
        token.ok_or(SamplingError::NoScores)
    }

    fn penalise<'a>(&self, logits: &[f32], out: &'a mut Vec<f32>) -> &'a [f32] {
        out.clear();
        out.extend_from_slice(logits);
        for (&id, &count) in &self.counts {
            if let Some(logit) = out.get_mut(id as usize) {
                let repetition = self.sampling.repetition_penalty;
                *logit = if *logit > 0.0 {
                    *logit / repetition
                } else {
                    *logit * repetition
                };
                *logit -= count as f32 * self.sampling.frequency_penalty + self.sampling.presence_penalty;
            }
        }
        out
    }

    fn draw(&mut self, logits: &[f32]) -> Option<u32> {
        let SamplingParams {
            temperature,
            top_k,
            top_p,
            min_p,
            ..
        } = self.sampling;
        if top_k > 0 && top_k < logits.len() {
            likeliest(logits, top_k, &mut self.candidates);
        } else {
            self.candidates.clear();
            let all = logits.iter().enumerate().filter(|(_, logit)| logit.is_finite());
            self.candidates
                .extend(all.map(|(id, &logit)| Candidate { id: id as u32, logit }));
        }
        if top_p < 1.0 {
            keep_top_p(&mut self.candidates, top_p);
        }
        let peak = self.candidates.iter().map(|c| c.logit).reduce(f32::max)?;
        if min_p > 0.0 {
            let least = peak + min_p.ln();
            self.candidates.retain(|c| c.logit >= least);
        }
        let weight = |c: &Candidate| (f64::from(c.logit - peak) / f64::from(temperature)).exp();
        let total: f64 = self.candidates.iter().map(weight).sum();
        let mut left = self.draws.unit() * total;
        for candidate in &self.candidates {
            left -= weight(candidate);
            if left < 0.0 {
                return Some(candidate.id);
            }
        }
        // Rounding alone can bring a draw past the last one.
        self.candidates.last().map(|c| c.id)
    }
}

/// How many logits are compared in one go; wide enough for the widest vectors there are.
const LANES: usize = 16;

/// The id of the highest finite logit, the lowest such id where several share it.
pub fn greedy(logits: &[f32]) -> Option<u32> {
    let finite = |logit: f32| if logit.is_finite() { logit } else { f32::NEG_INFINITY };
    let mut peaks = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = logits.as_chunks::<LANES>();
    for chunk in chunks {
        for (peak, &logit) in peaks.iter_mut().zip(chunk) {
            let logit = finite(logit);
            *peak = if logit > *peak { logit } else { *peak };
        }
    }
    let peak = rest
        .iter()
        .map(|&logit| finite(logit))
        .chain(peaks)
        .fold(f32::NEG_INFINITY, f32::max);
    if peak == f32::NEG_INFINITY {
        return None;
    }
    logits.iter().position(|&logit| logit == peak).map(|id| id as u32)
}

/// The k highest finite logits into `best`, in order.
///
/// One pass: whatever does not exceed the k-th best so far is passed over a vector at a time, and
/// so few remain that sorting them costs nothing.
fn likeliest(logits: &[f32], k: usize, best: &mut Vec<Candidate>) {
    let room = k.saturating_mul(2).max(256);
    best.clear();
    let mut least = f32::NEG_INFINITY;
    for (index, chunk) in logits.chunks(LANES).enumerate() {
        if !chunk.iter().fold(false, |any, &logit| any | (logit > least)) {
            continue;
        }
        for (lane, &logit) in chunk.iter().enumerate() {
            if logit > least && logit.is_finite() {
                best.push(Candidate {
                    id: (index * LANES + lane) as u32,
                    logit,
                });
            }
        }
        if best.len() >= room {
            // Ids come in ascending order, so a later equal of the k-th best could only lose to it.
            let (_, kth, _) = best.select_nth_unstable_by(k - 1, Candidate::order);
            least = kth.logit;
            best.truncate(k);
        }
    }
    best.sort_unstable_by(Candidate::order);
    best.truncate(k);
}

/// Keeps the likeliest candidates whose probabilities reach p together, at least one, and leaves
/// them in order.
fn keep_top_p(candidates: &mut Vec<Candidate>, p: f32) {
    let Some(peak) = candidates.iter().map(|c| c.logit).reduce(f32::max) else {
        return;
    };
    let weight = |c: &Candidate| f64::from(c.logit - peak).exp();
    let enough = candidates.iter().map(weight).sum::<f64>() * f64::from(p);
    // Few are needed as a rule: sort a growing beginning rather than the whole vocabulary.
    let mut sorted = 64;
    loop {
        if sorted < candidates.len() {
            candidates.select_nth_unstable_by(sorted, Candidate::order);
        }
        sorted = sorted.min(candidates.len());
        candidates[..sorted].sort_unstable_by(Candidate::order);
        let mut reached = 0.0;
        let cut = candidates[..sorted].iter().position(|c| {
            reached += weight(c);
            reached >= enough
        });
        match cut {
            Some(last) => return candidates.truncate(last + 1),
            None if sorted == candidates.len() => return,
            None => sorted *= 8,
        }
    }
}

/// Numbers in 0..1 from a seed: SplitMix64 (Steele, Lea and Flood, 2014), a few integer operations
/// whose result no platform or library version changes.
#[derive(Debug, Clone)]
struct Draws {
    state: u64,
}

impl Draws {
    fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn unit(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // As many bits as an f64 holds exactly.
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sampler(change: impl FnOnce(&mut SamplingParams)) -> Sampler {
        let mut sampling = SamplingParams {
            temperature: 1.0,
            ..SamplingParams::greedy()
        };
        change(&mut sampling);
        Sampler::new(sampling).unwrap()
    }

    /// Every id that a thousand draws give.
    fn drawn(sampler: &mut Sampler, logits: &[f32]) -> Vec<u32> {
        let mut ids: Vec<u32> = (0..1000).map(|_| sampler.sample(logits).unwrap()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    fn logs(probabilities: &[f32]) -> Vec<f32> {
        probabilities.iter().map(|p| p.ln()).collect()
    }

    #[test]
    fn filters_keep_what_they_say() {
        let check = |change: fn(&mut SamplingParams), expected: &[u32]| {
            assert_eq!(drawn(&mut sampler(change), &logs(&[0.1, 0.4, 0.2, 0.3])), expected);
        };
        check(|_| (), &[0, 1, 2, 3]);
        check(|s| s.top_k = 2, &[1, 3]);
        check(|s| s.top_k = 9, &[0, 1, 2, 3]);
        check(|s| s.top_p = 0.65, &[1, 3]);
        check(|s| s.top_p = 0.75, &[1, 2, 3]);
        check(|s| s.top_p = 0.0, &[1]);
        check(|s| s.min_p = 0.6, &[1, 3]);
        // The temperature comes last: it flattens what is left, and lets nothing in again.
        check(|s| (s.min_p, s.temperature) = (0.6, 10.0), &[1, 3]);
        // Top-p counts among what top-k has left, where 0.4 of 0.7 is not yet 0.6.
        check(|s| (s.top_k, s.top_p) = (2, 0.6), &[1, 3]);
        check(|s| (s.top_k, s.top_p) = (2, 0.5), &[1]);
    }

    #[test]
    fn penalties_follow_their_formulas() {
        let check = |change: fn(&mut SamplingParams), expected: [f32; 3]| {
            let mut sampler = sampler(|s| {
                s.repeat_last_n = 64;
                change(s);
            });
            for token in [0, 0, 1] {
                sampler.accept(token);
            }
            assert_eq!(sampler.penalise(&[2.0, -2.0, 3.0], &mut Vec::new()), expected);
        };
        check(|s| s.repetition_penalty = 2.0, [1.0, -4.0, 3.0]);
        check(|s| s.frequency_penalty = 0.5, [1.0, -2.5, 3.0]);
        check(|s| s.presence_penalty = 0.5, [1.5, -2.5, 3.0]);
        check(|s| (s.frequency_penalty, s.repeat_last_n) = (0.5, 2), [1.5, -2.5, 3.0]);
    }

    #[test]
    fn draws_are_as_frequent_as_they_are_likely() {
        let mut sampler = sampler(|s| s.seed = 7);
        let logits = logs(&[0.5, 0.25, 0.25]);
        let ones = (0..10_000).filter(|_| sampler.sample(&logits) == Ok(0)).count();
        assert!((4_800..5_200).contains(&ones), "{ones}");
    }

    /// The generator's published first outputs, so that a seed keeps its meaning.
    #[test]
    fn a_seed_means_the_same_for_ever() {
        let mut draws = Draws::new(1_234_567);
        let expected = [
            6_457_827_717_110_365_317_u64,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        for bits in expected {
            assert_eq!(draws.unit(), (bits >> 11) as f64 / (1_u64 << 53) as f64);
        }
    }

    #[test]
    fn settings_outside_their_range_are_refused() {
        let bad: [fn(&mut SamplingParams); 6] = [
            |s| s.temperature = -1.0,
            |s| s.temperature = f32::NAN,
            |s| s.top_p = 1.5,
            |s| s.min_p = -0.1,
            |s| s.repetition_penalty = 0.0,
            |s| s.frequency_penalty = f32::INFINITY,
        ];
        for change in bad {
            let mut sampling = SamplingParams::greedy();
            change(&mut sampling);
            assert!(matches!(Sampler::new(sampling), Err(SamplingError::Setting { .. })));
        }
    }

    /// Scores with many ties and the odd one that is not a number.
    fn logits() -> impl Strategy<Value = Vec<f32>> {
        let logit = prop_oneof![
            8 => (-20_i32..20).prop_map(|s| s as f32 / 2.0),
            1 => Just(f32::NAN),
            1 => Just(f32::INFINITY),
            1 => Just(f32::NEG_INFINITY),
        ];
        prop::collection::vec(logit, 0..700)
    }

    fn ranked(logits: &[f32]) -> Vec<Candidate> {
        let all = logits.iter().enumerate().filter(|(_, s)| s.is_finite());
        let mut all: Vec<_> = all.map(|(id, &logit)| Candidate { id: id as u32, logit }).collect();
        all.sort_by(Candidate::order);
        all
    }

    proptest! {
        #[test]
        fn greedy_is_the_first_of_the_highest(logits in logits()) {
            prop_assert_eq!(greedy(&logits), ranked(&logits).first().map(|c| c.id));
        }

        #[test]
        fn top_k_is_the_beginning_of_the_sorted_scores(logits in logits(), k in 1_usize..300) {
            let mut best = Vec::new();
            likeliest(&logits, k, &mut best);
            let mut expected = ranked(&logits);
            expected.truncate(k);
            prop_assert_eq!(best, expected);
        }

        #[test]
        fn top_p_is_the_shortest_beginning_that_reaches_it(logits in logits(), p in 0.0_f32..1.0) {
            let mut kept = ranked(&logits);
            let all = kept.clone();
            kept.reverse();
            keep_top_p(&mut kept, p);
            let mass = |some: &[Candidate]| some.iter().map(|c| f64::from(c.logit - 10.0).exp()).sum::<f64>();
            prop_assert_eq!(&kept[..], &all[..kept.len()]);
            prop_assert!(mass(&kept) >= mass(&all) * f64::from(p) * (1.0 - 1e-9));
            if kept.len() > 1 {
                prop_assert!(mass(&kept[..kept.len() - 1]) < mass(&all) * f64::from(p) * (1.0 + 1e-9));
            }
        }

        #[test]
        fn only_finite_scores_are_chosen_and_a_seed_repeats(
            logits in logits(), seed: u64, top_k in 0_usize..60, top_p in 0.0_f32..=1.0, min_p in 0.0_f32..=1.0,
        ) {
            let build = || sampler(|s| (s.seed, s.top_k, s.top_p, s.min_p) = (seed, top_k, top_p, min_p));
            let (mut one, mut two) = (build(), build());
            for _ in 0..5 {
                let token = one.sample(&logits);
                prop_assert_eq!(&token, &two.sample(&logits));
                match token {
                    Ok(id) => prop_assert!(logits[id as usize].is_finite()),
                    Err(_) => prop_assert!(ranked(&logits).is_empty()),
                }
            }
        }
    }
}

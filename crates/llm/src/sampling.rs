//! The sampler: chooses the next token from the logits.
//!
//! The order is llama.cpp's: penalties, top-k, top-p, min-p, temperature, then a draw. Top-p and
//! min-p use the probabilities before the temperature, so a higher temperature never admits a token
//! that they removed.

use std::collections::{HashMap, VecDeque};
use thiserror::Error;

/// Sampling parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// Temperature: divides the logits before the draw; 0 is greedy.
    pub temperature: f32,
    /// Top-k: keeps the k most likely tokens; 0 disables it.
    pub top_k: usize,
    /// Top-p (nucleus): keeps the most likely tokens whose probabilities sum to p; 1 disables it.
    pub top_p: f32,
    /// Min-p: removes tokens less likely than this fraction of the most likely; 0 disables it.
    pub min_p: f32,
    /// Repetition penalty: divides the positive logits of recent tokens, and multiplies the
    /// negative ones; 1 disables it.
    pub repetition_penalty: f32,
    /// Frequency penalty: subtracted from a logit for each recent occurrence; 0 disables it.
    pub frequency_penalty: f32,
    /// Presence penalty: subtracted once from the logit of a recent token; 0 disables it.
    pub presence_penalty: f32,
    /// The number of recent tokens that penalties apply to.
    pub repeat_last_n: usize,
    /// The seed; the same seed gives the same draws on every machine.
    pub seed: u64,
}

impl SamplingParams {
    /// Greedy sampling without penalties.
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

    /// Returns whether sampling is greedy without penalties, so that the argmax suffices.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0 && !self.penalises()
    }

    fn penalises(&self) -> bool {
        self.repeat_last_n > 0
            && (self.repetition_penalty != 1.0 || self.frequency_penalty != 0.0 || self.presence_penalty != 0.0)
    }
}

/// A sampling error.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SamplingError {
    /// A parameter outside its range.
    #[error("{name} is {value}, but must be {range}")]
    Setting {
        /// The parameter's name.
        name: &'static str,
        /// Its value.
        value: f32,
        /// Its valid range.
        range: &'static str,
    },
    /// No logit is finite: the weights must be corrupt.
    #[error("the model's logits are not finite; its file is probably corrupt, download it again")]
    NoLogits,
}

/// A sampler with its random state and recent tokens.
#[derive(Debug, Clone)]
pub struct Sampler {
    sampling: SamplingParams,
    draws: Draws,
    recent: VecDeque<u32>,
    counts: HashMap<u32, u32>,
    /// The logits with penalties; a copy only if there are any.
    penalised: Vec<f32>,
    candidates: Vec<Candidate>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Candidate {
    id: u32,
    logit: f32,
}

impl Candidate {
    /// Orders by descending logit, then ascending id. Only finite logits become candidates.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        other
            .logit
            .partial_cmp(&self.logit)
            .unwrap_or(std::cmp::Ordering::Equal)
            .then(self.id.cmp(&other.id))
    }
}

impl Sampler {
    /// A new sampler.
    ///
    /// # Errors
    /// [`SamplingError::Setting`] if a parameter is outside its range.
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

    /// Records a token of the prompt or the answer for the penalties.
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

    /// Samples the next token from one logit per token of the vocabulary. Tokens without a finite
    /// logit are never chosen.
    ///
    /// # Errors
    /// [`SamplingError::NoLogits`] if none is finite.
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
        token.ok_or(SamplingError::NoLogits)
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
            select_top_k(logits, top_k, &mut self.candidates);
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
        // Rounding can move a draw past the last candidate.
        self.candidates.last().map(|c| c.id)
    }
}

/// Logits compared per iteration: the widest vectors' width.
const LANES: usize = 16;

/// The argmax over finite logits; the lowest id of equals.
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
/// One pass: logits that do not exceed the k-th best so far are skipped a vector at a time, so few
/// remain to be sorted.
fn select_top_k(logits: &[f32], k: usize, best: &mut Vec<Candidate>) {
    let capacity = k.saturating_mul(2).max(256);
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
        if best.len() >= capacity {
            // Ids come in ascending order, so a later equal of the k-th best could only lose to it.
            let (_, kth, _) = best.select_nth_unstable_by(k - 1, Candidate::order);
            least = kth.logit;
            best.truncate(k);
        }
    }
    best.sort_unstable_by(Candidate::order);
    best.truncate(k);
}

/// Keeps the most likely candidates whose probabilities sum to p, at least one, in order.
fn keep_top_p(candidates: &mut Vec<Candidate>, p: f32) {
    let Some(peak) = candidates.iter().map(|c| c.logit).reduce(f32::max) else {
        return;
    };
    let weight = |c: &Candidate| f64::from(c.logit - peak).exp();
    let enough = candidates.iter().map(weight).sum::<f64>() * f64::from(p);
    // Usually few are needed: sorts a growing prefix instead of the whole vocabulary.
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

/// Random numbers in 0..1: SplitMix64 (Steele, Lea and Flood, 2014), which gives the same result on
/// every platform.
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
        // The 53 bits that an f64 holds exactly.
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

    /// The ids that a thousand draws give.
    fn drawn(sampler: &mut Sampler, logits: &[f32]) -> Vec<u32> {
        let mut ids: Vec<u32> = (0..1000).map(|_| sampler.sample(logits).unwrap()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    fn logits_of(probabilities: &[f32]) -> Vec<f32> {
        probabilities.iter().map(|p| p.ln()).collect()
    }

    #[test]
    fn each_filter_keeps_its_tokens() {
        let check = |change: fn(&mut SamplingParams), expected: &[u32]| {
            assert_eq!(drawn(&mut sampler(change), &logits_of(&[0.1, 0.4, 0.2, 0.3])), expected);
        };
        check(|_| (), &[0, 1, 2, 3]);
        check(|s| s.top_k = 2, &[1, 3]);
        check(|s| s.top_k = 9, &[0, 1, 2, 3]);
        check(|s| s.top_p = 0.65, &[1, 3]);
        check(|s| s.top_p = 0.75, &[1, 2, 3]);
        check(|s| s.top_p = 0.0, &[1]);
        check(|s| s.min_p = 0.6, &[1, 3]);
        // Temperature is applied last and readmits no token.
        check(|s| (s.min_p, s.temperature) = (0.6, 10.0), &[1, 3]);
        // Top-p applies to the candidates left by top-k, of which 0.4 of 0.7 is below 0.6.
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
    fn draws_follow_the_probabilities() {
        let mut sampler = sampler(|s| s.seed = 7);
        let logits = logits_of(&[0.5, 0.25, 0.25]);
        let ones = (0..10_000).filter(|_| sampler.sample(&logits) == Ok(0)).count();
        assert!((4_800..5_200).contains(&ones), "{ones}");
    }

    /// The generator's published first outputs, so that a seed always gives the same draws.
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
    fn parameters_outside_their_range_are_refused() {
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

    /// Logits with many ties and some NaN.
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
        fn greedy_is_the_first_of_the_largest_logits(logits in logits()) {
            prop_assert_eq!(greedy(&logits), ranked(&logits).first().map(|c| c.id));
        }

        #[test]
        fn top_k_is_the_prefix_of_the_sorted_logits(logits in logits(), k in 1_usize..300) {
            let mut best = Vec::new();
            select_top_k(&logits, k, &mut best);
            let mut expected = ranked(&logits);
            expected.truncate(k);
            prop_assert_eq!(best, expected);
        }

        #[test]
        fn top_p_is_the_shortest_prefix_that_reaches_it(logits in logits(), p in 0.0_f32..1.0) {
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
        fn only_finite_logits_are_sampled_and_a_seed_is_reproducible(
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

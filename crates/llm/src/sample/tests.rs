//! Tests of the sampler, and helpers for tests of the filters.

use super::candidates::Candidate;
use super::*;
use proptest::prelude::*;

fn sampler(change: impl FnOnce(&mut SamplingParams)) -> Sampler {
    let mut params = SamplingParams {
        temperature: 1.0,
        ..SamplingParams::greedy()
    };
    change(&mut params);
    Sampler::new(params).unwrap()
}

/// The distinct tokens of a thousand draws, sorted.
fn drawn_tokens(sampler: &mut Sampler, logits: &[f32]) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..1000).map(|_| sampler.sample(logits).unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

pub(super) fn logits_of(probabilities: &[f32]) -> Vec<f32> {
    probabilities.iter().map(|p| p.ln()).collect()
}

/// A vocabulary of these tokens.
#[derive(Debug)]
pub(super) struct Words(pub Vec<Vec<u8>>);

impl Vocabulary for Words {
    fn token_count(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self, token: u32) -> &[u8] {
        self.0.get(token as usize).map_or(&[], Vec::as_slice)
    }

    fn visible_bytes(&self, token: u32) -> &[u8] {
        self.bytes(token)
    }
}

/// Logits with many ties and some NaN.
pub(super) fn logits() -> impl Strategy<Value = Vec<f32>> {
    let logit = prop_oneof![
        8 => (-20_i32..20).prop_map(|s| s as f32 / 2.0),
        1 => Just(f32::NAN),
        1 => Just(f32::INFINITY),
        1 => Just(f32::NEG_INFINITY),
    ];
    prop::collection::vec(logit, 0..700)
}

/// All tokens with finite logits as candidates, the most likely first.
pub(super) fn ranked(logits: &[f32]) -> Vec<Candidate> {
    let finite = logits.iter().enumerate().filter(|(_, logit)| logit.is_finite());
    let mut candidates: Vec<_> = finite.map(|(id, &logit)| Candidate { id: id as u32, logit }).collect();
    candidates.sort_by(Candidate::order);
    candidates
}

#[test]
fn each_filter_keeps_its_tokens() {
    let check = |change: fn(&mut SamplingParams), expected: &[u32]| {
        let logits = logits_of(&[0.1, 0.4, 0.2, 0.3]);
        assert_eq!(drawn_tokens(&mut sampler(change), &logits), expected);
    };
    check(|_| (), &[0, 1, 2, 3]);
    check(|s| s.top_k = 2, &[1, 3]);
    check(|s| s.top_k = 9, &[0, 1, 2, 3]);
    check(|s| s.top_p = 0.65, &[1, 3]);
    check(|s| s.top_p = 0.75, &[1, 2, 3]);
    check(|s| s.top_p = 0.0, &[1]);
    check(|s| s.min_p = 0.6, &[1, 3]);
    // The temperature does not change which tokens are removed.
    check(|s| (s.min_p, s.temperature) = (0.6, 10.0), &[1, 3]);
    // Top-p applies to the candidates of top-k: 0.4 / 0.7 is below 0.6.
    check(|s| (s.top_k, s.top_p) = (2, 0.6), &[1, 3]);
    check(|s| (s.top_k, s.top_p) = (2, 0.5), &[1]);
    check(|s| (s.top_k, s.temperature) = (3, 0.0), &[1]);
}

#[test]
fn draws_follow_the_probabilities() {
    let mut sampler = sampler(|s| s.seed = 7);
    let logits = logits_of(&[0.5, 0.25, 0.25]);
    let zeros = (0..10_000).filter(|_| sampler.sample(&logits) == Ok(0)).count();
    assert!((4_800..5_200).contains(&zeros), "{zeros}");
}

#[test]
fn a_distribution_names_the_probabilities_of_its_tokens() {
    let logits = logits_of(&[0.1, 0.4, 0.2, 0.3]);
    let probabilities = |change: fn(&mut SamplingParams)| {
        let mut sampler = sampler(change);
        let distribution = sampler.distribution(&logits).unwrap();
        [0, 1, 2, 3, 4].map(|id| (distribution.probability(id) * 1000.0).round() / 1000.0)
    };
    assert_eq!(probabilities(|_| ()), [0.1, 0.4, 0.2, 0.3, 0.0]);
    assert_eq!(probabilities(|s| s.top_k = 2), [0.0, 0.571, 0.0, 0.429, 0.0]);
    // In proportion to the squares.
    assert_eq!(probabilities(|s| s.temperature = 0.5), [0.033, 0.533, 0.133, 0.3, 0.0]);
    assert_eq!(probabilities(|s| s.temperature = 0.0), [0.0, 1.0, 0.0, 0.0, 0.0]);
    assert!(sampler(|_| ()).distribution(&[f32::NAN]).is_err());
}

proptest! {
    #[test]
    fn only_finite_logits_are_sampled_and_a_seed_is_reproducible(
        logits in logits(), seed: u64, top_k in 0_usize..60, top_p in 0.0_f32..=1.0, min_p in 0.0_f32..=1.0,
    ) {
        let build = || sampler(|s| (s.seed, s.top_k, s.top_p, s.min_p) = (seed, top_k, top_p, min_p));
        let (mut first, mut second) = (build(), build());
        for _ in 0..5 {
            let token = first.sample(&logits);
            prop_assert_eq!(&token, &second.sample(&logits));
            match token {
                Ok(id) => prop_assert!(logits[id as usize].is_finite()),
                Err(_) => prop_assert!(ranked(&logits).is_empty()),
            }
        }
    }

    #[test]
    fn a_distribution_sums_to_one_and_has_the_most_likely_token(
        logits in logits(),
        temperature in 0.0_f32..3.0,
        top_k in 0_usize..60,
        [top_p, min_p] in [0.0_f32..=1.0, 0.0_f32..=1.0],
    ) {
        let mut sampler = sampler(|s| {
            (s.temperature, s.top_k) = (temperature, top_k);
            (s.top_p, s.min_p) = (top_p, min_p);
        });
        if let Some(most_likely) = ranked(&logits).first() {
            let distribution = sampler.distribution(&logits).unwrap();
            let sum: f64 = distribution.probabilities().map(|(_, probability)| probability).sum();
            prop_assert!((sum - 1.0).abs() < 1e-9);
            let max = distribution.probabilities().map(|(_, probability)| probability).fold(0.0, f64::max);
            prop_assert_eq!(distribution.probability(most_likely.id), max);
        }
    }
}

/// Parameters that can enable all filters, with a temperature above 0.
fn combinations() -> impl Strategy<Value = SamplingParams> {
    let fractions = [
        0.0_f32..=1.0,
        0.0_f32..=1.0,
        0.0_f32..=1.0,
        0.0_f32..=1.0,
        0.0_f32..=1.0,
    ];
    let numbers = [
        0.01_f32..3.0,
        -1.0_f32..5.0,
        0.0_f32..100.0,
        1.0_f32..100.0,
        0.0_f32..20.0,
        0.0_f32..2.0,
        0.0_f32..3.0,
    ];
    (
        fractions,
        numbers,
        any::<u64>(),
        any::<bool>(),
        0_usize..20,
        0_usize..4,
        0_usize..40,
    )
        .prop_map(
            |(fractions, numbers, seed, mirostat, top_k, dry_allowed_length, dry_last_n)| {
                let [top_p, min_p, typical_p, xtc_probability, mirostat_eta] = fractions;
                let [
                    temperature,
                    top_n_sigma,
                    dry_multiplier,
                    dry_base,
                    mirostat_tau,
                    dynatemp_range,
                    dynatemp_exponent,
                ] = numbers;
                SamplingParams {
                    temperature,
                    top_k,
                    top_p,
                    min_p,
                    repetition_penalty: 1.2,
                    frequency_penalty: 0.1,
                    presence_penalty: -0.1,
                    repeat_last_n: 9,
                    typical_p,
                    top_n_sigma,
                    xtc_probability,
                    xtc_threshold: 0.05,
                    dry_multiplier,
                    dry_base,
                    dry_allowed_length,
                    dry_last_n,
                    mirostat,
                    mirostat_tau,
                    mirostat_eta,
                    dynatemp_range,
                    dynatemp_exponent,
                    logit_bias: vec![(0, 1.5), (1, -2.0), (1000, f32::NEG_INFINITY)],
                    seed,
                }
            },
        )
}

#[test]
fn extreme_logits_are_sampled_by_every_filter() {
    let params = SamplingParams {
        temperature: 0.7,
        top_k: 5,
        top_p: 0.5,
        min_p: 1.0,
        typical_p: 0.0,
        top_n_sigma: 0.001,
        xtc_probability: 1.0,
        xtc_threshold: 0.0,
        dry_multiplier: 100.0,
        dry_base: 100.0,
        dry_allowed_length: 0,
        dry_last_n: 1000,
        dynatemp_range: 100.0,
        ..SamplingParams::greedy()
    };
    let infinite = [f32::NEG_INFINITY; 5];
    for logits in [
        vec![1.0],
        vec![-f32::MAX],
        vec![f32::MAX, -f32::MAX],
        vec![f32::NAN, 3.0, f32::INFINITY],
        [&infinite[..], &[2.0], &infinite].concat(),
        vec![0.0; 3],
    ] {
        for mirostat in [false, true] {
            let params = SamplingParams {
                mirostat,
                ..params.clone()
            };
            let mut sampler = Sampler::new(params).unwrap();
            for _ in 0..50 {
                let token = sampler.sample(&logits).unwrap();
                assert!(logits[token as usize].is_finite());
                sampler.accept(token);
            }
        }
    }
    let mut sampler = Sampler::new(params).unwrap();
    assert_eq!(sampler.sample(&[]), Err(SamplingError::NoLogits));
    assert_eq!(sampler.sample(&infinite), Err(SamplingError::NoLogits));
}

#[test]
fn tokens_that_are_all_banned_are_not_a_corrupt_file() {
    let mut sampler = sampler(|s| s.logit_bias = vec![(0, f32::NEG_INFINITY)]);
    assert_eq!(sampler.sample(&[1.0]), Err(SamplingError::NothingLeft));
    assert_eq!(sampler.sample(&[1.0, 2.0]), Ok(1));
}

#[test]
fn greedy_sampling_heeds_only_filters_of_logits() {
    let logits = logits_of(&[0.4, 0.3, 0.2, 0.1]);
    let greedy = |change: fn(&mut SamplingParams)| {
        let mut sampler = sampler(|s| {
            s.temperature = 0.0;
            change(s);
        });
        (sampler.takes_argmax(), sampler.sample(&logits).unwrap())
    };
    assert_eq!(greedy(|s| (s.xtc_probability, s.typical_p) = (1.0, 0.0)), (true, 0));
    assert_eq!(greedy(|s| (s.mirostat, s.dynatemp_range) = (true, 5.0)), (true, 0));
    assert_eq!(greedy(|s| s.logit_bias = vec![(0, -1.0)]), (false, 1));
    assert_eq!(greedy(|s| (s.dry_multiplier, s.dry_last_n) = (1.0, 9)), (false, 0));
}

proptest! {
    /// A fork draws the same tokens, and each draw is from the reported distribution.
    #[test]
    fn every_combination_draws_from_its_distribution(params in combinations(), logits in logits()) {
        let mut sampler = Sampler::new(params).unwrap();
        let tokens = ranked(&logits).len();
        for step in 0..12 {
            let mut fork = sampler.fork();
            let Ok(distribution) = sampler.distribution(&logits) else {
                prop_assert!(tokens == 0);
                return Ok(());
            };
            let distribution = distribution.clone();
            let sum: f64 = distribution.probabilities().map(|(_, probability)| probability).sum();
            prop_assert!((sum - 1.0).abs() < 1e-9);
            let token = sampler.sample(&logits).unwrap();
            prop_assert!(distribution.probability(token) > 0.0 && logits[token as usize].is_finite());
            prop_assert_eq!(fork.sample(&logits), Ok(token));
            if step % 2 == 0 {
                sampler.begin_answer();
            }
            sampler.accept(token);
        }
    }
}

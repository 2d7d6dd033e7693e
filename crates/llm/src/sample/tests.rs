//! Tests of the sampler, and helpers for those of its filters.

use super::candidates::Candidate;
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

/// All candidates, the most likely first.
pub(super) fn ranked(logits: &[f32]) -> Vec<Candidate> {
    let all = logits.iter().enumerate().filter(|(_, s)| s.is_finite());
    let mut all: Vec<_> = all.map(|(id, &logit)| Candidate { id: id as u32, logit }).collect();
    all.sort_by(Candidate::order);
    all
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
    check(|s| (s.top_k, s.temperature) = (3, 0.0), &[1]);
}

#[test]
fn draws_follow_the_probabilities() {
    let mut sampler = sampler(|s| s.seed = 7);
    let logits = logits_of(&[0.5, 0.25, 0.25]);
    let ones = (0..10_000).filter(|_| sampler.sample(&logits) == Ok(0)).count();
    assert!((4_800..5_200).contains(&ones), "{ones}");
}

#[test]
fn a_distribution_names_the_probabilities_of_its_tokens() {
    let logits = logits_of(&[0.1, 0.4, 0.2, 0.3]);
    let of = |change: fn(&mut SamplingParams)| {
        let mut sampler = sampler(change);
        let found = sampler.distribution(&logits).unwrap();
        [0, 1, 2, 3, 4].map(|id| (found.probability(id) * 1000.0).round() / 1000.0)
    };
    assert_eq!(of(|_| ()), [0.1, 0.4, 0.2, 0.3, 0.0]);
    assert_eq!(of(|s| s.top_k = 2), [0.0, 0.571, 0.0, 0.429, 0.0]);
    // The squares of the probabilities.
    assert_eq!(of(|s| s.temperature = 0.5), [0.033, 0.533, 0.133, 0.3, 0.0]);
    assert_eq!(of(|s| s.temperature = 0.0), [0.0, 1.0, 0.0, 0.0, 0.0]);
    assert!(sampler(|_| ()).distribution(&[f32::NAN]).is_err());
}

proptest! {
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
        if let Some(first) = ranked(&logits).first() {
            let found = sampler.distribution(&logits).unwrap();
            let sum: f64 = found.probabilities().map(|(_, probability)| probability).sum();
            prop_assert!((sum - 1.0).abs() < 1e-9);
            let most = found.probabilities().map(|(_, probability)| probability).fold(0.0, f64::max);
            prop_assert_eq!(found.probability(first.id), most);
        }
    }
}

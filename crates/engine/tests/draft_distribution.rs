//! Sampling with a draft keeps the distribution that filters and penalties leave: a chi-square test
//! of the first two tokens of many answers, and the same test of an acceptance that is wrong.

mod common;

use common::*;
use hearth_formats::gguf::Gguf;
use hearth_llm::{LoadOptions, Model, Sampler, SamplingParams, Session};
use hearth_protocol::{DraftChoice, Event, GenerateRequest, LoadRequest, Prompt, Request};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The probability that a right sampler fails; the seeds are fixed, so it fails always or never.
const ALPHA_Z: f64 = 3.09; // One-sided, 0.001.
const ANSWERS: u64 = 3000;
/// The longest prompt.
const PROMPT: usize = 300;

/// The first two tokens of an answer.
type Pair = [u32; 2];

/// Filters that leave a few tokens, and penalties that depend on the token before.
fn params(seed: u64) -> SamplingParams {
    SamplingParams {
        temperature: 2.0,
        top_k: 4,
        top_p: 0.98,
        min_p: 0.02,
        repetition_penalty: 1.4,
        frequency_penalty: 0.3,
        presence_penalty: 0.2,
        repeat_last_n: 8,
        seed,
    }
}

fn request(prompt: &[u32], seed: u64) -> GenerateRequest {
    let params = params(seed);
    GenerateRequest {
        sampling: hearth_protocol::SamplingParams {
            temperature: params.temperature,
            top_k: params.top_k as u32,
            top_p: params.top_p,
            min_p: params.min_p,
            repetition_penalty: params.repetition_penalty,
            frequency_penalty: params.frequency_penalty,
            presence_penalty: params.presence_penalty,
            repeat_last_n: params.repeat_last_n as u32,
            seed: Some(seed),
        },
        ignore_end: true,
        ..generate(Prompt::Tokens(prompt.to_vec()), 3)
    }
}

/// The target, computed without the engine.
struct Target {
    session: Session,
    prompt: Vec<u32>,
}

impl Target {
    /// With a prompt that was drawn until n-grams can draft behind a first token.
    fn new() -> Self {
        let gguf = Gguf::open(model()).expect("a fixture");
        let model = Model::load(&gguf, &LoadOptions::default(), &mut |_, _| ControlFlow::Continue(()));
        let session = Session::new(Arc::new(model.expect("it loads")), 2 * PROMPT).expect("a session");
        let mut target = Self {
            session,
            prompt: vec![5, 6, 7],
        };
        while target.matches() < 2 {
            assert!(target.prompt.len() < PROMPT);
            let (mut sampler, logits) = target.after(&[], target.prompt.len() as u64);
            target.prompt.push(sampler.sample(&logits).expect("finite"));
        }
        target
    }

    /// First tokens that form a pair of the prompt with its last one.
    fn matches(&mut self) -> usize {
        let first = self.distribution(&[]);
        let last = self.prompt[self.prompt.len() - 1];
        let is_pair = |(token, _): &&(u32, f64)| self.prompt.windows(2).any(|pair| pair == [last, *token]);
        first.iter().filter(is_pair).count()
    }

    /// A sampler that has the prompt and these tokens, and the logits behind them.
    fn after(&mut self, tokens: &[u32], seed: u64) -> (Sampler, Vec<f32>) {
        let ids: Vec<u32> = self.prompt.iter().chain(tokens).copied().collect();
        self.session
            .prefill(&ids, &mut |_, _| ControlFlow::Continue(()))
            .expect("it runs");
        let mut sampler = Sampler::new(params(seed)).expect("valid");
        ids.iter().for_each(|token| sampler.accept(*token));
        (sampler, self.session.logits().to_vec())
    }

    fn distribution(&mut self, tokens: &[u32]) -> Vec<(u32, f64)> {
        let (mut sampler, logits) = self.after(tokens, 0);
        sampler.distribution(&logits).expect("finite").probabilities().collect()
    }

    /// The exact probabilities of all pairs.
    fn pairs(&mut self) -> BTreeMap<Pair, f64> {
        let mut pairs = BTreeMap::new();
        for (first, p) in self.distribution(&[]) {
            for (second, q) in self.distribution(&[first]) {
                pairs.insert([first, second], p * q);
            }
        }
        pairs
    }
}

/// Whether counts can be draws from these probabilities, at the level of [`ALPHA_Z`].
fn is_drawn_from(counts: &BTreeMap<Pair, u64>, probabilities: &BTreeMap<Pair, f64>) -> bool {
    let total: u64 = counts.values().sum();
    if counts.keys().any(|pair| !probabilities.contains_key(pair)) {
        return false;
    }
    // Pairs that are too rare for the test are one cell.
    let (mut cells, mut rare) = (Vec::new(), (0.0, 0.0));
    for (pair, probability) in probabilities {
        let (expected, found) = (
            probability * total as f64,
            counts.get(pair).copied().unwrap_or(0) as f64,
        );
        match expected >= 5.0 {
            true => cells.push((expected, found)),
            false => rare = (rare.0 + expected, rare.1 + found),
        }
    }
    if rare.0 >= 5.0 {
        cells.push(rare);
    }
    let statistic: f64 = cells
        .iter()
        .map(|(expected, found)| (found - expected).powi(2) / expected)
        .sum();
    // Wilson and Hilferty's approximation of the quantile.
    let freedom = (cells.len() - 1) as f64;
    let third = 2.0 / (9.0 * freedom);
    statistic < freedom * (1.0 - third + ALPHA_Z * third.sqrt()).powi(3)
}

fn counted(pairs: impl Iterator<Item = Pair>) -> BTreeMap<Pair, u64> {
    let mut counts = BTreeMap::new();
    pairs.for_each(|pair| *counts.entry(pair).or_default() += 1);
    counts
}

#[test]
fn drawn_answers_with_a_draft_have_the_filtered_distribution() {
    let mut target = Target::new();
    let probabilities = target.pairs();
    assert!((4..40).contains(&probabilities.len()), "{}", probabilities.len());
    let path = model();
    for draft in [
        DraftChoice::Ngram,
        DraftChoice::Own { layers: Some(1) },
        DraftChoice::Model { path },
    ] {
        let mut worker = Worker::start();
        let loaded = worker.call(Request::Load(LoadRequest {
            draft,
            draft_tokens: Some(2),
            ..load(model(), 2 * PROMPT as u32)
        }));
        assert!(matches!(loaded, Event::Loaded(_)));
        let (mut pairs, mut drafted) = (Vec::new(), 0);
        for seed in 0..ANSWERS {
            let events = worker.answer(request(&target.prompt, seed));
            let summary = finished(&events);
            drafted += summary.draft.expect("a draft").drafted;
            pairs.push([summary.ids[0], summary.ids[1]]);
        }
        assert!(u64::from(drafted) > ANSWERS / 10, "{drafted}");
        assert!(is_drawn_from(&counted(pairs.into_iter()), &probabilities));
    }
}

/// An acceptance that keeps a drafted token whenever the filters left it is not drawn from the
/// distribution, nor is one that does so for one token in ten.
#[test]
fn the_test_fails_for_wrong_acceptances() {
    let mut target = Target::new();
    let probabilities = target.pairs();
    let mut draw = |wrong: &dyn Fn(u32, u32, u64) -> u32| {
        let mut pairs = Vec::new();
        for seed in 0..ANSWERS {
            let (mut sampler, logits) = target.after(&[], seed);
            let token = sampler.sample(&logits).expect("finite");
            let (mut sampler, logits) = target.after(&[token], seed);
            let distribution = sampler.distribution(&logits).expect("finite");
            let likeliest = distribution
                .probabilities()
                .max_by(|a, b| a.1.total_cmp(&b.1))
                .expect("a token")
                .0;
            let unit = (seed as f64 * 0.618_033_988_75).fract();
            let drawn = distribution.draw(unit).expect("a token");
            pairs.push([token, wrong(drawn, likeliest, seed)]);
        }
        counted(pairs.into_iter())
    };
    assert!(
        is_drawn_from(&draw(&|drawn, _, _| drawn), &probabilities),
        "a right one"
    );
    assert!(
        !is_drawn_from(&draw(&|_, drafted, _| drafted), &probabilities),
        "always accepted"
    );
    let one_more_chance = |drawn: u32, drafted: u32, seed: u64| if seed.is_multiple_of(10) { drafted } else { drawn };
    assert!(
        !is_drawn_from(&draw(&one_more_chance), &probabilities),
        "one in ten accepted without a draw"
    );
}

//! Sampling with a draft keeps the distribution that filters and penalties leave: a chi-square test
//! of the first two tokens of many answers, and the same test of an acceptance that is wrong.

use crate::common::*;
use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::Tokenizer;
use hearth_llm::{LoadOptions, Model, Sampler, SamplingParams, Session, StringParams, Vocabulary};
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
        ..SamplingParams::greedy()
    }
}

/// The worker's parameters for a sampler's.
fn wire(params: &SamplingParams, banned: &[String]) -> hearth_protocol::SamplingParams {
    hearth_protocol::SamplingParams {
        temperature: params.temperature,
        top_k: params.top_k as u32,
        top_p: params.top_p,
        min_p: params.min_p,
        repetition_penalty: params.repetition_penalty,
        frequency_penalty: params.frequency_penalty,
        presence_penalty: params.presence_penalty,
        repeat_last_n: params.repeat_last_n as u32,
        typical_p: params.typical_p,
        top_n_sigma: params.top_n_sigma,
        xtc_probability: params.xtc_probability,
        xtc_threshold: params.xtc_threshold,
        dry_multiplier: params.dry_multiplier,
        dry_base: params.dry_base,
        dry_allowed_length: params.dry_allowed_length as u32,
        dry_last_n: params.dry_last_n as u32,
        dry_breakers: Vec::new(),
        mirostat: params.mirostat,
        mirostat_tau: params.mirostat_tau,
        mirostat_eta: params.mirostat_eta,
        dynatemp_range: params.dynatemp_range,
        dynatemp_exponent: params.dynatemp_exponent,
        logit_bias: Vec::new(),
        banned_strings: banned.to_vec(),
        seed: Some(params.seed),
    }
}

/// The tokens of the fixture.
#[derive(Debug)]
struct Texts(Vec<Vec<u8>>);

impl Vocabulary for Texts {
    fn token_count(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self, token: u32) -> &[u8] {
        &self.0[token as usize]
    }

    fn visible_bytes(&self, token: u32) -> &[u8] {
        self.bytes(token)
    }
}

/// The target, computed without the engine.
struct Target {
    session: Session,
    prompt: Vec<u32>,
    params: SamplingParams,
    texts: StringParams,
}

impl Target {
    /// With a prompt that was drawn until n-grams can draft behind a first token.
    fn new() -> Self {
        let gguf = Gguf::open(model()).expect("a fixture");
        let tokenizer = Tokenizer::from_gguf(&gguf).expect("its tokenizer");
        // Special tokens have no text in an answer.
        let text = |id| {
            if tokenizer.is_special(id) {
                Vec::new()
            } else {
                tokenizer.token_bytes(id).unwrap_or_default().to_vec()
            }
        };
        let texts = Texts((0..tokenizer.vocab_size() as u32).map(text).collect());
        let model = Model::load(&gguf, &LoadOptions::default(), &mut |_, _| ControlFlow::Continue(()));
        let session = Session::new(Arc::new(model.expect("it loads")), 2 * PROMPT).expect("a session");
        let mut target = Self {
            session,
            prompt: vec![5, 6, 7],
            params: params(0),
            texts: StringParams {
                vocabulary: Arc::new(texts),
                dry_breakers: Vec::new(),
                banned: Vec::new(),
            },
        };
        while target.matches() < 2 {
            assert!(target.prompt.len() < PROMPT);
            let (mut sampler, logits) = target.after(&[], target.prompt.len() as u64);
            target.prompt.push(sampler.sample(&logits).expect("finite"));
        }
        target
    }

    /// The request of an answer of three tokens.
    fn request(&self, seed: u64) -> GenerateRequest {
        let params = SamplingParams {
            seed,
            ..self.params.clone()
        };
        GenerateRequest {
            sampling: wire(&params, &self.texts.banned),
            ignore_end: true,
            ..generate(Prompt::Tokens(self.prompt.clone()), 3)
        }
    }

    /// First tokens that form a pair of the prompt with its last one.
    fn matches(&mut self) -> usize {
        let first = self.distribution(&[]);
        let last = self.prompt[self.prompt.len() - 1];
        let is_pair = |(token, _): &&(u32, f64)| self.prompt.windows(2).any(|pair| pair == [last, *token]);
        first.iter().filter(is_pair).count()
    }

    /// The logits behind the prompt and these tokens.
    fn logits(&mut self, tokens: &[u32]) -> Vec<f32> {
        let ids: Vec<u32> = self.prompt.iter().chain(tokens).copied().collect();
        self.session
            .prefill(&ids, &mut |_, _| ControlFlow::Continue(()))
            .expect("it runs");
        self.session.logits().to_vec()
    }

    fn sampler(&self, params: SamplingParams) -> Sampler {
        let mut sampler = Sampler::with_strings(params, &self.texts).expect("valid");
        self.prompt.iter().for_each(|token| sampler.accept(*token));
        sampler.begin_answer();
        sampler
    }

    /// A sampler that has the prompt and these tokens, and the logits behind them.
    fn after(&mut self, tokens: &[u32], seed: u64) -> (Sampler, Vec<f32>) {
        let mut sampler = self.sampler(SamplingParams {
            seed,
            ..self.params.clone()
        });
        tokens.iter().for_each(|token| sampler.accept(*token));
        (sampler, self.logits(tokens))
    }

    /// The distribution of the token behind at most one, which the sampler has drawn; with XTC, the
    /// mean of those with and without exclusion.
    fn distribution(&mut self, tokens: &[u32]) -> Vec<(u32, f64)> {
        let before = self.logits(&[]);
        let logits = self.logits(tokens);
        let chance = f64::from(self.params.xtc_probability);
        let mut mixed: BTreeMap<u32, f64> = BTreeMap::new();
        for (xtc_probability, share) in [(0.0, 1.0 - chance), (1.0, chance)] {
            // Mirostat follows what was drawn, which depends on the seed.
            let drawn = (0..10_000).find_map(|seed| {
                let params = SamplingParams {
                    seed,
                    xtc_probability,
                    ..self.params.clone()
                };
                let mut sampler = self.sampler(params);
                for token in tokens {
                    // Other filters do not: the token may be excluded, but not in the answer.
                    if self.params.mirostat && sampler.sample(&before) != Ok(*token) {
                        return None;
                    }
                    sampler.accept(*token);
                }
                Some(sampler)
            });
            let mut sampler = drawn.expect("a seed that draws these");
            let distribution = sampler.distribution(&logits).expect("finite");
            for (token, probability) in distribution.probabilities().filter(|_| share > 0.0) {
                *mixed.entry(token).or_default() += probability * share;
            }
        }
        mixed.into_iter().collect()
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
        let (expected, actual) = (
            probability * total as f64,
            counts.get(pair).copied().unwrap_or(0) as f64,
        );
        if expected >= 5.0 {
            cells.push((expected, actual))
        } else {
            rare = (rare.0 + expected, rare.1 + actual)
        }
    }
    if rare.0 >= 5.0 {
        cells.push(rare);
    }
    let statistic: f64 = cells
        .iter()
        .map(|(expected, actual)| (actual - expected).powi(2) / expected)
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

/// Asserts that answers with each of these drafts are drawn from the target's distribution.
fn check(target: &mut Target, drafts: &[DraftChoice], answers: u64) {
    let probabilities = target.pairs();
    let count = probabilities.len();
    assert!((4..40).contains(&count), "{count} pairs: {:?}", target.params);
    for draft in drafts {
        let mut worker = Worker::start();
        let loaded = worker.call(Request::Load(LoadRequest {
            draft: draft.clone(),
            draft_tokens: Some(2),
            ..load(model(), 2 * PROMPT as u32)
        }));
        assert!(matches!(loaded, Event::Loaded(_)));
        let (mut pairs, mut drafted) = (Vec::new(), 0);
        for seed in 0..answers {
            let events = worker.answer(target.request(seed));
            let summary = finished(&events);
            drafted += summary.draft.expect("a draft").drafted;
            pairs.push([summary.ids[0], summary.ids[1]]);
        }
        assert!(u64::from(drafted) > answers / 10, "{drafted}");
        assert!(
            is_drawn_from(&counted(pairs.into_iter()), &probabilities),
            "{:?}",
            target.params
        );
    }
}

#[test]
fn drawn_answers_with_a_draft_have_the_filtered_distribution() {
    let drafts = [
        DraftChoice::Ngram,
        DraftChoice::Own { layers: Some(1) },
        DraftChoice::Model { path: model() },
    ];
    check(&mut Target::new(), &drafts, ANSWERS);
}

/// The filters that draw numbers, have a state, or depend on several tokens.
#[test]
fn drawn_answers_with_a_draft_have_the_distribution_of_each_sampler() {
    let mut target = Target::new();
    let likely = target.pairs();
    let drafts = [DraftChoice::Model { path: model() }];
    let changes: [fn(&mut SamplingParams); 5] = [
        |s| (s.dry_multiplier, s.dry_allowed_length, s.dry_last_n) = (1.0, 1, 64),
        |s| (s.xtc_probability, s.xtc_threshold) = (0.5, 0.2),
        |s| (s.mirostat, s.mirostat_tau, s.mirostat_eta) = (true, 1.0, 1.0),
        |s| (s.dynatemp_range, s.typical_p, s.top_n_sigma) = (1.5, 0.95, 5.0),
        // With a banned string, below.
        |_| (),
    ];
    for (at, change) in changes.iter().enumerate() {
        target.params = params(0);
        change(&mut target.params);
        // Mirostat's target, until it leaves several tokens.
        while target.params.mirostat && target.pairs().len() < 4 {
            target.params.mirostat_tau += 0.25;
            assert!(target.params.mirostat_tau < 8.0);
        }
        if at + 1 == changes.len() {
            // The likeliest pair that is text.
            let text = |pair: &Pair| {
                let bytes = pair.map(|token| target.texts.vocabulary.visible_bytes(token)).concat();
                String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
            };
            let texts = likely.iter().filter_map(|(pair, p)| Some((text(pair)?, *pair, *p)));
            let (text, pair, _) = texts.max_by(|a, b| a.2.total_cmp(&b.2)).expect("a pair of text");
            target.texts.banned = vec![text];
            assert!(!target.pairs().contains_key(&pair));
        } else {
            assert_ne!(target.pairs(), likely, "{:?}", target.params);
        }
        check(&mut target, &drafts, ANSWERS / 2);
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

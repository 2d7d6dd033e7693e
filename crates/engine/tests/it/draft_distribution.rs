//! Tests that sampling with a draft keeps the distribution of filters and penalties: a chi-square
//! test of the first two tokens of many answers, and the same test of wrong acceptance rules.

use crate::common::*;
use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::Tokenizer;
use hearth_llm::{LoadOptions, Model, Sampler, SamplingParams, Session, StringParams, Vocabulary};
use hearth_protocol::{DraftChoice, Event, GenerateRequest, LoadRequest, Prompt, Request};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Quantile of the normal distribution for a one-sided test at the level 0.001, the probability
/// that a correct sampler fails. The seeds are fixed, so it fails always or never.
const ALPHA_Z: f64 = 3.09;
const ANSWERS: u64 = 3000;
/// Maximum tokens of the prompt.
const MAX_PROMPT: usize = 300;

/// The first two tokens of an answer.
type Pair = [u32; 2];

/// Filters that leave a few tokens, and penalties that depend on the previous token.
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

/// Converts parameters to the protocol's.
fn protocol_params(params: &SamplingParams, banned: &[String]) -> hearth_protocol::SamplingParams {
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

/// The bytes of the fixture's tokens.
#[derive(Debug)]
struct TokenBytes(Vec<Vec<u8>>);

impl Vocabulary for TokenBytes {
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
    strings: StringParams,
}

impl Target {
    /// Samples a prompt until n-grams can draft after a first token.
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
        let vocabulary = TokenBytes((0..tokenizer.vocab_size() as u32).map(text).collect());
        let model = Model::load(&gguf, &LoadOptions::default(), &mut |_| ControlFlow::Continue(()));
        let session = Session::new(Arc::new(model.expect("it loads")), 2 * MAX_PROMPT).expect("a session");
        let mut target = Self {
            session,
            prompt: vec![5, 6, 7],
            params: params(0),
            strings: StringParams {
                vocabulary: Arc::new(vocabulary),
                dry_breakers: Vec::new(),
                banned: Vec::new(),
            },
        };
        while target.matches() < 2 {
            assert!(target.prompt.len() < MAX_PROMPT);
            let (mut sampler, logits) = target.state_after(&[], target.prompt.len() as u64);
            target.prompt.push(sampler.sample(&logits).expect("finite"));
        }
        target
    }

    /// A request for an answer of three tokens.
    fn request(&self, seed: u64) -> GenerateRequest {
        let params = SamplingParams {
            seed,
            ..self.params.clone()
        };
        GenerateRequest {
            sampling: protocol_params(&params, &self.strings.banned),
            ignore_end: true,
            ..generate(Prompt::Tokens(self.prompt.clone()), 3)
        }
    }

    /// Number of first tokens that form, with the prompt's last token, a pair of the prompt.
    fn matches(&mut self) -> usize {
        let first = self.distribution(&[]);
        let last = self.prompt[self.prompt.len() - 1];
        let is_in_prompt = |(token, _): &&(u32, f64)| self.prompt.windows(2).any(|pair| pair == [last, *token]);
        first.iter().filter(is_in_prompt).count()
    }

    /// The logits after the prompt and these tokens.
    fn logits(&mut self, tokens: &[u32]) -> Vec<f32> {
        let ids: Vec<u32> = self.prompt.iter().chain(tokens).copied().collect();
        self.session
            .prefill(&ids, &mut |_, _| ControlFlow::Continue(()))
            .expect("it runs");
        self.session.logits().to_vec()
    }

    fn sampler(&self, params: SamplingParams) -> Sampler {
        let mut sampler = Sampler::with_strings(params, &self.strings).expect("valid");
        self.prompt.iter().for_each(|token| sampler.accept(*token));
        sampler.begin_answer();
        sampler
    }

    /// A sampler that has accepted the prompt and these tokens, and the logits after them.
    fn state_after(&mut self, tokens: &[u32], seed: u64) -> (Sampler, Vec<f32>) {
        let mut sampler = self.sampler(SamplingParams {
            seed,
            ..self.params.clone()
        });
        tokens.iter().for_each(|token| sampler.accept(*token));
        (sampler, self.logits(tokens))
    }

    /// The distribution of the next token after at most one sampled token. With XTC, the mean of
    /// the distributions with and without exclusion, weighted by their probabilities.
    fn distribution(&mut self, tokens: &[u32]) -> Vec<(u32, f64)> {
        let first_logits = self.logits(&[]);
        let logits = self.logits(tokens);
        let xtc = f64::from(self.params.xtc_probability);
        let mut mixture: BTreeMap<u32, f64> = BTreeMap::new();
        for (xtc_probability, weight) in [(0.0, 1.0 - xtc), (1.0, xtc)] {
            // The state of Mirostat depends on the sampled tokens, which depend on the seed.
            let sampler = (0..10_000).find_map(|seed| {
                let params = SamplingParams {
                    seed,
                    xtc_probability,
                    ..self.params.clone()
                };
                let mut sampler = self.sampler(params);
                for token in tokens {
                    // The state of other filters does not, so any seed may be used.
                    if self.params.mirostat && sampler.sample(&first_logits) != Ok(*token) {
                        return None;
                    }
                    sampler.accept(*token);
                }
                Some(sampler)
            });
            let mut sampler = sampler.expect("a seed with these tokens");
            let distribution = sampler.distribution(&logits).expect("finite");
            for (token, probability) in distribution.probabilities().filter(|_| weight > 0.0) {
                *mixture.entry(token).or_default() += probability * weight;
            }
        }
        mixture.into_iter().collect()
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

/// Whether counts agree with these probabilities, in a chi-square test at the level of [`ALPHA_Z`].
fn agrees(counts: &BTreeMap<Pair, u64>, probabilities: &BTreeMap<Pair, f64>) -> bool {
    let total: u64 = counts.values().sum();
    if counts.keys().any(|pair| !probabilities.contains_key(pair)) {
        return false;
    }
    /// A cell of the test.
    #[derive(Default)]
    struct Cell {
        expected: f64,
        actual: f64,
    }
    // Pairs that are too rare for the test are merged into one cell.
    let (mut cells, mut rare) = (Vec::new(), Cell::default());
    for (pair, probability) in probabilities {
        let (expected, actual) = (
            probability * total as f64,
            counts.get(pair).copied().unwrap_or(0) as f64,
        );
        if expected >= 5.0 {
            cells.push(Cell { expected, actual })
        } else {
            rare.expected += expected;
            rare.actual += actual;
        }
    }
    if rare.expected >= 5.0 {
        cells.push(rare);
    }
    let statistic: f64 = cells
        .iter()
        .map(|cell| (cell.actual - cell.expected).powi(2) / cell.expected)
        .sum();
    // Wilson and Hilferty's approximation of the quantile.
    let freedom = (cells.len() - 1) as f64;
    let variance = 2.0 / (9.0 * freedom);
    statistic < freedom * (1.0 - variance + ALPHA_Z * variance.sqrt()).powi(3)
}

fn count_pairs(pairs: impl Iterator<Item = Pair>) -> BTreeMap<Pair, u64> {
    let mut counts = BTreeMap::new();
    pairs.for_each(|pair| *counts.entry(pair).or_default() += 1);
    counts
}

/// Asserts that answers with each of these drafts have the target's distribution.
fn check(target: &mut Target, drafts: &[DraftChoice], answers: u64) {
    let probabilities = target.pairs();
    let count = probabilities.len();
    assert!((4..40).contains(&count), "{count} pairs: {:?}", target.params);
    for draft in drafts {
        let mut worker = Worker::start();
        let loaded = worker.call(Request::Load(LoadRequest {
            draft: draft.clone(),
            draft_tokens: Some(2),
            ..load(model(), 2 * MAX_PROMPT as u32)
        }));
        assert!(matches!(loaded, Event::Loaded(_)));
        let (mut pairs, mut drafted) = (Vec::new(), 0);
        for seed in 0..answers {
            let events = worker.answer(target.request(seed));
            let summary = summary(&events);
            drafted += summary.draft.expect("a draft").drafted;
            pairs.push([summary.ids[0], summary.ids[1]]);
        }
        assert!(u64::from(drafted) > answers / 10, "{drafted}");
        assert!(
            agrees(&count_pairs(pairs.into_iter()), &probabilities),
            "{:?}",
            target.params
        );
    }
}

#[test]
fn drawn_answers_with_a_draft_have_the_filtered_distribution() {
    let drafts = [
        DraftChoice::Ngram,
        DraftChoice::FirstLayers { layers: Some(1) },
        DraftChoice::Model { path: model() },
    ];
    check(&mut Target::new(), &drafts, ANSWERS);
}

/// Filters that draw random numbers, have a state, or depend on several tokens.
#[test]
fn drawn_answers_with_a_draft_have_the_distribution_of_each_sampler() {
    let mut target = Target::new();
    let plain_pairs = target.pairs();
    let drafts = [DraftChoice::Model { path: model() }];
    let changes: [fn(&mut SamplingParams); 5] = [
        |s| (s.dry_multiplier, s.dry_allowed_length, s.dry_last_n) = (1.0, 1, 64),
        |s| (s.xtc_probability, s.xtc_threshold) = (0.5, 0.2),
        |s| (s.mirostat, s.mirostat_tau, s.mirostat_eta) = (true, 1.0, 1.0),
        |s| (s.dynatemp_range, s.typical_p, s.top_n_sigma) = (1.5, 0.95, 5.0),
        // A banned string is set below.
        |_| (),
    ];
    for (index, change) in changes.iter().enumerate() {
        target.params = params(0);
        change(&mut target.params);
        // Raises Mirostat's target until it leaves several tokens.
        while target.params.mirostat && target.pairs().len() < 4 {
            target.params.mirostat_tau += 0.25;
            assert!(target.params.mirostat_tau < 8.0);
        }
        if index + 1 == changes.len() {
            // Bans the most probable pair that is text.
            let text = |pair: &Pair| {
                let bytes = pair
                    .map(|token| target.strings.vocabulary.visible_bytes(token))
                    .concat();
                String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
            };
            let texts = plain_pairs
                .iter()
                .filter_map(|(pair, p)| Some((text(pair)?, *pair, *p)));
            let (text, pair, _) = texts.max_by(|a, b| a.2.total_cmp(&b.2)).expect("a pair of text");
            target.strings.banned = vec![text];
            assert!(!target.pairs().contains_key(&pair));
        } else {
            assert_ne!(target.pairs(), plain_pairs, "{:?}", target.params);
        }
        check(&mut target, &drafts, ANSWERS / 2);
    }
}

/// The test fails for a rule that accepts every drafted token that the filters leave, and for one
/// that does so for one token in ten.
#[test]
fn the_test_fails_for_wrong_acceptances() {
    let mut target = Target::new();
    let probabilities = target.pairs();
    let mut sample = |accept: &dyn Fn(u32, u32, u64) -> u32| {
        let mut pairs = Vec::new();
        for seed in 0..ANSWERS {
            let (mut sampler, logits) = target.state_after(&[], seed);
            let token = sampler.sample(&logits).expect("finite");
            let (mut sampler, logits) = target.state_after(&[token], seed);
            let distribution = sampler.distribution(&logits).expect("finite");
            let drafted = distribution
                .probabilities()
                .max_by(|a, b| a.1.total_cmp(&b.1))
                .expect("a token")
                .0;
            let unit = (seed as f64 * 0.618_033_988_75).fract();
            let drawn = distribution.draw(unit).expect("a token");
            pairs.push([token, accept(drawn, drafted, seed)]);
        }
        count_pairs(pairs.into_iter())
    };
    assert!(agrees(&sample(&|drawn, _, _| drawn), &probabilities), "a correct rule");
    assert!(
        !agrees(&sample(&|_, drafted, _| drafted), &probabilities),
        "always accepted"
    );
    let one_in_ten = |drawn: u32, drafted: u32, seed: u64| if seed.is_multiple_of(10) { drafted } else { drawn };
    assert!(
        !agrees(&sample(&one_in_ten), &probabilities),
        "one in ten accepted without a draw"
    );
}

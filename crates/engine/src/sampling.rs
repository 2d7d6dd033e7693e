//! The sampler of an answer, from the protocol's parameters.

use crate::problem::{from_sampling, problem};
use crate::thinking::Markers;
use hearth_formats::tokenizer::{Special, Tokenizer};
use hearth_llm::{MAX_STRING_BYTES, MAX_STRINGS, Sampler, SamplingError, SamplingParams, StringParams, Vocabulary};
use hearth_protocol::{GenerateRequest, LogitBias, Problem, ProblemCode};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The parameter's name in errors.
const LOGIT_BIAS: &str = "logit_bias";

/// The sampler of a request; without a seed, it has a random one.
///
/// # Errors
/// A parameter is outside its range, there are too many texts, or a token does not exist.
pub(crate) fn sampler(
    request: &GenerateRequest,
    tokenizer: &Arc<Tokenizer>,
    markers: Option<&Arc<Markers>>,
) -> Result<Sampler, Problem> {
    let given = &request.sampling;
    let params = SamplingParams {
        temperature: given.temperature,
        top_k: given.top_k as usize,
        top_p: given.top_p,
        min_p: given.min_p,
        repetition_penalty: given.repetition_penalty,
        frequency_penalty: given.frequency_penalty,
        presence_penalty: given.presence_penalty,
        repeat_last_n: given.repeat_last_n as usize,
        typical_p: given.typical_p,
        top_n_sigma: given.top_n_sigma,
        xtc_probability: given.xtc_probability,
        xtc_threshold: given.xtc_threshold,
        dry_multiplier: given.dry_multiplier,
        dry_base: given.dry_base,
        dry_allowed_length: given.dry_allowed_length as usize,
        dry_last_n: given.dry_last_n as usize,
        mirostat: given.mirostat,
        mirostat_tau: given.mirostat_tau,
        mirostat_eta: given.mirostat_eta,
        dynatemp_range: given.dynatemp_range,
        dynatemp_exponent: given.dynatemp_exponent,
        logit_bias: logit_bias(&given.logit_bias, tokenizer)?,
        seed: given.seed.unwrap_or_else(random_seed),
    };
    let texts = StringParams {
        vocabulary: Arc::new(AnswerTexts {
            tokenizer: Arc::clone(tokenizer),
            markers: markers.cloned(),
        }),
        dry_breakers: given.dry_breakers.clone(),
        banned: given.banned_strings.clone(),
    };
    Sampler::with_strings(params, &texts).map_err(from_sampling)
}

/// The texts of tokens in an answer.
struct AnswerTexts {
    tokenizer: Arc<Tokenizer>,
    markers: Option<Arc<Markers>>,
}

impl fmt::Debug for AnswerTexts {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("AnswerTexts").finish_non_exhaustive()
    }
}

impl Vocabulary for AnswerTexts {
    fn token_count(&self) -> usize {
        self.tokenizer.vocab_size()
    }

    fn bytes(&self, token: u32) -> &[u8] {
        self.tokenizer.token_bytes(token).unwrap_or_default()
    }

    fn visible_bytes(&self, token: u32) -> &[u8] {
        shown(&self.tokenizer, self.markers.as_deref(), token)
    }
}

/// The text that a token adds to an answer. Of the special tokens, only the markers of thoughts
/// have a text.
pub(crate) fn shown<'t>(tokenizer: &'t Tokenizer, markers: Option<&Markers>, token: u32) -> &'t [u8] {
    let is_hidden = tokenizer.is_special(token) && markers.and_then(|markers| markers.edge(token)).is_none();
    if is_hidden {
        &[]
    } else {
        tokenizer.token_bytes(token).unwrap_or_default()
    }
}

/// The biased tokens. A text is all tokens that have this text, or if there are none, those that it
/// is encoded to.
///
/// # Errors
/// There are too many, a text is too long, or a token does not exist.
fn logit_bias(given: &[LogitBias], tokenizer: &Tokenizer) -> Result<Vec<(u32, f32)>, Problem> {
    if given.len() > MAX_STRINGS {
        return Err(from_sampling(SamplingError::TooManyStrings {
            name: LOGIT_BIAS,
            count: given.len(),
        }));
    }
    let mut named: HashMap<&[u8], Vec<u32>> = HashMap::new();
    for bias in given {
        if let LogitBias::Text { text, .. } = bias {
            if text.len() > MAX_STRING_BYTES {
                return Err(from_sampling(SamplingError::LongString {
                    name: LOGIT_BIAS,
                    bytes: text.len(),
                }));
            }
            named.insert(text.as_bytes(), Vec::new());
        }
    }
    let tokens = tokenizer.vocab_size();
    if !named.is_empty() {
        for id in 0..u32::try_from(tokens).unwrap_or(u32::MAX) {
            let bytes = tokenizer.token_bytes(id).unwrap_or_default();
            if let Some(ids) = named.get_mut(bytes) {
                ids.push(id);
            }
        }
    }
    let mut biases = Vec::new();
    for bias in given {
        match bias {
            LogitBias::Id { id, .. } if *id as usize >= tokens => {
                let message = format!(
                    "The logit bias names the token {id}, but the model has {tokens} tokens, from 0 to {}. Remove it.",
                    tokens.saturating_sub(1)
                );
                return Err(problem(ProblemCode::BadRequest, message));
            }
            LogitBias::Id { id, bias } => biases.push((*id, value(*bias))),
            LogitBias::Text { text, .. } if text.is_empty() => {}
            LogitBias::Text { text, bias } => {
                let whole = named.get(text.as_bytes()).filter(|ids| !ids.is_empty());
                let mut ids = whole.cloned().unwrap_or_else(|| tokenizer.encode(text, Special::Text));
                // A token that a text has twice is biased once.
                ids.sort_unstable();
                ids.dedup();
                biases.extend(ids.into_iter().map(|id| (id, value(*bias))));
            }
        }
    }
    Ok(biases)
}

fn value(bias: Option<f32>) -> f32 {
    bias.unwrap_or(f32::NEG_INFINITY)
}

/// A random seed, from the keys of the standard library's hash maps.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_formats::gguf::Gguf;
    use std::path::PathBuf;

    fn tokenizer() -> Tokenizer {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tokenizer/qwen2.gguf");
        Tokenizer::from_gguf(&Gguf::open(PathBuf::from(path)).expect("a fixture")).expect("its tokenizer")
    }

    fn text(text: &str, bias: Option<f32>) -> LogitBias {
        LogitBias::Text {
            text: text.to_owned(),
            bias,
        }
    }

    #[test]
    fn a_text_is_its_token_or_its_tokens() {
        let tokenizer = tokenizer();
        let of = |given: &[LogitBias]| logit_bias(given, &tokenizer).expect("valid");
        assert_eq!(of(&[LogitBias::Id { id: 7, bias: Some(1.5) }]), [(7, 1.5)]);
        assert_eq!(of(&[LogitBias::Id { id: 7, bias: None }]), [(7, f32::NEG_INFINITY)]);
        assert!(of(&[text("", Some(1.0))]).is_empty());
        let hello = tokenizer.encode("hello", Special::Text);
        assert!(hello.len() > 1);
        let first = tokenizer.token_bytes(hello[0]).expect("a token");
        let first = std::str::from_utf8(first).expect("whole characters");
        assert_eq!(of(&[text(first, Some(-2.0))]), [(hello[0], -2.0)]);
        let end = tokenizer.special_id("<|im_end|>").expect("a control token");
        assert_eq!(of(&[text("<|im_end|>", None)]), [(end, f32::NEG_INFINITY)]);
        let mut several = tokenizer.encode("hello hello there hello", Special::Text);
        several.sort_unstable();
        several.dedup();
        assert!(several.len() > 2);
        let actual = of(&[text("hello hello there hello", Some(1.0))]);
        assert_eq!(actual, several.iter().map(|id| (*id, 1.0)).collect::<Vec<_>>());
    }

    #[test]
    fn biases_without_tokens_and_too_many_are_refused() {
        let tokenizer = tokenizer();
        let refused = |given: &[LogitBias]| logit_bias(given, &tokenizer).expect_err("invalid");
        let missing = refused(&[LogitBias::Id {
            id: u32::MAX,
            bias: None,
        }]);
        assert_eq!(missing.code, ProblemCode::BadRequest);
        assert!(missing.message.contains("4294967295"), "{missing}");
        assert!(refused(&vec![text("a", None); 1001]).message.contains("1001"));
        assert!(refused(&[text(&"a".repeat(257), None)]).message.contains("257"));
    }
}

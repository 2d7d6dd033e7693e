//! Creates the sampler of an answer from the parameters of its request.

use crate::numbers::saturating_u32;
use crate::problem::from_sampling;
use crate::thinking::Markers;
use hearth_formats::tokenizer::{Special, Tokenizer};
use hearth_llm::{MAX_STRING_BYTES, MAX_STRINGS, Sampler, SamplingError, SamplingParams, StringParams, Vocabulary};
use hearth_protocol::{GenerateRequest, LogitBias, Problem, ProblemCode, RequestReason};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Name of the parameter in errors.
const LOGIT_BIAS: &str = "logit_bias";

/// Returns the sampler of a request. Without a seed in the request, the seed is random.
///
/// # Errors
/// A parameter is outside its range, there are too many strings, or a token does not exist.
pub(crate) fn sampler(
    request: &GenerateRequest,
    tokenizer: &Arc<Tokenizer>,
    markers: Option<&Arc<Markers>>,
) -> Result<Sampler, Problem> {
    let requested = &request.sampling;
    let params = SamplingParams {
        temperature: requested.temperature,
        top_k: requested.top_k as usize,
        top_p: requested.top_p,
        min_p: requested.min_p,
        repetition_penalty: requested.repetition_penalty,
        frequency_penalty: requested.frequency_penalty,
        presence_penalty: requested.presence_penalty,
        repeat_last_n: requested.repeat_last_n as usize,
        typical_p: requested.typical_p,
        top_n_sigma: requested.top_n_sigma,
        xtc_probability: requested.xtc_probability,
        xtc_threshold: requested.xtc_threshold,
        dry_multiplier: requested.dry_multiplier,
        dry_base: requested.dry_base,
        dry_allowed_length: requested.dry_allowed_length as usize,
        dry_last_n: requested.dry_last_n as usize,
        mirostat: requested.mirostat,
        mirostat_tau: requested.mirostat_tau,
        mirostat_eta: requested.mirostat_eta,
        dynatemp_range: requested.dynatemp_range,
        dynatemp_exponent: requested.dynatemp_exponent,
        logit_bias: logit_bias(&requested.logit_bias, tokenizer)?,
        seed: requested.seed.unwrap_or_else(random_seed),
    };
    let strings = StringParams {
        vocabulary: Arc::new(AnswerTexts {
            tokenizer: Arc::clone(tokenizer),
            markers: markers.cloned(),
        }),
        dry_breakers: requested.dry_breakers.clone(),
        banned: requested.banned_strings.clone(),
    };
    Sampler::with_strings(params, &strings).map_err(from_sampling)
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
        visible_bytes(&self.tokenizer, self.markers.as_deref(), token)
    }
}

/// The bytes that a token adds to the text of an answer. Special tokens add none, except the
/// markers of thoughts.
pub(crate) fn visible_bytes<'t>(tokenizer: &'t Tokenizer, markers: Option<&Markers>, token: u32) -> &'t [u8] {
    let is_hidden = tokenizer.is_special(token) && markers.and_then(|markers| markers.edge(token)).is_none();
    if is_hidden {
        &[]
    } else {
        tokenizer.token_bytes(token).unwrap_or_default()
    }
}

/// The biased tokens with their biases. A text stands for all tokens with this text, or if there
/// are none, for the tokens that it is encoded to.
///
/// # Errors
/// There are too many biases, a text is too long, or a token does not exist.
fn logit_bias(biases: &[LogitBias], tokenizer: &Tokenizer) -> Result<Vec<(u32, f32)>, Problem> {
    if biases.len() > MAX_STRINGS {
        return Err(from_sampling(SamplingError::TooManyStrings {
            name: LOGIT_BIAS,
            count: biases.len(),
        }));
    }
    let mut ids_by_text: HashMap<&[u8], Vec<u32>> = HashMap::new();
    for bias in biases {
        if let LogitBias::Text { text, .. } = bias {
            if text.len() > MAX_STRING_BYTES {
                return Err(from_sampling(SamplingError::LongString {
                    name: LOGIT_BIAS,
                    bytes: text.len(),
                }));
            }
            ids_by_text.insert(text.as_bytes(), Vec::new());
        }
    }
    let tokens = tokenizer.vocab_size();
    if !ids_by_text.is_empty() {
        for id in 0..u32::try_from(tokens).unwrap_or(u32::MAX) {
            let bytes = tokenizer.token_bytes(id).unwrap_or_default();
            if let Some(ids) = ids_by_text.get_mut(bytes) {
                ids.push(id);
            }
        }
    }
    let mut biased = Vec::new();
    for bias in biases {
        match bias {
            LogitBias::Id { id, .. } if *id as usize >= tokens => {
                let reason = RequestReason::NoSuchToken {
                    id: *id,
                    tokens: saturating_u32(tokens),
                    last: saturating_u32(tokens.saturating_sub(1)),
                };
                return Err(Problem::new(ProblemCode::BadRequest, reason));
            }
            LogitBias::Id { id, bias } => biased.push((*id, value(*bias))),
            LogitBias::Text { text, .. } if text.is_empty() => {}
            LogitBias::Text { text, bias } => {
                let exact = ids_by_text.get(text.as_bytes()).filter(|ids| !ids.is_empty());
                let mut ids = exact.cloned().unwrap_or_else(|| tokenizer.encode(text, Special::Text));
                // A token that occurs several times in a text is biased once.
                ids.sort_unstable();
                ids.dedup();
                biased.extend(ids.into_iter().map(|id| (id, value(*bias))));
            }
        }
    }
    Ok(biased)
}

/// The bias of a token. `None` masks it.
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
    fn a_text_biases_its_token_or_the_tokens_of_its_encoding() {
        let tokenizer = tokenizer();
        let biased = |biases: &[LogitBias]| logit_bias(biases, &tokenizer).expect("valid");
        assert_eq!(biased(&[LogitBias::Id { id: 7, bias: Some(1.5) }]), [(7, 1.5)]);
        assert_eq!(biased(&[LogitBias::Id { id: 7, bias: None }]), [(7, f32::NEG_INFINITY)]);
        assert!(biased(&[text("", Some(1.0))]).is_empty());
        let hello = tokenizer.encode("hello", Special::Text);
        assert!(hello.len() > 1);
        let first = tokenizer.token_bytes(hello[0]).expect("a token");
        let first = std::str::from_utf8(first).expect("whole characters");
        assert_eq!(biased(&[text(first, Some(-2.0))]), [(hello[0], -2.0)]);
        let end = tokenizer.special_id("<|im_end|>").expect("a control token");
        assert_eq!(biased(&[text("<|im_end|>", None)]), [(end, f32::NEG_INFINITY)]);
        let mut expected = tokenizer.encode("hello hello there hello", Special::Text);
        expected.sort_unstable();
        expected.dedup();
        assert!(expected.len() > 2);
        let actual = biased(&[text("hello hello there hello", Some(1.0))]);
        assert_eq!(actual, expected.iter().map(|id| (*id, 1.0)).collect::<Vec<_>>());
    }

    #[test]
    fn biases_without_tokens_and_too_many_are_refused() {
        let tokenizer = tokenizer();
        let refused = |biases: &[LogitBias]| logit_bias(biases, &tokenizer).expect_err("invalid");
        let missing = refused(&[LogitBias::Id {
            id: u32::MAX,
            bias: None,
        }]);
        assert_eq!(missing.code, ProblemCode::BadRequest);
        assert!(missing.to_string().contains("4294967295"), "{missing}");
        assert!(refused(&vec![text("a", None); 1001]).to_string().contains("1001"));
        assert!(refused(&[text(&"a".repeat(257), None)]).to_string().contains("257"));
    }
}

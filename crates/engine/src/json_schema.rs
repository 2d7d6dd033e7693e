//! Answers that follow a JSON schema: before each token is sampled, the tokens that would not
//! continue valid JSON are masked. The grammars are compiled by llguidance.

use crate::json_numbers::limit_numbers;
use crate::problem::{internal, interrupted, schema_failed};
use crate::schema_pattern;
use crate::thinking::Markers;
use hearth_formats::interrupt;
use hearth_formats::tokenizer::Tokenizer;
use hearth_llm::Constraint;
use hearth_protocol::{GenerateRequest, Problem, ProblemCode, RequestReason, assume_objects, parse_json_schema};
use llguidance::api::{GrammarInit, TopLevelGrammar};
use llguidance::toktrie::{ApproximateTokEnv, TokRxInfo, TokTrie, TokenizerEnv};
use llguidance::{JsonCompileOptions, Matcher, ParserFactory, panic_utils};
use serde_json::Value;
use std::fmt;
use std::iter;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// White space between the tokens of JSON: a space, or a line break with indentation. Without a
/// limit, a small model may write white space until its context is full.
const WHITE_SPACE: &str = r"\x20|\x0D?\x0A[\x20\x09]{0,64}";
/// The byte before the text of a control token in a trie.
const CONTROL: u8 = 0xff;
/// Maximum number of states of the lexer, of at most 2 kB each.
const MAX_LEXER_STATES: usize = 50_000;
/// Maximum bytes of a token: the trie's depth is limited to 256.
const MAX_TOKEN_BYTES: usize = 250;
/// Maximum characters of a reason of the library that is shown to the user.
const MAX_REASON_CHARS: usize = 300;

/// Time limit for the compilation of a schema. An ordinary schema of 64 KiB takes less than a
/// second.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Interval between two checks for an interruption.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum number of compilations that continue after their requests have given up.
const MAX_ABANDONED: usize = 2;

/// Compiles schemas for the vocabulary of a model, which is prepared when the first schema is used.
#[derive(Default)]
pub(crate) struct Schemas {
    factory: OnceLock<Option<Arc<ParserFactory>>>,
    /// Compilations whose requests have given up.
    abandoned: Mutex<Vec<Compilation>>,
}

/// The compilation of a schema on a separate thread.
struct Compilation {
    text: String,
    result: mpsc::Receiver<Matcher>,
    thread: JoinHandle<()>,
}

impl Schemas {
    /// Compiles the schema of a request. `None` means that it has none.
    ///
    /// # Errors
    /// The schema is not JSON, too long or unsupported, or the model has no end-of-turn token.
    pub fn for_request(
        &self,
        request: &GenerateRequest,
        tokenizer: &Tokenizer,
        markers: Option<&Markers>,
    ) -> Result<Option<Schema>, Problem> {
        let Some(text) = &request.json_schema else {
            return Ok(None);
        };
        let grammar = grammar(text)?;
        let build = || factory(tokenizer, markers).map(Arc::new);
        let factory = self.factory.get_or_init(build).as_ref();
        let factory = factory.ok_or_else(|| refuse(RequestReason::SchemaNeedsEndOfTurn))?;
        let matcher = self.compile(factory, text, grammar)?;
        match matcher.get_error() {
            Some(reason) => Err(unsupported(text, &reason)),
            None => Ok(Some(Schema { matcher })),
        }
    }

    /// Compiles a grammar on a separate thread, because the library cannot be interrupted and
    /// ignores its limits: the intersection of many patterns takes exponential time. If an
    /// abandoned schema is requested again, its compilation continues.
    ///
    /// # Errors
    /// The compilation takes too long, too many schemas are still being compiled, or the request
    /// was interrupted.
    fn compile(&self, factory: &Arc<ParserFactory>, text: &str, grammar: TopLevelGrammar) -> Result<Matcher, Problem> {
        let mut abandoned = self.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
        let start = Instant::now();
        let compilation = loop {
            interrupt::check().map_err(|_| interrupted())?;
            if let Some(index) = abandoned.iter().position(|other| other.text == text) {
                break abandoned.swap_remove(index);
            }
            abandoned.retain(|other| !other.thread.is_finished());
            if abandoned.len() < MAX_ABANDONED {
                break Compilation::begin(factory, text, grammar)?;
            }
            if start.elapsed() > TIME_LIMIT {
                return Err(refuse(RequestReason::SchemasCompiling));
            }
            thread::sleep(POLL_INTERVAL);
        };
        compilation.wait(start).map_err(|(compilation, problem)| {
            abandoned.extend(compilation);
            problem
        })
    }
}

impl Compilation {
    fn begin(factory: &Arc<ParserFactory>, text: &str, grammar: TopLevelGrammar) -> Result<Self, Problem> {
        let (sender, result) = mpsc::channel();
        let factory = Arc::clone(factory);
        let thread = thread::Builder::new().name("schema".to_owned()).spawn(move || {
            // The receiver is dropped if the request has given up and the compilation is forgotten.
            let _ = sender.send(matcher(&factory, grammar));
        });
        Ok(Self {
            text: text.to_owned(),
            result,
            thread: thread.map_err(|error| internal(&format!("no thread can be started: {error}")))?,
        })
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// The reason for giving up, and the compilation if it continues.
    fn wait(self, start: Instant) -> Result<Matcher, (Option<Self>, Problem)> {
        loop {
            match self.result.recv_timeout(POLL_INTERVAL) {
                Ok(matcher) => return Ok(matcher),
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err((None, internal("a JSON schema was not compiled")));
                }
                Err(mpsc::RecvTimeoutError::Timeout) if interrupt::check().is_err() => {
                    return Err((Some(self), interrupted()));
                }
                Err(mpsc::RecvTimeoutError::Timeout) if start.elapsed() > TIME_LIMIT => {
                    return Err((Some(self), refuse(RequestReason::SchemaTooSlow)));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// The grammar of a schema.
///
/// # Errors
/// The schema is not a JSON object, or too long.
fn grammar(text: &str) -> Result<TopLevelGrammar, Problem> {
    let mut schema = parse_json_schema(text)?;
    assume_objects(&mut schema);
    let mut schema = Value::Object(schema);
    let options = JsonCompileOptions {
        whitespace_pattern: Some(WHITE_SPACE.to_owned()),
        coerce_one_of: true,
        ..JsonCompileOptions::default()
    };
    options.apply_to(&mut schema);
    Ok(TopLevelGrammar::from_json_schema(schema))
}

/// The matcher of a grammar with limited numbers. Its state is an error if the library fails or
/// panics.
fn matcher(factory: &ParserFactory, grammar: TopLevelGrammar) -> Matcher {
    Matcher::new(panic_utils::catch_unwind(AssertUnwindSafe(|| {
        let init = GrammarInit::Serialized(grammar);
        let (grammar, mut lexer) = init.to_internal(Some(factory.tok_env().clone()), factory.limits().clone())?;
        limit_numbers(&mut lexer);
        factory.create_parser_from_init_default(GrammarInit::Internal(grammar, lexer))
    })))
}

/// Returns the parser factory of a vocabulary. `None` means that the vocabulary has no end-of-turn
/// token, or that its trie cannot be built because of a bug.
fn factory(tokenizer: &Tokenizer, markers: Option<&Markers>) -> Option<ParserFactory> {
    let tokens = u32::try_from(tokenizer.vocab_size()).ok()?;
    let end_tokens: Vec<u32> = (0..tokens).filter(|id| tokenizer.is_end_of_generation(*id)).collect();
    let words: Vec<Vec<u8>> = (0..tokens).map(|id| word(tokenizer, markers, id)).collect();
    let trie = TokTrie::from(&TokRxInfo::new(tokens, *end_tokens.first()?), &words).with_eos_tokens(&end_tokens);
    let environment: Arc<dyn TokenizerEnv + Sync> = Arc::new(ApproximateTokEnv::new(trie));
    let mut factory = ParserFactory::new_simple(&environment).ok()?;
    factory.quiet();
    let limits = factory.limits_mut();
    limits.max_lexer_states = MAX_LEXER_STATES;
    limits.verbose_errors = false;
    Some(factory)
}

/// The bytes of a token in the trie. A token without bytes is never allowed. A marker of thoughts
/// is a control token, whatever its type; strings in JSON can have its letters in other tokens.
fn word(tokenizer: &Tokenizer, markers: Option<&Markers>, id: u32) -> Vec<u8> {
    let is_marker = markers.is_some_and(|markers| markers.edge(id).is_some());
    let is_control = is_marker || tokenizer.is_special(id) || tokenizer.is_end_of_generation(id);
    let bytes = tokenizer.token_bytes(id).unwrap_or_default();
    match bytes.first() {
        _ if bytes.len() > MAX_TOKEN_BYTES => Vec::new(),
        _ if is_control => iter::once(CONTROL).chain(bytes.iter().copied()).collect(),
        // The trie would take the token for a control token. No text begins with this byte.
        Some(&CONTROL) => Vec::new(),
        _ => bytes.to_vec(),
    }
}

/// A JSON schema, with the state after the tokens of an answer so far.
#[derive(Clone)]
pub(crate) struct Schema {
    matcher: Matcher,
}

impl Schema {
    /// Consumes the existing part of a continued answer.
    ///
    /// # Errors
    /// Neither its tokens nor its text follow the schema.
    pub fn follow(&mut self, tokens: &[u32], text: &str) -> Result<(), Problem> {
        let initial = self.matcher.clone();
        if self.consume(tokens) {
            return Ok(());
        }
        // The tokens include a thought, or white space that the text does not have.
        self.matcher = initial;
        self.follow_text(text)
    }

    /// Consumes text.
    ///
    /// # Errors
    /// The text does not follow the schema.
    pub fn follow_text(&mut self, text: &str) -> Result<(), Problem> {
        let environment = self
            .matcher
            .tok_env()
            .map_err(|error| schema_failed(&error.to_string()))?;
        if self.consume(&environment.tokenize_bytes(text.as_bytes())) {
            Ok(())
        } else {
            Err(refuse(RequestReason::SchemaNotFollowed))
        }
    }

    fn consume(&mut self, tokens: &[u32]) -> bool {
        self.matcher
            .try_consume_tokens(tokens)
            .is_ok_and(|consumed| consumed == tokens.len())
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Schema").finish_non_exhaustive()
    }
}

impl Constraint for Schema {
    fn mask(&mut self, logits: &mut [f32]) -> Result<(), String> {
        let allowed = self.matcher.compute_mask_or_eos();
        let allowed = allowed.map_err(|error| first_line(&error.to_string()))?;
        // Logits beyond the vocabulary belong to no token, and are masked.
        let words = allowed.as_slice().iter().copied().chain(iter::repeat(0));
        for (logits, bits) in logits.chunks_mut(u32::BITS as usize).zip(words) {
            for (bit, logit) in logits.iter_mut().enumerate() {
                if (bits >> bit) & 1 == 0 {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self, token: u32) {
        // The next `mask` returns an error.
        let _ = self.matcher.consume_token(token);
    }

    fn is_complete(&self) -> bool {
        self.matcher.is_stopped() && !self.matcher.is_error()
    }

    fn boxed(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}

fn refuse(reason: RequestReason) -> Problem {
    Problem::new(ProblemCode::BadRequest, reason)
}

/// The problem of a schema that the library refused for a reason.
fn unsupported(schema: &str, reason: &str) -> Problem {
    refuse(
        schema_pattern::reason(schema, reason).unwrap_or_else(|| RequestReason::SchemaUnsupported {
            detail: first_line(reason),
        }),
    )
}

/// The first line of a reason without its full stop, shortened to [`MAX_REASON_CHARS`].
fn first_line(reason: &str) -> String {
    let line = reason.lines().next().unwrap_or_default().trim_end_matches('.');
    line.chars().take(MAX_REASON_CHARS).collect()
}

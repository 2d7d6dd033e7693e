//! Arbitrary sizes, and an arbitrary order of prompts, drafts, forks and cancellations in one KV
//! cache: each sequence must have the tokens of plain decoding, and no page may leak.

use crate::seeds::{self, Seed};
use hearth_formats::gguf::Gguf;
use hearth_kernels::attention::KvFormat;
use hearth_llm::draft::{
    Acceptance, BUCKETS, DraftRequest, Drafter, LengthPolicy, MAX_DRAFTED, ModelDrafter, NgramDrafter,
    SelfSpeculativeDrafter, StepCosts,
};
use hearth_llm::{
    CacheError, CacheSize, LoadOptions, Model, Output, Session, SessionError, SessionRows, Want, greedy, step_sessions,
};
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

/// Maximum number of actions of an input.
const ACTIONS: usize = 24;
/// Maximum number of concurrent sequences.
const SEQUENCES: usize = 4;

/// One model with full attention, and one with windows of 8 tokens.
static MODELS: LazyLock<[Arc<Model>; 2]> = LazyLock::new(|| {
    ["llama", "gemma3"].map(|name| {
        let file = seeds::file(&format!("tests/fixtures/models/{name}.gguf"));
        let gguf = Gguf::from_bytes(file).expect("a fixture");
        let model = Model::load(&gguf, &LoadOptions::default(), &mut |_| ControlFlow::Continue(()));
        Arc::new(model.expect("it loads"))
    })
});

/// A sequence with the token behind it, as an answer in progress.
struct Answer {
    id: u64,
    session: Session,
    ids: Vec<u32>,
}

/// The input: model, draft and cache type, context, then actions of two bytes.
pub fn run(bytes: &[u8]) -> bool {
    let Some(([flags, context], actions)) = bytes.split_first_chunk::<2>() else {
        return false;
    };
    let (model, other) = (&MODELS[usize::from(flags & 1)], &MODELS[usize::from(!flags & 1)]);
    let (context, format) = (
        2 + usize::from(*context) % 199,
        if flags & 2 == 0 { KvFormat::F16 } else { KvFormat::Q8_0 },
    );
    let mut drafter: Box<dyn Drafter> = match flags >> 2 & 3 {
        0 => Box::new(NgramDrafter::new()),
        1 => Box::new(SelfSpeculativeDrafter::new(model, 1, 0.5).expect("it has two layers")),
        2 => Box::new(ModelDrafter::new(Arc::clone(model), format, context, None, 1.0)),
        _ => Box::new(ModelDrafter::new(Arc::clone(other), format, context, None, 1.0)),
    };
    let size = CacheSize::chat(context, model.groups()).with_drafts(1);
    let empty = Session::with_size(Arc::clone(model), size, format).expect("a cache");
    let mut plain = Session::with_cache(Arc::clone(model), context, format).expect("a cache");
    let (mut answers, mut last): (Vec<Answer>, u64) = (Vec::new(), 0);
    for &[action, number] in actions.as_chunks::<2>().0.iter().take(ACTIONS) {
        let at = usize::from(action >> 2) % answers.len().max(1);
        match action & 3 {
            0 if answers.len() < SEQUENCES => {
                last += 1;
                answers.extend(begin(&empty, last, number));
            }
            1 if !answers.is_empty() => {
                let ended = answers.swap_remove(at);
                drafter.end(ended.id);
            }
            _ if !answers.is_empty() => {
                let answer = &mut answers[at];
                let max_tokens = usize::from(number) % (MAX_DRAFTED + 1);
                if !advance(answer, &mut *drafter, max_tokens, &mut plain) {
                    let ended = answers.swap_remove(at);
                    drafter.end(ended.id);
                }
            }
            _ => {}
        }
    }
    let cache = Arc::clone(empty.cache());
    drop((answers, drafter));
    assert!(
        cache.free_pages().into_iter().all(|[free, all]| free == all),
        "a page leaked"
    );
    true
}

/// An answer to a prompt that repeats itself; `None` if there is no room.
fn begin(empty: &Session, id: u64, number: u8) -> Option<Answer> {
    let length = 1 + usize::from(number) % empty.context().min(60);
    let ids: Vec<u32> = (0..length as u32).map(|at| 3 + at * u32::from(number) % 7).collect();
    let mut session = empty.sharing_cache(Arc::clone(empty.model())).expect("one model");
    match session.prefill(&ids, &mut |_, _| ControlFlow::Continue(())) {
        Ok(_) => {
            let next = greedy(session.logits()).expect("finite");
            let ids = ids.into_iter().chain([next]).collect();
            Some(Answer { id, session, ids })
        }
        Err(error) => {
            assert_full(&error);
            None
        }
    }
}

/// Adds drafted tokens as far as the model agrees, and the one after them. Returns `false` if the
/// answer has no room.
fn advance(answer: &mut Answer, drafter: &mut dyn Drafter, max_tokens: usize, plain: &mut Session) -> bool {
    let Answer { id, session, ids } = answer;
    if ids.len() > session.context() {
        return false;
    }
    let (acceptance, costs) = (Acceptance::new([0.5; BUCKETS]), StepCosts::new(0.0));
    let length_policy = LengthPolicy {
        acceptance: &acceptance,
        costs: &costs,
        rows: 1,
        max_tokens: max_tokens.min(session.context() - ids.len()),
        is_forced: true,
    };
    let mut requests = [DraftRequest {
        id: *id,
        ids,
        target: session,
        sampler: None,
        length_policy,
        drafted: Vec::new(),
        declined: None,
        unpaid: None,
    }];
    let never = &mut |_| ControlFlow::Continue(());
    drafter.propose(&mut requests, never).expect("no GPU");
    let [request] = requests;
    let drafted: Vec<u32> = request.drafted.iter().map(|drafted| drafted.token).collect();
    assert!(drafted.len() <= length_policy.max_tokens);
    let rows: Vec<u32> = ids.last().copied().into_iter().chain(drafted.iter().copied()).collect();
    let mut parts = [SessionRows {
        session,
        ids: &rows,
        want: Want::Argmax,
        wanted: 0..rows.len(),
    }];
    let chosen = match step_sessions(&mut parts, &mut |_| ControlFlow::Continue(())) {
        Ok(ControlFlow::Continue(outputs)) => match outputs.into_iter().next() {
            Some(Output::Argmax(chosen)) => chosen,
            other => panic!("{other:?}"),
        },
        Ok(ControlFlow::Break(())) => return false,
        Err(error) => {
            assert_full(&error);
            return false;
        }
    };
    let agreed = chosen
        .iter()
        .zip(&drafted)
        .take_while(|(chosen, drafted)| **chosen == Some(**drafted));
    let accepted = agreed.count();
    let cached = ids.len() + accepted;
    for token in chosen.into_iter().take(accepted + 1) {
        assert_eq!(token, next(plain, ids), "plain decoding goes on otherwise");
        ids.extend(token);
    }
    session.truncate(cached);
    assert_eq!(session.tokens(), &ids[..cached]);
    true
}

/// The next token of plain decoding.
fn next(plain: &mut Session, ids: &[u32]) -> Option<u32> {
    let read = plain.prefill(ids, &mut |_, _| ControlFlow::Continue(()));
    assert!(read.expect("room").completed);
    greedy(plain.logits())
}

/// Checks that only room was missing.
fn assert_full(error: &SessionError) {
    let full = matches!(
        error,
        SessionError::ContextFull { .. }
            | SessionError::Cache(CacheError::CacheFull { .. } | CacheError::ContextFull { .. })
    );
    assert!(full, "{error}");
}

pub fn seeds() -> Vec<Seed> {
    let actions: Vec<u8> = (0..ACTIONS as u8)
        .flat_map(|at| [[0, 2, 6, 2, 3, 10, 2, 1][at as usize % 8], at.wrapping_mul(37)])
        .collect();
    let seed = |flags: u8| Seed::new(format!("draft {flags}"), [&[flags, 90 + flags], &actions[..]].concat());
    (0..16).map(seed).collect()
}

//! Generations, controlled by the first word of the last message: the order. A background answer is
//! controlled by the order of the first message.

use super::{Control, PAUSE, fail, is_cancelled, send, wait_for_kill};
use hearth_protocol::{
    DraftKind, DraftStats, DroppedTurns, Event, FinishReason, GenerateRequest, Message, Part, ProblemCode, Prompt,
    RequestId, Role, Summary, TextKind, text_of,
};
use std::{
    fs,
    process::{abort, exit},
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc::Receiver,
    },
    thread,
};

/// A generation in progress.
struct Generation {
    id: RequestId,
    tokens: u32,
    /// Tokens of a continued answer.
    continued_tokens: usize,
    draft: Option<DraftStats>,
}

/// Number of cancelled answers whose last event was sent.
static CANCELLED_COUNT: AtomicU32 = AtomicU32::new(0);

/// Number of background answers so far.
static BACKGROUND_COUNT: AtomicU32 = AtomicU32::new(0);

/// The statistics of the order `draft`.
const DRAFT_STATS: DraftStats = DraftStats {
    kind: DraftKind::Model,
    drafted: 40,
    accepted: 25,
    gain: 1.75,
    used: 0.5,
    stopped: false,
};

/// The parts without the last character of their text.
fn without_last_character(parts: &[Part]) -> Vec<Part> {
    let mut parts = parts.to_vec();
    if let Some(Part::Text { text }) = parts.last_mut() {
        text.pop();
    }
    parts
}

/// Generates an answer. An unknown order is answered with the rest of the message.
pub fn generate(id: RequestId, request: &GenerateRequest, controls: &Receiver<Control>) {
    let (messages, continued) = match &request.prompt {
        Prompt::Chat(messages) => (messages.as_slice(), None),
        Prompt::Continue { messages, ids } => {
            let (answer, before) = messages.split_last().expect("an answer");
            (before, Some((answer, ids)))
        }
        _ => panic!("only chats here"),
    };
    if request.background {
        return answer_in_background(id, messages, controls);
    }
    let last = messages.last().map(Message::text).unwrap_or_default();
    let (order, rest) = last.split_once(' ').unwrap_or((&last, ""));
    let mut generation = Generation::new(id);
    generation.continued_tokens = continued.map_or(0, |(_, ids)| ids.len());
    // The last character of an answer with known tokens counts as held back.
    let so_far = continued.and_then(|(answer, ids)| (!ids.is_empty()).then(|| without_last_character(&answer.parts)));
    generation.start(order, so_far.clone());
    match order {
        // The other half.
        "cut" | "slow" | "die" if continued.is_some() => {
            if let (Some((answer, _)), Some(so_far)) = (continued, &so_far) {
                let held_back = answer.text().split_off(text_of(so_far).len());
                generation.send_piece(&held_back);
            }
            generation.send_piece(", and its end");
            generation.finish(FinishReason::Stop);
        }
        "die" | "starve" | "babble" | "fail" | "fault" | "stray" | "huge" => generation.fail(order),
        "slow" => generation.repeat("word ", controls),
        "count" => generation.count(rest.parse().unwrap_or(0), controls),
        "flood" => generation.repeat(&"word ".repeat(400), controls),
        "deaf" => loop {
            generation.send_piece("word ");
            thread::sleep(PAUSE);
        },
        // An answer that ends twice.
        "twice" => {
            generation.finish(FinishReason::Stop);
            Generation::new(id).finish(FinishReason::Stop);
        }
        // No answer, also if it is cancelled.
        "mute" => wait_for_kill(),
        "cut" => {
            generation.send_piece("Half an answer");
            generation.finish(FinishReason::Length);
        }
        "loop" => {
            generation.send_piece("Again and again");
            generation.finish(FinishReason::Repetition);
        }
        "think" => {
            generation.send_thought("Let me ");
            generation.send_thought("see.");
            generation.send_piece(rest);
            generation.finish(FinishReason::Stop);
        }
        // A thought that is known as one once it has ended.
        "fold" => {
            generation.send_piece("Let me ");
            generation.send_piece("see. ");
            send(id, Event::Folded);
            generation.send_piece(rest);
            generation.finish(FinishReason::Stop);
        }
        // The rest of the message, drafted.
        "draft" => {
            generation.send_piece(rest);
            generation.draft = Some(DRAFT_STATS);
            generation.finish(FinishReason::Stop);
        }
        // The number of cancelled answers.
        "cancelled" => {
            generation.send_piece(&CANCELLED_COUNT.load(Ordering::SeqCst).to_string());
            generation.finish(FinishReason::Stop);
        }
        // The number of background answers.
        "background" => {
            generation.send_piece(&BACKGROUND_COUNT.load(Ordering::SeqCst).to_string());
            generation.finish(FinishReason::Stop);
        }
        // The request itself, for the test to inspect.
        "show" => {
            generation.send_piece(&serde_json::to_string(request).expect("a request"));
            generation.finish(FinishReason::Stop);
        }
        _ => {
            for word in rest.split_inclusive(' ') {
                generation.send_piece(word);
            }
            generation.finish(FinishReason::Stop);
        }
    }
}

/// Answers in the background as the first message of the user says: `title TEXT` sends the text;
/// `hold PATH TEXT` creates the file and sends the text once it is removed; `break` makes the
/// worker exit. Any other message gets an empty answer.
fn answer_in_background(id: RequestId, messages: &[Message], controls: &Receiver<Control>) {
    BACKGROUND_COUNT.fetch_add(1, Ordering::SeqCst);
    let user = messages.iter().find(|message| message.role == Role::User);
    let first = user.map(Message::text).unwrap_or_default();
    let mut generation = Generation::new(id);
    generation.start("", None);
    match first.split_once(' ') {
        Some(("title", text)) => generation.send_piece(text),
        Some(("hold", rest)) => {
            let (path, text) = rest.split_once(' ').unwrap_or((rest, ""));
            fs::write(path, "").expect("a writable folder");
            while fs::exists(path).unwrap_or(false) {
                if is_cancelled(controls) {
                    return generation.end(FinishReason::Cancelled);
                }
            }
            generation.send_piece(text);
        }
        Some(("break", _)) => exit(5),
        _ => {}
    }
    generation.end(FinishReason::Stop);
}

impl Generation {
    fn new(id: RequestId) -> Self {
        Self {
            id,
            tokens: 0,
            continued_tokens: 0,
            draft: None,
        }
    }

    fn start(&self, order: &str, so_far: Option<Vec<Part>>) {
        let dropped = (order == "long").then_some(DroppedTurns {
            messages: 2,
            tokens: 300,
        });
        send(
            self.id,
            Event::Started {
                prompt_tokens: 10,
                cached_tokens: 4,
                dropped,
                so_far,
            },
        );
        send(self.id, Event::Prefill { done: 10, total: 10 });
    }

    fn send_piece(&mut self, text: &str) {
        self.send_text(TextKind::Text, text);
    }

    fn send_thought(&mut self, text: &str) {
        self.send_text(TextKind::Thinking, text);
    }

    fn send_text(&mut self, kind: TextKind, text: &str) {
        self.tokens += 1;
        send(
            self.id,
            Event::Text {
                kind,
                text: text.to_owned(),
                tokens: self.tokens,
            },
        );
    }

    /// Sends half an answer, then fails.
    fn fail(mut self, order: &str) {
        self.send_piece("Half an ");
        match order {
            "die" => {
                self.send_piece("answer");
                exit(5);
            }
            // As the standard library does after a failed allocation.
            "starve" => {
                eprintln!("memory allocation of 123456789 bytes failed");
                abort();
            }
            "babble" => {
                println!("\u{7}not a message");
                wait_for_kill();
            }
            // An event of a request that was never made.
            "stray" => {
                send(self.id + 1000, Event::Done);
                wait_for_kill();
            }
            // A line longer than any message.
            "huge" => {
                println!("{}", "x".repeat(17 << 20));
                wait_for_kill();
            }
            "fault" => fail(self.id, ProblemCode::GpuFailed, "The GPU failed during the answer."),
            _ => fail(self.id, ProblemCode::Template, "The model's chat template failed."),
        }
    }

    /// Sends pieces until it is cancelled.
    fn repeat(mut self, text: &str, controls: &Receiver<Control>) {
        loop {
            self.send_piece(text);
            if is_cancelled(controls) {
                return self.finish(FinishReason::Cancelled);
            }
        }
    }

    /// Sends the numbers from 1 to `last`, with a pause after each, unless it is cancelled.
    fn count(mut self, last: u32, controls: &Receiver<Control>) {
        for number in 1..=last {
            self.send_piece(&format!("{number} "));
            if is_cancelled(controls) {
                return self.finish(FinishReason::Cancelled);
            }
        }
        self.finish(FinishReason::Stop);
    }

    fn finish(self, reason: FinishReason) {
        self.end(reason);
        if reason == FinishReason::Cancelled {
            CANCELLED_COUNT.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn end(self, reason: FinishReason) {
        let summary = Summary {
            finish_reason: reason,
            prompt_tokens: 10,
            tokens: self.tokens,
            ids: vec![1; self.continued_tokens + self.tokens as usize],
            prompt_tokens_per_second: 100.0,
            tokens_per_second: 50.0,
            first_token_seconds: 0.1,
            context_used: 10 + self.tokens,
            context: 8192,
            draft: self.draft,
        };
        send(self.id, Event::Finished(summary));
    }
}

//! Generations, controlled by the first word of the last message: the order.

use super::{Control, PAUSE, fail, is_cancelled, say, wait_for_kill};
use hearth_protocol::{
    DraftKind, DraftStats, Event, FinishReason, GenerateRequest, LeftOut, Message, ProblemCode, Prompt, RequestId,
    Summary, TextKind,
};
use std::{
    process::{abort, exit},
    sync::mpsc::Receiver,
    thread,
};

/// A generation in progress.
struct Generation {
    id: RequestId,
    tokens: u32,
    draft: Option<DraftStats>,
}

/// The statistics of the order `draft`.
const DRAFTED: DraftStats = DraftStats {
    kind: DraftKind::Model,
    drafted: 40,
    accepted: 25,
    gain: 1.75,
    used: 0.5,
    stopped: false,
};

/// Generates an answer. An unknown order is answered with the rest of the message.
pub fn generate(id: RequestId, request: &GenerateRequest, controls: &Receiver<Control>) {
    let Prompt::Chat(messages) = &request.prompt else {
        panic!("only chats here")
    };
    let last = messages.last().map(Message::text).unwrap_or_default();
    let (order, rest) = last.split_once(' ').unwrap_or((&last, ""));
    let mut generation = Generation::new(id);
    generation.start(order);
    match order {
        "die" | "starve" | "babble" | "fail" | "fault" | "stray" | "huge" => generation.fail(order),
        "slow" => generation.repeat("word ", controls),
        "flood" => generation.repeat(&"word ".repeat(400), controls),
        "deaf" => loop {
            generation.piece("word ");
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
            generation.piece("Half an answer");
            generation.finish(FinishReason::Length);
        }
        "think" => {
            generation.thought("Let me ");
            generation.thought("see.");
            generation.piece(rest);
            generation.finish(FinishReason::Stop);
        }
        // The rest of the message, drafted.
        "draft" => {
            generation.piece(rest);
            generation.draft = Some(DRAFTED);
            generation.finish(FinishReason::Stop);
        }
        // The request itself, for the test to inspect.
        "show" => {
            generation.piece(&serde_json::to_string(request).expect("a request"));
            generation.finish(FinishReason::Stop);
        }
        _ => {
            for word in rest.split_inclusive(' ') {
                generation.piece(word);
            }
            generation.finish(FinishReason::Stop);
        }
    }
}

impl Generation {
    fn new(id: RequestId) -> Self {
        Self {
            id,
            tokens: 0,
            draft: None,
        }
    }

    fn start(&self, order: &str) {
        let left_out = (order == "long").then_some(LeftOut {
            messages: 2,
            tokens: 300,
        });
        say(
            self.id,
            Event::Started {
                prompt_tokens: 10,
                cached_tokens: 4,
                left_out,
            },
        );
        say(self.id, Event::Prefill { done: 10, total: 10 });
    }

    fn piece(&mut self, text: &str) {
        self.say(TextKind::Text, text);
    }

    fn thought(&mut self, text: &str) {
        self.say(TextKind::Thinking, text);
    }

    fn say(&mut self, kind: TextKind, text: &str) {
        self.tokens += 1;
        say(
            self.id,
            Event::Text {
                kind,
                text: text.to_owned(),
                tokens: self.tokens,
            },
        );
    }

    /// Half an answer, then a failure.
    fn fail(mut self, order: &str) {
        self.piece("Half an ");
        match order {
            "die" => {
                self.piece("answer");
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
                say(self.id + 1000, Event::Done);
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

    /// Pieces until it is cancelled.
    fn repeat(mut self, text: &str, controls: &Receiver<Control>) {
        loop {
            self.piece(text);
            if is_cancelled(controls) {
                return self.finish(FinishReason::Cancelled);
            }
        }
    }

    fn finish(self, reason: FinishReason) {
        let summary = Summary {
            reason,
            prompt_tokens: 10,
            tokens: self.tokens,
            ids: vec![1; self.tokens as usize],
            prompt_tokens_per_second: 100.0,
            tokens_per_second: 50.0,
            first_token_seconds: 0.1,
            context_used: 10 + self.tokens,
            context: 8192,
            draft: self.draft,
        };
        say(self.id, Event::Finished(summary));
    }
}

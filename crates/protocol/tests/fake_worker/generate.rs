//! Generations, controlled by the first word of the last message: the order.

use super::{PAUSE, cancelled, say, wait_for_kill};
use hearth_protocol::{
    Event, FinishReason, GenerateRequest, GenerationId, LeftOut, Problem, ProblemCode, Prompt, Request, Summary,
};
use std::{
    process::{abort, exit},
    sync::mpsc::Receiver,
    thread,
};

/// A generation in progress.
struct Generation {
    id: GenerationId,
    tokens: u32,
}

/// Generates an answer. An unknown order is answered with the rest of the message.
pub fn generate(request: &GenerateRequest, requests: &Receiver<Request>) {
    let Prompt::Chat(messages) = &request.prompt else {
        panic!("only chats here")
    };
    let last = messages.last().map_or("", |message| message.content.as_str());
    let (order, rest) = last.split_once(' ').unwrap_or((last, ""));
    let mut generation = Generation {
        id: request.id,
        tokens: 0,
    };
    generation.start(order);
    match order {
        "die" | "starve" | "babble" | "fail" => generation.fail(order),
        "slow" => generation.repeat("word ", requests),
        "flood" => generation.repeat(&"word ".repeat(400), requests),
        "deaf" => loop {
            generation.piece("word ");
            thread::sleep(PAUSE);
        },
        "cut" => {
            generation.piece("Half an answer");
            generation.finish(FinishReason::Length);
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
    fn start(&self, order: &str) {
        let left_out = (order == "long").then_some(LeftOut {
            messages: 2,
            tokens: 300,
        });
        say(&Event::Started {
            id: self.id,
            prompt_tokens: 10,
            cached_tokens: 4,
            left_out,
        });
        say(&Event::Prefill {
            id: self.id,
            done: 10,
            total: 10,
        });
    }

    fn piece(&mut self, text: &str) {
        self.tokens += 1;
        say(&Event::Text {
            id: self.id,
            text: text.to_owned(),
            tokens: self.tokens,
        });
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
            _ => say(&Event::GenerationFailed {
                id: self.id,
                problem: Problem {
                    code: ProblemCode::Template,
                    message: "The model's chat template failed.".to_owned(),
                },
            }),
        }
    }

    /// Pieces until it is cancelled.
    fn repeat(mut self, text: &str, requests: &Receiver<Request>) {
        loop {
            self.piece(text);
            if cancelled(self.id, requests) {
                return self.finish(FinishReason::Cancelled);
            }
        }
    }

    fn finish(self, reason: FinishReason) {
        say(&Event::Finished {
            id: self.id,
            summary: Summary {
                reason,
                prompt_tokens: 10,
                tokens: self.tokens,
                ids: vec![1; self.tokens as usize],
                prompt_tokens_per_second: 100.0,
                tokens_per_second: 50.0,
                first_token_seconds: 0.1,
                context_used: 10 + self.tokens,
                context: 8192,
            },
        });
    }
}

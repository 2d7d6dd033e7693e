//! `hearth run`: one prompt, one answer.

use super::print_json;
use crate::args::{Run, Sampling as SamplingArgs};
use crate::failure::Failure;
use crate::model::{Chosen, load};
use hearth_protocol::{Event, FinishReason, GenerateRequest, Message, Prompt, Role, Sampling, Summary};
use serde::Serialize;
use std::io::Write;
use std::time::Instant;

/// What scripts read.
#[derive(Debug, Serialize)]
struct Report {
    text: String,
    ids: Vec<u32>,
    tokens: u32,
    prompt_tokens: u32,
    finish_reason: FinishReason,
    prompt_tok_s: f64,
    tok_s: f64,
}

impl Report {
    fn new(text: String, summary: Summary) -> Self {
        Self {
            text,
            tokens: summary.tokens,
            prompt_tokens: summary.prompt_tokens,
            finish_reason: summary.reason,
            prompt_tok_s: summary.prompt_tokens_per_second,
            tok_s: summary.tokens_per_second,
            ids: summary.ids,
        }
    }
}

/// Answers the prompt on standard output.
pub fn run(args: &Run) -> Result<(), Failure> {
    let chosen = Chosen::find(&args.load.model)?;
    let mut engine = load(&chosen, &args.load.how, args.context.ctx)?;
    let request = GenerateRequest {
        id: 1,
        prompt: prompt(args, &chosen),
        sampling: sampling(&args.sampling, &chosen.sampling),
        max_tokens: args.tokens,
        stop: Vec::new(),
    };
    let mut out = std::io::stdout().lock();
    let (mut text, mut written) = (String::new(), Ok(()));
    let summary = engine.generate(&request, Instant::now(), &|| false, &mut |event| {
        if let Event::Text { text: piece, .. } = event {
            if written.is_ok() {
                written = write!(out, "{piece}").and_then(|()| out.flush());
            }
            text.push_str(&piece);
        }
    })?;
    written?;
    writeln!(out)?;
    drop(out);
    if args.output.json {
        print_json(&Report::new(text, summary))
    } else {
        Ok(())
    }
}

fn prompt(args: &Run, chosen: &Chosen) -> Prompt {
    if args.raw {
        return Prompt::Raw(args.prompt.clone());
    }
    let system = args
        .system
        .as_ref()
        .or(chosen.system_prompt.as_ref())
        .filter(|text| !text.is_empty());
    let system = system.map(|text| Message {
        role: Role::System,
        content: text.clone(),
    });
    let user = Message {
        role: Role::User,
        content: args.prompt.clone(),
    };
    Prompt::Chat(system.into_iter().chain([user]).collect())
}

/// What was asked for, and the model's own settings for the rest.
pub fn sampling(asked: &SamplingArgs, own: &Sampling) -> Sampling {
    Sampling {
        temperature: asked.temp.unwrap_or(own.temperature),
        top_k: asked.top_k.unwrap_or(own.top_k),
        top_p: asked.top_p.unwrap_or(own.top_p),
        min_p: asked.min_p.unwrap_or(own.min_p),
        seed: asked.seed.or(own.seed),
        ..own.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_the_fields_that_scripts_read() {
        let summary = Summary {
            reason: FinishReason::ContextFull,
            prompt_tokens: 3,
            tokens: 1,
            ids: vec![7],
            prompt_tokens_per_second: 1.5,
            tokens_per_second: 2.5,
            first_token_seconds: 0.1,
            context_used: 4,
            context: 8,
        };
        let expected = serde_json::json!({
            "text": "hi", "ids": [7], "tokens": 1, "prompt_tokens": 3, "finish_reason": "context_full",
            "prompt_tok_s": 1.5, "tok_s": 2.5,
        });
        assert_eq!(
            serde_json::to_value(Report::new("hi".into(), summary)).unwrap(),
            expected
        );
    }
}

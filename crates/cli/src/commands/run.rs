//! `hearth run`: answer one prompt.

use super::print_json;
use crate::args::{Run, SamplingArgs};
use crate::draft_report::DraftReport;
use crate::failure::Failure;
use crate::model::{Chosen, draft, load, set_adapters};
use crate::shown::Shown;
use hearth_protocol::{
    DraftChoice, Event, FinishReason, GenerateRequest, Message, Part, Prompt, Role, SamplingParams, Summary, text_of,
    thinking_of,
};
use serde::Serialize;
use std::io::Write;
use std::time::Instant;

/// The JSON output.
#[derive(Debug, Serialize)]
struct Report {
    text: String,
    /// Left out if the model did not think.
    #[serde(skip_serializing_if = "String::is_empty")]
    thinking: String,
    ids: Vec<u32>,
    tokens: u32,
    prompt_tokens: u32,
    finish_reason: FinishReason,
    prompt_tok_s: f64,
    tok_s: f64,
    /// Left out in plain decoding.
    #[serde(flatten)]
    draft: Option<DraftReport>,
}

impl Report {
    fn new(parts: &[Part], summary: Summary) -> Self {
        Self {
            text: text_of(parts),
            thinking: thinking_of(parts),
            tokens: summary.tokens,
            prompt_tokens: summary.prompt_tokens,
            finish_reason: summary.reason,
            prompt_tok_s: summary.prompt_tokens_per_second,
            tok_s: summary.tokens_per_second,
            draft: summary.draft.map(DraftReport::from),
            ids: summary.ids,
        }
    }
}

/// Stream the answer to standard output.
pub fn run(args: &Run) -> Result<(), Failure> {
    let chosen = Chosen::find(&args.load.model)?;
    let mut engine = load(
        &chosen,
        &args.load.options,
        args.context.ctx,
        draft(&args.draft, DraftChoice::Auto)?,
    )?;
    set_adapters(&mut engine, &args.adapters)?;
    let request = GenerateRequest {
        prompt: prompt(args, &chosen),
        sampling: sampling(&args.sampling, &chosen.sampling),
        max_tokens: args.tokens,
        stop: Vec::new(),
        ignore_end: false,
        adapters: args.adapters.adapters.clone(),
        conversation: None,
    };
    let mut out = std::io::stdout().lock();
    let (mut shown, mut written) = (Shown::new(&out), Ok(()));
    let summary = engine.generate(&request, Instant::now(), &|| false, &mut |event| {
        if let Event::Text { kind, text, .. } = event {
            let piece = shown.add(kind, &text);
            if written.is_ok() {
                written = write!(out, "{piece}").and_then(|()| out.flush());
            }
        }
    })?;
    written?;
    writeln!(out, "{}", shown.end())?;
    drop(out);
    if args.output.json {
        print_json(&Report::new(&shown.parts, summary))
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
    let system = system.map(|text| Message::of_text(Role::System, text));
    let user = Message::of_text(Role::User, &args.prompt);
    Prompt::Chat(system.into_iter().chain([user]).collect())
}

/// The requested sampling parameters, with the model's own as defaults.
///
/// With --temp 0 the model's penalties are dropped, since they would change the argmax.
pub fn sampling(args: &SamplingArgs, own: &SamplingParams) -> SamplingParams {
    let mut sampling = SamplingParams {
        temperature: args.temp.unwrap_or(own.temperature),
        top_k: args.top_k.unwrap_or(own.top_k),
        top_p: args.top_p.unwrap_or(own.top_p),
        min_p: args.min_p.unwrap_or(own.min_p),
        seed: args.seed.or(own.seed),
        ..own.clone()
    };
    if args.temp == Some(0.0) {
        sampling.repetition_penalty = 1.0;
        sampling.frequency_penalty = 0.0;
        sampling.presence_penalty = 0.0;
    }
    sampling
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_protocol::{DraftKind, DraftStats};

    #[test]
    fn requested_settings_override_the_models_own() {
        let own = SamplingParams {
            temperature: 0.2,
            top_p: 0.9,
            repetition_penalty: 1.1,
            ..SamplingParams::default()
        };
        let nothing = SamplingArgs {
            temp: None,
            top_k: None,
            top_p: None,
            min_p: None,
            seed: None,
        };
        assert_eq!(sampling(&nothing, &own), own);
        let args = SamplingArgs {
            temp: Some(0.7),
            top_k: Some(5),
            seed: Some(3),
            ..nothing
        };
        let expected = SamplingParams {
            temperature: 0.7,
            top_k: 5,
            seed: Some(3),
            ..own.clone()
        };
        assert_eq!(sampling(&args, &own), expected);
        let greedy = SamplingArgs {
            temp: Some(0.0),
            top_k: None,
            seed: None,
            ..args
        };
        let expected = SamplingParams {
            temperature: 0.0,
            repetition_penalty: 1.0,
            ..own.clone()
        };
        assert_eq!(sampling(&greedy, &own), expected);
    }

    #[test]
    fn the_json_has_the_documented_fields() {
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
            draft: Some(DraftStats {
                kind: DraftKind::Ngram,
                drafted: 4,
                accepted: 3,
                gain: 1.25,
                used: 0.5,
                stopped: false,
            }),
        };
        let expected = serde_json::json!({
            "text": "hi", "ids": [7], "tokens": 1, "prompt_tokens": 3, "finish_reason": "context_full",
            "prompt_tok_s": 1.5, "tok_s": 2.5, "drafted": 4, "accepted": 3, "draft_gain": 1.25,
            "draft_used": 0.5, "draft_stopped": false,
        });
        assert_eq!(
            serde_json::to_value(Report::new(&[Part::Text { text: "hi".into() }], summary)).unwrap(),
            expected
        );
    }
}

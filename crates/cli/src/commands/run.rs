//! `hearth run`: answers one prompt.

use super::print_json;
use crate::args::{Run, SamplingArgs};
use crate::display::AnswerDisplay;
use crate::draft_report::DraftReport;
use crate::failure::Failure;
use crate::json_schema::schema;
use crate::model::{ChosenModel, draft, load, set_adapters};
use crate::terminal::stdout;
use hearth_protocol::{
    DraftChoice, FinishReason, GenerateRequest, Message, Part, Prompt, Role, SamplingParams, Summary, text_of,
    thinking_of,
};
use serde::Serialize;
use std::io::Write;
use std::time::Instant;

/// The JSON output.
#[derive(Debug, Serialize)]
struct Report {
    text: String,
    /// Omitted if the model did not think.
    #[serde(skip_serializing_if = "String::is_empty")]
    thinking: String,
    ids: Vec<u32>,
    tokens: u32,
    prompt_tokens: u32,
    finish_reason: FinishReason,
    prompt_tok_s: f64,
    tok_s: f64,
    /// Omitted in decoding without a draft.
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
            finish_reason: summary.finish_reason,
            prompt_tok_s: summary.prompt_tokens_per_second,
            tok_s: summary.tokens_per_second,
            draft: summary.draft.map(DraftReport::from),
            ids: summary.ids,
        }
    }
}

/// Streams the answer to standard output.
pub fn run(args: &Run) -> Result<(), Failure> {
    let model = ChosenModel::find(&args.load.model)?;
    let mut engine = load(
        &model,
        &args.load.options,
        args.context.ctx,
        draft(&args.draft, DraftChoice::Auto)?,
    )?;
    set_adapters(&mut engine, &args.adapters)?;
    let request = GenerateRequest {
        sampling: sampling(&args.sampling, &model.sampling),
        max_tokens: args.tokens,
        adapters: args.adapters.adapters.clone(),
        json_schema: schema(&args.schema)?,
        ..GenerateRequest::new(prompt(args, &model))
    };
    let mut out = stdout();
    let mut display = AnswerDisplay::new(&mut out);
    let summary = engine.generate(&request, Instant::now(), &|| false, &mut |event| display.apply(&event))?;
    display.end()?;
    let parts = display.parts;
    writeln!(out)?;
    drop(out);
    if args.output.json {
        print_json(&Report::new(&parts, summary))
    } else {
        Ok(())
    }
}

/// The prompt: a chat with an optional system prompt, or the raw text.
fn prompt(args: &Run, model: &ChosenModel) -> Prompt {
    if args.raw {
        return Prompt::Raw(args.prompt.clone());
    }
    let system = args
        .system
        .as_ref()
        .or(model.system_prompt.as_ref())
        .filter(|text| !text.is_empty());
    let system = system.map(|text| Message::of_text(Role::System, text));
    let user = Message::of_text(Role::User, &args.prompt);
    Prompt::Chat(system.into_iter().chain([user]).collect())
}

/// The requested sampling parameters, with the model's parameters as defaults.
///
/// With --temp 0 the model's penalties are disabled, since they would change the argmax.
pub fn sampling(args: &SamplingArgs, defaults: &SamplingParams) -> SamplingParams {
    let SamplingArgs { penalties, more, .. } = args;
    let mut defaults = defaults.clone();
    if args.temp == Some(0.0) {
        defaults.repetition_penalty = 1.0;
        defaults.frequency_penalty = 0.0;
        defaults.presence_penalty = 0.0;
        defaults.dry_multiplier = 0.0;
    }
    SamplingParams {
        temperature: args.temp.unwrap_or(defaults.temperature),
        top_k: args.top_k.unwrap_or(defaults.top_k),
        top_p: args.top_p.unwrap_or(defaults.top_p),
        min_p: args.min_p.unwrap_or(defaults.min_p),
        repetition_penalty: penalties.repeat_penalty.unwrap_or(defaults.repetition_penalty),
        frequency_penalty: penalties.frequency_penalty.unwrap_or(defaults.frequency_penalty),
        presence_penalty: penalties.presence_penalty.unwrap_or(defaults.presence_penalty),
        repeat_last_n: penalties.repeat_last_n.unwrap_or(defaults.repeat_last_n),
        typical_p: more.typical.unwrap_or(defaults.typical_p),
        top_n_sigma: more.top_nsigma.unwrap_or(defaults.top_n_sigma),
        xtc_probability: more.xtc_probability.unwrap_or(defaults.xtc_probability),
        xtc_threshold: more.xtc_threshold.unwrap_or(defaults.xtc_threshold),
        dry_multiplier: penalties.dry_multiplier.unwrap_or(defaults.dry_multiplier),
        dry_base: penalties.dry_base.unwrap_or(defaults.dry_base),
        dry_allowed_length: penalties.dry_allowed_length.unwrap_or(defaults.dry_allowed_length),
        dry_last_n: penalties.dry_penalty_last_n.unwrap_or(defaults.dry_last_n),
        dry_breakers: breakers(&penalties.dry_sequence_breaker).unwrap_or(defaults.dry_breakers),
        mirostat: more.mirostat.unwrap_or(defaults.mirostat),
        mirostat_tau: more.mirostat_ent.unwrap_or(defaults.mirostat_tau),
        mirostat_eta: more.mirostat_lr.unwrap_or(defaults.mirostat_eta),
        dynatemp_range: more.dynatemp_range.unwrap_or(defaults.dynatemp_range),
        dynatemp_exponent: more.dynatemp_exp.unwrap_or(defaults.dynatemp_exponent),
        logit_bias: defaults
            .logit_bias
            .into_iter()
            .chain(more.logit_bias.iter().cloned())
            .collect(),
        banned_strings: defaults
            .banned_strings
            .into_iter()
            .chain(more.ban.iter().cloned())
            .collect(),
        seed: args.seed.or(defaults.seed),
    }
}

/// The requested sequence breakers of DRY; `None` without a request.
fn breakers(requested: &[String]) -> Option<Vec<String>> {
    let texts = requested.iter().filter(|text| *text != "none");
    (!requested.is_empty()).then(|| texts.map(|text| unescaped(text)).collect())
}

/// The text with `\n`, `\t` and `\\` replaced by their characters.
fn unescaped(text: &str) -> String {
    let mut unescaped = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let escaped = match (character, characters.as_str().chars().next()) {
            ('\\', Some('n')) => '\n',
            ('\\', Some('t')) => '\t',
            ('\\', Some('\\')) => '\\',
            _ => {
                unescaped.push(character);
                continue;
            }
        };
        unescaped.push(escaped);
        characters.next();
    }
    unescaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{MoreSamplingArgs, PenaltyArgs};
    use hearth_protocol::{DraftKind, DraftStats, LogitBias};

    #[test]
    fn requested_settings_override_the_models_own() {
        let defaults = SamplingParams {
            temperature: 0.2,
            top_p: 0.9,
            repetition_penalty: 1.1,
            ..SamplingParams::default()
        };
        let empty = SamplingArgs::default();
        assert_eq!(sampling(&empty, &defaults), defaults);
        let args = SamplingArgs {
            temp: Some(0.7),
            top_k: Some(5),
            seed: Some(3),
            ..empty
        };
        let expected = SamplingParams {
            temperature: 0.7,
            top_k: 5,
            seed: Some(3),
            ..defaults.clone()
        };
        assert_eq!(sampling(&args, &defaults), expected);
        let greedy = SamplingArgs {
            temp: Some(0.0),
            top_k: None,
            seed: None,
            ..args
        };
        let expected = SamplingParams {
            temperature: 0.0,
            repetition_penalty: 1.0,
            ..defaults.clone()
        };
        assert_eq!(sampling(&greedy, &defaults), expected);
    }

    #[test]
    fn every_parameter_can_be_requested() {
        let args = SamplingArgs {
            penalties: PenaltyArgs {
                repeat_penalty: Some(1.2),
                repeat_last_n: Some(7),
                presence_penalty: Some(0.1),
                frequency_penalty: Some(0.2),
                dry_multiplier: Some(0.8),
                dry_base: Some(2.0),
                dry_allowed_length: Some(3),
                dry_penalty_last_n: Some(99),
                dry_sequence_breaker: vec!["\\n".to_owned(), "a\\\\t".to_owned()],
            },
            more: MoreSamplingArgs {
                typical: Some(0.3),
                top_nsigma: Some(1.5),
                xtc_probability: Some(0.4),
                xtc_threshold: Some(0.2),
                mirostat: Some(true),
                mirostat_lr: Some(0.6),
                mirostat_ent: Some(4.0),
                dynatemp_range: Some(0.7),
                dynatemp_exp: Some(0.9),
                logit_bias: vec![LogitBias::Id { id: 5, bias: None }],
                ban: vec!["never".to_owned()],
            },
            ..SamplingArgs::default()
        };
        let defaults = SamplingParams {
            banned_strings: vec!["ever".to_owned()],
            ..SamplingParams::default()
        };
        let expected = SamplingParams {
            repetition_penalty: 1.2,
            repeat_last_n: 7,
            presence_penalty: 0.1,
            frequency_penalty: 0.2,
            dry_multiplier: 0.8,
            dry_base: 2.0,
            dry_allowed_length: 3,
            dry_last_n: 99,
            dry_breakers: vec!["\n".to_owned(), "a\\t".to_owned()],
            typical_p: 0.3,
            top_n_sigma: 1.5,
            xtc_probability: 0.4,
            xtc_threshold: 0.2,
            mirostat: true,
            mirostat_eta: 0.6,
            mirostat_tau: 4.0,
            dynatemp_range: 0.7,
            dynatemp_exponent: 0.9,
            logit_bias: vec![LogitBias::Id { id: 5, bias: None }],
            banned_strings: vec!["ever".to_owned(), "never".to_owned()],
            ..defaults.clone()
        };
        assert_eq!(sampling(&args, &defaults), expected);
        assert_eq!(breakers(&["none".to_owned()]), Some(Vec::new()));
        assert_eq!(breakers(&[]), None);
    }

    #[test]
    fn the_json_has_the_documented_fields() {
        let summary = Summary {
            finish_reason: FinishReason::ContextFull,
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

//! `hearth bench`: measures the prefill and decode speed.

use super::{peak_rss_mb, print_json};
use crate::args::{Adapters, Bench};
use crate::draft_report::{self, DraftReport};
use crate::failure::Failure;
use crate::model::{ChosenModel, draft, load, set_adapters};
use crate::terminal::stdout;
use hearth_engine::Engine;
use hearth_llm::{SessionError, greedy};
use hearth_protocol::{DraftChoice, GenerateRequest, Prompt, SamplingParams, Summary};
use serde::Serialize;
use std::io::Write;
use std::ops::ControlFlow;
use std::time::Instant;

/// The JSON output.
#[derive(Debug, Serialize)]
struct Report {
    prompt_tok_s: Option<f64>,
    gen_tok_s: Option<f64>,
    load_s: f64,
    peak_rss_mb: Option<f64>,
    device: String,
    /// Omitted in decoding without a draft.
    #[serde(flatten)]
    draft: Option<DraftReport>,
}

/// Runs a warm-up and the benchmark, and prints the medians.
pub fn run(args: &Bench) -> Result<(), Failure> {
    let min_context = args.prompt.max(args.depth.saturating_add(args.tokens)).max(1);
    if args.context.ctx.is_some_and(|context| context < min_context) {
        return Err(Failure::Usage(format!(
            "--ctx must be at least {min_context} to hold the measured tokens"
        )));
    }
    let context = args.context.ctx.unwrap_or(min_context);
    let model = ChosenModel::find(&args.load.model)?;
    let draft = draft(&args.draft, DraftChoice::None)?;
    let is_plain = draft.choice == DraftChoice::None;
    let mut engine = load(&model, &args.load.options, Some(context), draft)?;
    set_adapters(&mut engine, &args.adapters)?;
    let mut random = RandomTokens {
        state: 1,
        vocab: engine.model().config().vocab as u64,
    };

    let (mut prefill_speeds, mut decode_speeds, mut stats) = (Vec::new(), Vec::new(), None);
    // All runs decode after the same tokens. Without measured prefills they stay in the KV cache.
    let prefix = random.fresh(args.depth.max(1), &mut engine);
    for run in 0..=args.runs {
        let prefill_speed = prefill(&mut engine, args.prompt, &mut random).map_err(Failure::new)?;
        let decode_speed = if is_plain {
            decode(&mut engine, &prefix, args.depth > 0, args.tokens).map_err(Failure::new)?
        } else {
            let summary = decode_with_draft(&mut engine, &prefix, args.tokens, &args.adapters)?;
            stats = summary.draft;
            summary.tokens_per_second
        };
        if run > 0 {
            prefill_speeds.push(prefill_speed);
            decode_speeds.push(decode_speed);
        }
    }
    let info = engine.info();
    let report = Report {
        prompt_tok_s: (args.prompt > 0).then(|| median(prefill_speeds)),
        gen_tok_s: (args.tokens > 0).then(|| median(decode_speeds)),
        load_s: info.load_seconds,
        peak_rss_mb: peak_rss_mb(),
        device: info.device.clone(),
        draft: stats.map(DraftReport::from),
    };
    if args.output.json {
        return print_json(&report);
    }
    let mut out = stdout();
    writeln!(
        out,
        "{} ({}), {} threads on {}",
        model.name, info.quantization, info.threads, info.device
    )?;
    if let Some(speed) = report.prompt_tok_s {
        writeln!(out, "prefill {:>5} tokens  {speed:8.1} tokens/s", args.prompt)?;
    }
    if let Some(speed) = report.gen_tok_s {
        writeln!(out, "decode  {:>5} tokens  {speed:8.1} tokens/s", args.tokens)?;
    }
    if let Some(sentence) = stats.and_then(draft_report::sentence) {
        writeln!(out, "{sentence}")?;
    }
    writeln!(out, "load time             {:8.2} s", report.load_s)?;
    if let Some(peak) = report.peak_rss_mb {
        writeln!(out, "peak memory           {peak:8.0} MiB")?;
    }
    Ok(())
}

/// Prefills an empty context with `count` random tokens. Returns tokens/s.
fn prefill(engine: &mut Engine, count: u32, random: &mut RandomTokens) -> Result<f64, SessionError> {
    let ids = random.fresh(count, engine);
    let start = Instant::now();
    if count > 0 {
        engine
            .session_mut()
            .prefill(&ids, &mut |_, _| ControlFlow::Continue(()))?;
    }
    Ok(f64::from(count) / start.elapsed().as_secs_f64())
}

/// Decodes `count` tokens after the tokens in `prefix`. Returns tokens/s. With `has_depth` the
/// prefill of `prefix` is not measured. Otherwise it is the first measured step, since it resets
/// the context.
fn decode(engine: &mut Engine, prefix: &[u32], has_depth: bool, count: u32) -> Result<f64, SessionError> {
    let session = engine.session_mut();
    let mut start = Instant::now();
    session.prefill(prefix, &mut |_, _| ControlFlow::Continue(()))?;
    if has_depth {
        start = Instant::now();
    }
    for _ in u32::from(!has_depth)..count {
        let token = greedy(session.logits()).unwrap_or_default();
        session.push(token)?;
    }
    Ok(f64::from(count) / start.elapsed().as_secs_f64())
}

/// Decodes `count` tokens after the tokens in `prefix` with the draft, as for an answer.
fn decode_with_draft(engine: &mut Engine, prefix: &[u32], count: u32, adapters: &Adapters) -> Result<Summary, Failure> {
    let request = GenerateRequest {
        sampling: SamplingParams {
            temperature: 0.0,
            ..SamplingParams::default()
        },
        max_tokens: Some(count),
        ignore_end: true,
        adapters: adapters.adapters.clone(),
        ..GenerateRequest::new(Prompt::Tokens(prefix.to_vec()))
    };
    Ok(engine.generate(&request, Instant::now(), &|| false, &mut |_| {})?)
}

/// Pseudorandom tokens from SplitMix64. Every measurement has the same tokens.
struct RandomTokens {
    state: u64,
    /// Number of tokens in the vocabulary.
    vocab: u64,
}

impl RandomTokens {
    fn next(&mut self) -> u32 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % self.vocab) as u32
    }

    /// `count` tokens. The first one differs from the first in the KV cache, so that no prefix is
    /// reused.
    fn fresh(&mut self, count: u32, engine: &mut Engine) -> Vec<u32> {
        let mut ids: Vec<u32> = (0..count).map(|_| self.next()).collect();
        if let Some(first) = ids.first_mut()
            && engine.session_mut().tokens().first() == Some(first)
        {
            *first = (*first + 1) % self.vocab as u32;
        }
        ids
    }
}

/// The median; 0 without values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        len if len % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let check = |values: &[f64], expected: f64| assert_eq!(median(values.to_vec()), expected);
        check(&[3.0, 1.0, 2.0], 2.0);
        check(&[4.0, 1.0], 2.5);
        check(&[], 0.0);
    }

    #[test]
    fn the_json_has_the_documented_fields() {
        let report = Report {
            prompt_tok_s: Some(2.0),
            gen_tok_s: None,
            load_s: 0.5,
            peak_rss_mb: Some(100.0),
            device: "cpu".into(),
            draft: None,
        };
        let expected = serde_json::json!({
            "prompt_tok_s": 2.0, "gen_tok_s": null, "load_s": 0.5, "peak_rss_mb": 100.0, "device": "cpu",
        });
        assert_eq!(serde_json::to_value(report).unwrap(), expected);
    }
}

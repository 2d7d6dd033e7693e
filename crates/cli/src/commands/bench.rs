//! `hearth bench`: measures prefill and decode speed.

use super::{peak_rss_mb, print_json};
use crate::args::{Adapters, Bench};
use crate::draft_report::{self, DraftReport};
use crate::failure::Failure;
use crate::model::{Chosen, draft, load, set_adapters};
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
    /// Left out in plain decoding.
    #[serde(flatten)]
    draft: Option<DraftReport>,
}

/// Runs the benchmark after one warm-up run.
pub fn run(args: &Bench) -> Result<(), Failure> {
    let needed = args.prompt.max(args.depth.saturating_add(args.tokens)).max(1);
    if args.context.ctx.is_some_and(|context| context < needed) {
        return Err(Failure::Usage(format!(
            "--ctx must be at least {needed} to hold the measured tokens"
        )));
    }
    let context = args.context.ctx.unwrap_or(needed);
    let chosen = Chosen::find(&args.load.model)?;
    let choice = draft(&args.draft, DraftChoice::None)?;
    let is_plain = choice.choice == DraftChoice::None;
    let mut engine = load(&chosen, &args.load.options, Some(context), choice)?;
    set_adapters(&mut engine, &args.adapters)?;
    let mut tokens = RandomTokens {
        state: 1,
        vocab: engine.model().config().vocab as u64,
    };

    let (mut prompt, mut generation, mut stats) = (Vec::new(), Vec::new(), None);
    // The same in every run, so that without prefill it is processed only once.
    let before = tokens.fresh(args.depth.max(1), &mut engine);
    for run in 0..=args.runs {
        let read = read(&mut engine, args.prompt, &mut tokens).map_err(Failure::new)?;
        let written = if is_plain {
            write(&mut engine, &before, args.depth > 0, args.tokens).map_err(Failure::new)?
        } else {
            let summary = write_with_draft(&mut engine, &before, args.tokens, &args.adapters)?;
            stats = summary.draft;
            summary.tokens_per_second
        };
        if run > 0 {
            prompt.push(read);
            generation.push(written);
        }
    }
    let info = engine.info();
    let report = Report {
        prompt_tok_s: (args.prompt > 0).then(|| median(prompt)),
        gen_tok_s: (args.tokens > 0).then(|| median(generation)),
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
        chosen.name, info.quantization, info.threads, info.device
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

/// Prefills an empty context with `n` random tokens. Returns tokens/s.
fn read(engine: &mut Engine, n: u32, tokens: &mut RandomTokens) -> Result<f64, SessionError> {
    let ids = tokens.fresh(n, engine);
    let began = Instant::now();
    if n > 0 {
        engine
            .session_mut()
            .prefill(&ids, &mut |_, _| ControlFlow::Continue(()))?;
    }
    Ok(f64::from(n) / began.elapsed().as_secs_f64())
}

/// Decodes `n` tokens after the tokens in `before`. Returns tokens/s. Without `depth`, the prefill
/// of `before` counts as the first step, since it resets the context.
fn write(engine: &mut Engine, before: &[u32], depth: bool, n: u32) -> Result<f64, SessionError> {
    let session = engine.session_mut();
    let mut began = Instant::now();
    session.prefill(before, &mut |_, _| ControlFlow::Continue(()))?;
    if depth {
        began = Instant::now();
    }
    for _ in u32::from(!depth)..n {
        let token = greedy(session.logits()).unwrap_or_default();
        session.push(token)?;
    }
    Ok(f64::from(n) / began.elapsed().as_secs_f64())
}

/// Decodes `n` tokens after the tokens in `before` with the draft, as for an answer.
fn write_with_draft(engine: &mut Engine, before: &[u32], n: u32, adapters: &Adapters) -> Result<Summary, Failure> {
    let request = GenerateRequest {
        sampling: SamplingParams {
            temperature: 0.0,
            ..SamplingParams::default()
        },
        max_tokens: Some(n),
        ignore_end: true,
        adapters: adapters.adapters.clone(),
        ..GenerateRequest::new(Prompt::Tokens(before.to_vec()))
    };
    Ok(engine.generate(&request, Instant::now(), &|| false, &mut |_| {})?)
}

/// Random tokens from SplitMix64, the same in every measurement.
struct RandomTokens {
    state: u64,
    vocab: u64,
}

impl RandomTokens {
    fn next(&mut self) -> u32 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % self.vocab) as u32
    }

    /// `n` tokens whose first differs from the first in the KV cache, so that no prefix is reused.
    fn fresh(&mut self, n: u32, engine: &mut Engine) -> Vec<u32> {
        let mut ids: Vec<u32> = (0..n).map(|_| self.next()).collect();
        if let Some(first) = ids.first_mut()
            && engine.session_mut().tokens().first() == Some(first)
        {
            *first = (*first + 1) % self.vocab as u32;
        }
        ids
    }
}

/// The median.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[middle],
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

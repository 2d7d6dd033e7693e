//! `hearth export`: exports an adapter for other programs.

use super::print_json;
use crate::args::{Export, ExportAs};
use crate::failure::Failure;
use crate::model::Chosen;
use crate::progress::Progress;
use crate::say;
use crate::terminal::stdout;
use hearth_engine::training::{self, RunFile};
use hearth_formats::byte_size;
use hearth_protocol::{ExportFormat, ExportRequest};
use serde::Serialize;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// The JSON output.
#[derive(Debug, Serialize)]
struct Report {
    path: PathBuf,
    bytes: u64,
    verified: Option<bool>,
    learned: Option<bool>,
    divergence: Option<f64>,
    taught: Option<f64>,
    same_text: Option<u32>,
    prompts: Option<u32>,
}

/// Exports the adapter. Fails if the requested verification fails.
pub fn run(args: &Export) -> Result<(), Failure> {
    let request = ExportRequest {
        model: base(args)?,
        adapter: args.adapter.clone(),
        format: match args.to {
            ExportAs::GgufLora => ExportFormat::GgufLora,
            ExportAs::Peft => ExportFormat::Peft,
            ExportAs::Gguf => ExportFormat::Gguf {
                kind: match args.kind.as_deref() {
                    Some("same") => None,
                    kind => Some(kind.unwrap_or("Q8_0").to_owned()),
                },
            },
        },
        out: args.out.clone(),
        verify: args.verify,
    };
    if args.kind.is_some() && args.to != ExportAs::Gguf {
        return Err(Failure::Usage("--type needs --to gguf.".to_owned()));
    }
    let mut progress = Progress::new();
    let exported = training::export(&request, &mut |fraction, stage| {
        progress.show(fraction, stage);
        ControlFlow::Continue(())
    })?;
    drop(progress);
    for notice in &exported.notices {
        say!("note: {notice}");
    }
    let verification = exported.verification;
    if let Some(verification) = &verification {
        say!("{}", verification.summary);
    }
    if args.output.json {
        let of = verification.as_ref();
        print_json(&Report {
            path: exported.path,
            bytes: exported.bytes,
            verified: of.map(|it| it.passed),
            learned: of.map(|it| it.learned),
            divergence: of.map(|it| it.divergence),
            taught: of.map(|it| it.taught),
            same_text: of.map(|it| it.same_text),
            prompts: of.map(|it| it.prompts),
        })?;
    } else {
        writeln!(stdout(), "{} ({})", exported.path.display(), byte_size(exported.bytes))?;
    }
    match verification {
        Some(verification) if !verification.passed => Err(Failure::new(verification.summary)),
        _ => Ok(()),
    }
}

/// The adapter's base model: from the command line, or from its run.
fn base(args: &Export) -> Result<PathBuf, Failure> {
    if let Some(model) = &args.model {
        return Ok(Chosen::find(model)?.path);
    }
    RunFile::of_adapter(&args.adapter).map(|run| run.model).ok_or_else(|| {
        Failure::new(format!(
            "{} is not a run's folder, so its base model is unknown. Name it with --model.",
            args.adapter.display()
        ))
    })
}

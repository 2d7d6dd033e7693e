//! `hearth export`: exports an adapter for other programs, or merges it into its model.

use super::print_json;
use crate::args::{Export, ExportAs};
use crate::failure::Failure;
use crate::model::ChosenModel;
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

/// Exports the adapter and prints the path.
///
/// # Errors
/// The export or the requested verification failed.
pub fn run(args: &Export) -> Result<(), Failure> {
    let request = ExportRequest {
        model: base_model(args)?,
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
        name: None,
        verify: args.verify,
    };
    if args.kind.is_some() && args.to != ExportAs::Gguf {
        return Err(Failure::Usage("--type needs --to gguf.".to_owned()));
    }
    let mut progress = Progress::new();
    let export = training::export(&request, &mut |fraction, stage| {
        progress.show(fraction, stage);
        ControlFlow::Continue(())
    })?;
    drop(progress);
    for notice in &export.notices {
        say!("note: {notice}");
    }
    let verification = export.verification;
    if let Some(verification) = &verification {
        say!("{}", verification.result);
    }
    if args.output.json {
        let verification = verification.as_ref();
        print_json(&Report {
            path: export.path,
            bytes: export.bytes,
            verified: verification.map(|result| result.passed),
            learned: verification.map(|result| result.learned),
            divergence: verification.map(|result| result.divergence),
            taught: verification.map(|result| result.taught),
            same_text: verification.map(|result| result.same_text),
            prompts: verification.map(|result| result.prompts),
        })?;
    } else {
        writeln!(stdout(), "{} ({})", export.path.display(), byte_size(export.bytes))?;
    }
    match verification {
        Some(verification) if !verification.passed => Err(Failure::new(verification.result)),
        _ => Ok(()),
    }
}

/// Path of the adapter's base model, from the command line or else from the adapter's run.
fn base_model(args: &Export) -> Result<PathBuf, Failure> {
    if let Some(model) = &args.model {
        return Ok(ChosenModel::find(model)?.path);
    }
    RunFile::from_adapter_path(&args.adapter)
        .map(|run| run.model)
        .ok_or_else(|| {
            Failure::new(format!(
                "{} is not a run's folder, so its base model is unknown. Name it with --model.",
                args.adapter.display()
            ))
        })
}

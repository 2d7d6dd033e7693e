//! Adapters for other programs, and the proof that what was written is what was trained.

use super::data::Reader;
use super::folder::{RunFolder, open_adapter};
use crate::problem::{disk, from_adapter, from_gguf, from_load, from_merge, from_session, interrupted, problem};
use crate::turns::count;
use hearth_formats::adapter::{AdapterFile, BaseShape, modelfile, write_whole};
use hearth_formats::gguf::Gguf;
use hearth_formats::tokenizer::{Special, Tokenizer};
use hearth_llm::ops::Product;
use hearth_llm::{LoadOptions, LoraPart, Model, Session, greedy};
use hearth_protocol::{ExportFormat, ExportRequest, Problem, ProblemCode, Verification};
use hearth_train::{Mix, merge};
use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Tokens that each prompt is answered with.
const ANSWER: usize = 24;
/// How much logits may differ: an adapter that was only written anew hardly, weights that were rounded again a little, weights that
/// were rounded to few bits more.
const SAME: f64 = 0.9999;
const ROUNDED: f64 = 0.995;
const COARSE: f64 = 0.97;

/// Prompts for adapters of which nothing else is known.
const PROMPTS: [&str; 4] = [
    "The capital of France is",
    "To bake a loaf of bread, first",
    "Dear Sir or Madam, I am writing to",
    "In winter many birds",
];

/// What was written.
pub struct Exported {
    /// The file or folder.
    pub path: PathBuf,
    /// Bytes of it.
    pub bytes: u64,
    /// How reloading it went, if that was asked for.
    pub verification: Option<Verification>,
}

/// Writes an adapter for other programs, with a Modelfile beside a GGUF, and checks it if asked to. `progress` gets the share done and
/// a few words on what is being done; when it breaks, nothing is written.
///
/// # Errors
/// The model or the adapter cannot be read, they do not belong together, or the place cannot be written to.
pub fn export(
    request: &ExportRequest,
    progress: &mut dyn FnMut(f32, &str) -> ControlFlow<()>,
) -> Result<Exported, Problem> {
    let mut step = |fraction: f32, stage: &str| match progress(fraction, stage) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(interrupted()),
    };
    step(0.0, "opening the model")?;
    let reader = Reader::open(&request.model)?;
    let base = BaseShape::from_gguf(&reader.gguf).map_err(from_adapter)?;
    let (adapter, _) = open_adapter(&request.adapter, &reader.gguf)?;
    let title = title(&request.adapter);
    if let Some(parent) = request.out.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(|error| disk(parent, &error))?;
    }
    step(0.05, "writing")?;
    match &request.format {
        ExportFormat::Peft => adapter.write_peft(&request.out, &base).map_err(from_adapter)?,
        ExportFormat::GgufLora => adapter.write_gguf(&request.out).map_err(from_adapter)?,
        ExportFormat::Gguf { kind } => {
            let mix = mix(kind.as_deref())?;
            merge(
                &reader.gguf,
                &adapter,
                mix,
                &title,
                &request.out,
                &mut |fraction| match step(0.05 + 0.75 * fraction, "merging") {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                },
            )
            .map_err(from_merge)?;
        }
    }
    write_modelfile(request, &reader)?;
    let verification = match request.verify {
        true => {
            step(0.85, "reading it again")?;
            Some(verify(request, &reader, &adapter)?)
        }
        false => None,
    };
    Ok(Exported {
        path: request.out.clone(),
        bytes: size(&request.out).map_err(|error| disk(&request.out, &error))?,
        verification,
    })
}

fn mix(kind: Option<&str>) -> Result<Mix, Problem> {
    let Some(name) = kind else { return Ok(Mix::Same) };
    Mix::from_name(name).ok_or_else(|| {
        let message = format!("There is no type '{name}'. Choose one such as F16, Q8_0, Q6_K, Q5_K_M, Q4_K_M or Q4_0.");
        problem(ProblemCode::BadRequest, message)
    })
}

/// What was taught, as far as the folder's name tells.
fn title(adapter: &Path) -> String {
    let adapter = match adapter.file_name() {
        Some(name) if name == "adapter" => adapter.parent().unwrap_or(adapter),
        _ => adapter,
    };
    adapter
        .file_stem()
        .map_or_else(|| "tuned".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// A Modelfile beside a GGUF, so that Ollama takes it as it is.
fn write_modelfile(request: &ExportRequest, reader: &Reader) -> Result<(), Problem> {
    let name = |path: &Path| path.file_name().map(PathBuf::from).unwrap_or_default();
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (base, adapter) = match request.format {
        ExportFormat::Peft => return Ok(()),
        ExportFormat::GgufLora => (absolute(&request.model), Some(name(&request.out))),
        ExportFormat::Gguf { .. } => (name(&request.out), None),
    };
    let template = reader.template.notice().is_none().then_some(&reader.template);
    let text = modelfile(&base, adapter.as_deref(), template, &[]);
    let path = request.out.with_extension("Modelfile");
    write_whole(&path, |file| file.write_all(text.as_bytes())).map_err(|error| disk(&path, &error))
}

/// Reloads what was written and replays prompts through both.
fn verify(request: &ExportRequest, reader: &Reader, adapter: &AdapterFile) -> Result<Verification, Problem> {
    let load = |gguf: &Gguf| {
        let going = &mut |_: f32, _: &str| ControlFlow::Continue(());
        Model::load(gguf, &LoadOptions::default(), going).map_err(from_load)
    };
    let adapted = |model: &Model, adapter: &AdapterFile| {
        let adapted = model.adapted(&LoraPart::of(adapter, 1.0));
        adapted.map_err(|error| problem(ProblemCode::AdapterInvalid, error.to_string()))
    };
    let base = load(&reader.gguf)?;
    let trained = adapted(&base, adapter)?;
    let written = match &request.format {
        ExportFormat::Peft | ExportFormat::GgufLora => adapted(&base, &open_adapter(&request.out, &reader.gguf)?.0)?,
        ExportFormat::Gguf { .. } => load(&Gguf::open(&request.out).map_err(from_gguf)?)?,
    };
    let least = match &request.format {
        ExportFormat::Peft | ExportFormat::GgufLora => SAME,
        ExportFormat::Gguf { kind } => match kind.as_deref().map(str::to_ascii_uppercase).as_deref() {
            Some("F32" | "F16" | "BF16" | "Q8_0") => ROUNDED,
            _ => COARSE,
        },
    };
    let prompts = prompts(&request.adapter, &reader.tokenizer);
    let (trained, written) = (Arc::new(trained), Arc::new(written));
    let (mut cosine, mut same) = (1.0f64, 0);
    for prompt in &prompts {
        let (one, other) = (replay(&trained, prompt)?, replay(&written, prompt)?);
        let vocab = trained.config().vocab;
        let rows = one.logits.chunks(vocab).zip(other.logits.chunks(vocab));
        cosine = rows.map(|(a, b)| cosine_of(a, b)).fold(cosine, f64::min);
        same += usize::from(one.answer == other.answer);
    }
    let passed = cosine >= least && (least < SAME || same == prompts.len());
    let verdict = if passed {
        "It says what was trained"
    } else {
        "It does NOT say what was trained: do not use it"
    };
    let summary = format!(
        "{verdict}: over {} prompts the least cosine of logits is {cosine:.5} ({least} is needed), and {same} greedy answers are \
         the same.",
        prompts.len()
    );
    Ok(Verification {
        passed,
        prompts: count(prompts.len()),
        cosine,
        same_text: count(same),
        summary,
    })
}

struct Replayed {
    /// Of every token of the prompt.
    logits: Vec<f32>,
    answer: Vec<u32>,
}

fn replay(model: &Arc<Model>, prompt: &[u32]) -> Result<Replayed, Problem> {
    let session = Session::new(model.clone(), prompt.len() + ANSWER).map_err(from_session)?;
    let mut session = session.with_product(Product::Exact);
    let logits = session.extend(prompt).map_err(from_session)?;
    let mut answer = Vec::new();
    let mut last = logits[logits.len() - model.config().vocab..].to_vec();
    for _ in 0..ANSWER {
        let Some(token) = greedy(&last) else { break };
        answer.push(token);
        session.push(token).map_err(from_session)?;
        last = session.logits().to_vec();
    }
    Ok(Replayed { logits, answer })
}

fn cosine_of(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let cosine = dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
    // What is no number is as far off as can be.
    if cosine.is_finite() { cosine } else { -1.0 }
}

/// Prompts that the run held out, or where it is not Hearth's, a few general ones.
fn prompts(adapter: &Path, tokenizer: &Tokenizer) -> Vec<Vec<u32>> {
    let of_run = [Some(adapter), adapter.parent()]
        .into_iter()
        .flatten()
        .find_map(|folder| RunFolder(folder.to_owned()).read());
    let held_out = of_run.map(|run| run.prompts).unwrap_or_default();
    let held_out: Vec<_> = held_out.into_iter().filter(|prompt| !prompt.is_empty()).collect();
    match held_out.is_empty() {
        false => held_out,
        true => PROMPTS
            .iter()
            .map(|text| tokenizer.encode(text, Special::Text))
            .collect(),
    }
}

/// Bytes of a file, or of the files of a folder.
fn size(path: &Path) -> std::io::Result<u64> {
    let about = fs::metadata(path)?;
    if !about.is_dir() {
        return Ok(about.len());
    }
    fs::read_dir(path)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}

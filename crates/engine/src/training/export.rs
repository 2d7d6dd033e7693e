//! Exports adapters.

use super::data::Reader;
use super::folder::{WriteError, is_adapter_file, names, open_adapter, write_peft};
use super::verify::verify;
use crate::problem::{disk, from_adapter, from_gguf, from_merge, interrupted};
use hearth_formats::adapter::{AdapterFile, BaseShape, modelfile};
use hearth_formats::chat_template::TemplateOrigin;
use hearth_formats::durable;
use hearth_formats::gguf::part_files;
use hearth_protocol::{ExportFormat, ExportRequest, Exported, Problem, ProblemCode, Stage, TrainingReason};
use hearth_train::{QuantRecipe, merge};
use same_file::is_same_file;
use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Exports an adapter, with a Modelfile next to a GGUF, and verifies the export if requested.
/// `progress` receives the completed fraction and the stage. It returns `Break` to cancel, and then
/// nothing is written.
///
/// # Errors
/// The model or the adapter cannot be read, they do not belong together, or the output cannot be
/// written.
pub fn export(
    request: &ExportRequest,
    progress: &mut dyn FnMut(f32, Stage) -> ControlFlow<()>,
) -> Result<Exported, Problem> {
    let mut step = |fraction, stage| match progress(fraction, stage) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(interrupted()),
    };
    step(0.0, Stage::OpeningModel)?;
    let reader = Reader::open(&request.model)?;
    let base = BaseShape::from_gguf(&reader.gguf).map_err(from_adapter)?;
    let (adapter, notices) = open_adapter(&request.adapter, &reader.gguf)?;
    check_output_path(request, &adapter)?;
    if let Some(parent) = request.out.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        durable::create_folder(parent).map_err(|error| disk(parent, &error))?;
    }
    step(0.05, Stage::Writing)?;
    match &request.format {
        ExportFormat::Peft => write_folder(&adapter, &request.out, &base)?,
        ExportFormat::GgufLora => durable::replace_file(&request.out, |staged| {
            Ok::<_, WriteError>(adapter.write_gguf(staged, &base)?)
        })
        .map_err(|error| error.at(&request.out))?,
        ExportFormat::Gguf { kind } => {
            let recipe = quant_recipe(kind.as_deref())?;
            merge(
                &reader.gguf,
                &adapter,
                recipe,
                &merged_name(request, &reader)?,
                &request.out,
                &mut |fraction| match step(0.05 + 0.75 * fraction, Stage::Merging) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                },
            )
            .map_err(from_merge)?;
        }
    }
    let modelfile = write_modelfile(request, &reader, &adapter)?;
    // The export is complete, so a cancellation from here on only skips the verification.
    let verification = if request.verify && step(0.85, Stage::Verifying).is_ok() {
        Some(verify(request, &reader, &adapter)?)
    } else {
        None
    };
    Ok(Exported {
        path: request.out.clone(),
        bytes: size(&request.out).map_err(|error| disk(&request.out, &error))?,
        modelfile,
        verification,
        notices,
    })
}

/// Returns an error if the output would overwrite an input, also through links, or the Modelfile.
fn check_output_path(request: &ExportRequest, adapter: &AdapterFile) -> Result<(), Problem> {
    let refused = |reason: TrainingReason| Err(Problem::new(ProblemCode::BadRequest, reason));
    let out = &request.out;
    if out
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case(MODELFILE))
    {
        let path = out.display().to_string();
        return refused(TrainingReason::OutIsModelfile { path });
    }
    let model = part_files(&request.model);
    let mut adapter_files = vec![request.adapter.clone(), adapter.path.clone()];
    let files = fs::read_dir(&adapter.path).into_iter().flatten().flatten();
    adapter_files.extend(files.map(|entry| entry.path()));
    for path in [out.clone(), out.with_extension(MODELFILE)] {
        // A path that does not exist is not an input.
        let is_among = |inputs: &[PathBuf]| inputs.iter().any(|input| is_same_file(input, &path).unwrap_or(false));
        let (is_model, is_adapter) = (is_among(&model), is_among(&adapter_files));
        let path = path.display().to_string();
        if is_model {
            return refused(TrainingReason::OutIsModel { path });
        }
        if is_adapter {
            return refused(TrainingReason::OutIsAdapter { path });
        }
    }
    Ok(())
}

/// Writes a PEFT folder. A folder that has only an adapter's files is replaced atomically. To a
/// folder with other files, an adapter is added, but not if it would replace one, since that is not
/// atomic.
fn write_folder(adapter: &AdapterFile, out: &Path, base: &BaseShape) -> Result<(), Problem> {
    let names = names(out).map_err(|error| disk(out, &error))?;
    match names.iter().filter(|name| is_adapter_file(name)).count() {
        count if count == names.len() => write_peft(adapter, out, base),
        0 => adapter.write_peft(out, base).map_err(from_adapter),
        _ => {
            let folder = out.display().to_string();
            let reason = TrainingReason::AdapterBesideFiles { folder };
            Err(Problem::new(ProblemCode::BadRequest, reason))
        }
    }
}

/// The names of the quantizations that a merged export may have.
pub fn export_types() -> Vec<&'static str> {
    QuantRecipe::names()
}

fn quant_recipe(kind: Option<&str>) -> Result<QuantRecipe, Problem> {
    let Some(name) = kind else { return Ok(QuantRecipe::Same) };
    QuantRecipe::from_name(name).ok_or_else(|| {
        let reason = TrainingReason::UnknownQuantization {
            name: name.to_owned(),
            known: export_types().into_iter().map(str::to_owned).collect(),
        };
        Problem::new(ProblemCode::BadRequest, reason)
    })
}

/// The name of a merged model: the requested one, or else the base's name followed by the name of
/// the adapter's folder or file.
fn merged_name(request: &ExportRequest, reader: &Reader) -> Result<String, Problem> {
    if let Some(name) = &request.name {
        return Ok(name.clone());
    }
    let adapter = match request.adapter.file_name() {
        Some(name) if name == "adapter" => request.adapter.parent().unwrap_or(&request.adapter),
        _ => &request.adapter,
    };
    let stem = adapter.file_stem().unwrap_or("tuned".as_ref()).to_string_lossy();
    let base = reader.gguf.str("general.name").map_err(from_gguf)?;
    Ok(format!("{} {stem}", base.unwrap_or_default()).trim().to_owned())
}

/// File extension of a Modelfile.
const MODELFILE: &str = "Modelfile";

/// Writes a Modelfile for Ollama next to a GGUF, and returns its path.
fn write_modelfile(
    request: &ExportRequest,
    reader: &Reader,
    adapter: &AdapterFile,
) -> Result<Option<PathBuf>, Problem> {
    let name = |path: &Path| path.file_name().map(PathBuf::from).unwrap_or_default();
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (base, adapter_name) = match request.format {
        ExportFormat::Peft => return Ok(None),
        ExportFormat::GgufLora => (absolute(&request.model), Some(name(&request.out))),
        ExportFormat::Gguf { .. } => (name(&request.out), None),
    };
    let template = (reader.template.origin() == TemplateOrigin::File).then_some(&reader.template);
    let manifest = adapter.manifest.as_ref();
    let system_prompt = manifest.and_then(|manifest| manifest.system_prompt.as_deref());
    let text = modelfile(&base, adapter_name.as_deref(), template, system_prompt, &[]);
    let path = request.out.with_extension(MODELFILE);
    durable::write_file(&path, |file| file.write_all(text.as_bytes())).map_err(|error| disk(&path, &error))?;
    Ok(Some(path))
}

/// Bytes of a file, or of the files in a folder.
fn size(path: &Path) -> std::io::Result<u64> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    fs::read_dir(path)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}

//! LoRA adapters as PEFT saves them: a folder with `adapter_config.json` and
//! `adapter_model.safetensors`.

use super::error::quotable;
use super::modules::{self, Modules};
use super::peft_config::{CONFIG, Config, MAX_CONFIG_BYTES};
use super::safetensors_file::{FileBytes, ReadAt, Table};
use super::unmatched::LayerCount;
use super::values::{Float, ReadMode, floats};
use super::{
    AdapterError, AdapterFile, AdapterHeader, AdapterManifest, AdapterProblem, BaseShape, LoraTensors, ModuleName,
    TargetName, TargetShape, UnmatchedEntries,
};
use crate::durable::Staged;
use crate::regular::read_regular;
use crate::shape::{FusedLinear, MAX_LAYERS, Module};
use safetensors::Dtype;
use safetensors::tensor::{TensorInfo, TensorView};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::{fs, io};

/// File name of the tensors.
pub const TENSORS: &str = "adapter_model.safetensors";

/// File name of the older, pickled tensors; loading it would execute Python code.
const PICKLED: &str = "adapter_model.bin";

/// File name of Hearth's manifest.
pub const MANIFEST: &str = "hearth.json";

/// The largest [`MANIFEST`] that is read, in bytes; Hearth writes a few kilobytes.
const MAX_MANIFEST_BYTES: u64 = 4 << 20;

/// Prefix of every module path in PEFT.
const WRAPPER: &str = "base_model.model.";

/// One matrix of a module, and the location of its values.
struct Half {
    rows: usize,
    row: usize,
    float: Float,
    start: u64,
    len: usize,
}

/// The matrices of a module that were found.
#[derive(Default)]
struct Pair {
    /// Its path, matched by the patterns of the configuration.
    module: String,
    a: Option<Half>,
    b: Option<Half>,
}

impl AdapterFile {
    /// Reads a PEFT folder for a model of this shape, with the manifest if there is one.
    ///
    /// # Errors
    /// If a file is missing or corrupt, or the adapter is unsupported.
    pub fn read_peft(folder: &Path, base: &BaseShape) -> Result<Self, AdapterError> {
        read_folder(folder, base, ReadMode::Load)
    }

    /// Reads the contents of a PEFT folder: `adapter_config.json`, `adapter_model.safetensors` and,
    /// optionally, `hearth.json`.
    ///
    /// # Errors
    /// As for [`AdapterFile::read_peft`].
    pub fn from_peft(
        config: &[u8],
        tensors: &[u8],
        manifest: Option<&[u8]>,
        base: &BaseShape,
    ) -> Result<Self, AdapterProblem> {
        read(config, &tensors, manifest, base, ReadMode::Load)
    }

    /// Writes a PEFT folder for a model of this shape, with the manifest if there is one. The
    /// configuration is written last, so that a folder with one is complete.
    ///
    /// # Errors
    /// If the adapter is invalid or for another model, or the folder cannot be written; existing
    /// files are then unchanged.
    pub fn write_peft(&self, folder: &Path, base: &BaseShape) -> Result<(), AdapterError> {
        let fail = |problem| AdapterError::new(folder, problem);
        self.check().map_err(fail)?;
        let modules = self.by_module(base).map_err(fail)?;
        let config = Config::describe(self, &modules, base);
        let tensors = safetensors(&modules, base).map_err(fail)?;
        self.write_peft_files(folder, &config, &tensors)
            .map_err(|error| fail(AdapterProblem::Write(error)))
    }

    fn write_peft_files(&self, folder: &Path, config: &Value, tensors: &[u8]) -> io::Result<()> {
        let stage = |name: &str, bytes: &[u8]| Staged::new(&folder.join(name), |out| io::Write::write_all(out, bytes));
        let config = serde_json::to_vec_pretty(config)?;
        let manifest = self.manifest.as_ref().map(serde_json::to_vec_pretty).transpose()?;
        let made = !folder.exists();
        fs::create_dir_all(folder)?;
        // All files are synced to disk before any existing one is replaced.
        let staged = stage(TENSORS, tensors).and_then(|tensors| {
            let manifest = manifest.map(|bytes| stage(MANIFEST, &bytes)).transpose()?;
            Ok((tensors, manifest, stage(CONFIG, &config)?))
        });
        let (tensors, manifest, config) = staged.inspect_err(|_| {
            if made {
                // Staged files remove themselves, so the folder is empty; if not, the files are not
                // ours.
                let _ = fs::remove_dir(folder);
            }
        })?;
        // From here to the last line the folder has no configuration, so a crash leaves no adapter
        // rather than a mix of two.
        remove_if_exists(&folder.join(CONFIG))?;
        tensors.commit()?;
        match manifest {
            Some(manifest) => manifest.commit()?,
            None => remove_if_exists(&folder.join(MANIFEST))?,
        }
        config.commit()
    }
}

/// The tensors in F32 under PEFT's names, in transformers row order.
fn safetensors(modules: &Modules, base: &BaseShape) -> Result<Vec<u8>, AdapterProblem> {
    let bytes = |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|value| value.to_le_bytes()).collect() };
    let mut halves = Vec::new();
    for (&name, lora) in modules {
        let b = in_transformers_order(name, lora, base)?;
        let half_name = |half: &str| format!("{WRAPPER}{}.{half}.weight", name.path());
        halves.push((half_name("lora_A"), [lora.rank, lora.inputs], bytes(&lora.a)));
        halves.push((half_name("lora_B"), [lora.outputs, lora.rank], bytes(&b)));
    }
    let invalid = |error: safetensors::SafeTensorError| AdapterProblem::corrupt(TENSORS, error);
    let views = halves
        .iter()
        .map(|(name, shape, bytes)| Ok((name, TensorView::new(Dtype::F32, shape.to_vec(), bytes)?)))
        .collect::<Result<Vec<_>, _>>()
        .map_err(invalid)?;
    // transformers requires this metadata entry.
    let about = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    safetensors::serialize(views, Some(about)).map_err(invalid)
}

/// B of a module with the rows of each linear in transformers order.
fn in_transformers_order(name: ModuleName, lora: &LoraTensors, base: &BaseShape) -> Result<Vec<f32>, AdapterProblem> {
    let mut b = Vec::with_capacity(lora.b.len());
    for target in name.targets() {
        let shape = base.layers.get(name.layer);
        let rows = shape.and_then(|shape| name.module.rows(shape, target.linear));
        let rows = rows.ok_or_else(|| AdapterProblem::OtherModel(base.no_such_target(name)))?;
        let (order, head_dim) = base.row_order(target)?;
        let part = lora.b[rows.start * lora.rank..rows.end * lora.rank].to_vec();
        b.extend(order.export(part, lora.rank, head_dim));
    }
    Ok(b)
}

/// Reads a folder; see [`AdapterFile::read_peft`].
pub(super) fn read_folder(folder: &Path, base: &BaseShape, mode: ReadMode) -> Result<AdapterFile, AdapterError> {
    let mut adapter = from_files(folder, |config, tensors, manifest| {
        self::read(config, tensors, manifest, base, mode)
    })?;
    folder.clone_into(&mut adapter.path);
    Ok(adapter)
}

/// Reads the small files of a folder; the tensors are opened only.
fn from_files<T>(
    folder: &Path,
    read: impl FnOnce(&[u8], &FileBytes, Option<&[u8]>) -> Result<T, AdapterProblem>,
) -> Result<T, AdapterError> {
    let read = files(folder).and_then(|files| read(&files.config, &files.tensors, files.manifest.as_deref()));
    read.map_err(|problem| AdapterError::new(folder, problem))
}

/// The files of a folder; the tensors are not read yet.
struct Files {
    config: Vec<u8>,
    tensors: FileBytes,
    manifest: Option<Vec<u8>>,
}

fn files(folder: &Path) -> Result<Files, AdapterProblem> {
    let read = |name: &str, most| optional(name, read_regular(&folder.join(name), most));
    let no = |name: &str| AdapterProblem::NotAnAdapter(format!("the folder has no {name}"));
    let config = read(CONFIG, MAX_CONFIG_BYTES)?.ok_or_else(|| no(CONFIG))?;
    let tensors = optional(TENSORS, FileBytes::open(&folder.join(TENSORS)))?;
    let tensors = tensors.ok_or_else(|| if folder.join(PICKLED).exists() { AdapterProblem::Unsupported(format!(
            "This adapter is stored as {PICKLED}, a pickle file that can run code, so Hearth does not open it; load it \
             in PEFT and save it again with safe_serialization=True."
        )) } else { no(TENSORS) })?;
    Ok(Files {
        config,
        tensors,
        manifest: read(MANIFEST, MAX_MANIFEST_BYTES)?,
    })
}

/// Maps a missing file to `None`.
fn optional<T>(name: &str, read: io::Result<T>) -> Result<Option<T>, AdapterProblem> {
    match read {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(AdapterProblem::Read(named(name, error))),
    }
}

/// Adds the file's name to an error.
fn named(name: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{name}: {error}"))
}

fn read(
    config: &[u8],
    tensors: &impl ReadAt,
    manifest: Option<&[u8]>,
    base: &BaseShape,
    mode: ReadMode,
) -> Result<AdapterFile, AdapterProblem> {
    let config = Config::parse(config)?;
    let manifest = parse_manifest(manifest)?;
    // The rows of Q and K cannot be reordered for a model of another shape.
    if let Some(mismatch) = manifest
        .as_ref()
        .and_then(|manifest| manifest.base.shape.mismatch(base))
    {
        return Err(AdapterProblem::OtherModel(mismatch));
    }
    let pairs = pairs(tensors, &config)?;
    let targets: BTreeSet<ModuleName> = pairs.keys().copied().collect();
    let base_layers = base.layers.len();
    let exists = |name: ModuleName| base.has_module(name);
    if let Some(missing) = config.missing(&targets, base_layers, exists) {
        let layers = targets.last().map_or(0, |last| last.layer.saturating_add(1));
        if (1..base_layers).contains(&layers) && config.missing(&targets, layers, exists).is_none() {
            return Err(AdapterProblem::OtherModel(format!(
                "it targets all layers of a model with {layers} layers, but this model has {base_layers}"
            )));
        }
        return Err(not_in_file(missing));
    }
    let unmatched = unmatched(&config, &pairs, base.fused_linears(), LayerCount::Exact(base_layers))?;
    let mut loras = BTreeMap::new();
    for (name, pair) in pairs {
        let lora = lora(name, &pair, tensors, &config, base, mode)?;
        modules::add(&mut loras, name, lora, base)?;
    }
    for (&target, lora) in &mut loras {
        to_gguf_order(target, lora, base)?;
    }
    let adapter = AdapterFile {
        path: Default::default(),
        architecture: base.architecture.clone(),
        base_name: config.base_model_name_or_path,
        rslora: config.use_rslora,
        tensors: loras,
        manifest,
        unmatched,
    };
    adapter.check_not_empty()?;
    Ok(adapter)
}

/// The entries of the configuration that match no module.
fn unmatched(
    config: &Config,
    pairs: &BTreeMap<ModuleName, Pair>,
    fused: &[FusedLinear],
    layers: LayerCount,
) -> Result<Vec<UnmatchedEntries>, AdapterProblem> {
    let modules: Vec<&str> = pairs.values().map(|pair| pair.module.as_str()).collect();
    config.unmatched(&modules, fused, layers)
}

/// The modules of the file and the locations of their matrices; reads its header only.
fn pairs(tensors: &impl ReadAt, config: &Config) -> Result<BTreeMap<ModuleName, Pair>, AdapterProblem> {
    let mut pairs: BTreeMap<ModuleName, Pair> = BTreeMap::new();
    let table = Table::read(tensors, TENSORS)?;
    for (name, info) in table.tensors() {
        let (module, is_a) = module(&name).map_err(|problem| config.saved(&name).unwrap_or(problem))?;
        let target = ModuleName::from_path(module).ok_or_else(|| unsupported_target(module))?;
        let pair = pairs.entry(target).or_default();
        module.clone_into(&mut pair.module);
        let half = if is_a { &mut pair.a } else { &mut pair.b };
        if half.replace(matrix(&name, info, &table)?).is_some() {
            return Err(AdapterProblem::target(target, "it is present twice"));
        }
    }
    config.check_comparisons(pairs.len())?;
    Ok(pairs)
}

/// Reads the headers of a folder: no matrix.
pub(super) fn read_header(folder: &Path) -> Result<AdapterHeader, AdapterError> {
    from_files(folder, header)
}

fn header(config: &[u8], tensors: &impl ReadAt, manifest: Option<&[u8]>) -> Result<AdapterHeader, AdapterProblem> {
    let config = Config::parse(config)?;
    let manifest = parse_manifest(manifest)?;
    let pairs = pairs(tensors, &config)?;
    let names: BTreeSet<ModuleName> = pairs.keys().copied().collect();
    let layers = names.last().map_or(0, |last| last.layer.saturating_add(1));
    // The architecture is not known, but a fused target shows that it fuses these linears.
    let is_target = |fused: &FusedLinear| names.iter().any(|name| name.module == Module::Fused(*fused));
    let fused: Vec<FusedLinear> = FusedLinear::ALL.iter().copied().filter(is_target).collect();
    let exists = |name: ModuleName| name.module.is_with(&fused);
    // A hostile number of layers is refused below.
    if let Some(missing) = config.missing(&names, layers.min(MAX_LAYERS), exists) {
        return Err(not_in_file(missing));
    }
    let unmatched = unmatched(&config, &pairs, &fused, LayerCount::AtLeast(layers.min(MAX_LAYERS)))?;
    let targets = pairs
        .iter()
        .map(|(&name, pair)| Ok((name, shape(name, pair, &config)?)))
        .collect::<Result<Vec<_>, AdapterProblem>>()?;
    let architecture = manifest
        .as_ref()
        .map(|manifest| manifest.base.shape.architecture.clone());
    let header = AdapterHeader::new(
        architecture,
        Vec::from_iter(config.base_model_name_or_path.clone()),
        manifest,
        &targets,
    )?;
    Ok(AdapterHeader {
        is_whole: header.is_whole && !config.names_layers(),
        unmatched,
        ..header
    })
}

fn parse_manifest(manifest: Option<&[u8]>) -> Result<Option<AdapterManifest>, AdapterProblem> {
    let parsed = manifest.map(serde_json::from_slice).transpose();
    parsed.map_err(|error| AdapterProblem::corrupt(MANIFEST, error))
}

fn not_in_file(target: ModuleName) -> AdapterProblem {
    AdapterProblem::target(
        target,
        format!("{CONFIG} lists it as a target, but {TENSORS} has no tensors for it"),
    )
}

fn remove_if_exists(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn unsupported_target(module: &str) -> AdapterProblem {
    AdapterProblem::Unsupported(format!("This adapter targets '{}'.", quotable(module)))
}

/// The module path of a tensor, and whether it is matrix A.
fn module(name: &str) -> Result<(&str, bool), AdapterProblem> {
    // PEFT omits the adapter's name when it saves; other writers may include the default one.
    let path = name.strip_suffix(".weight").unwrap_or(name);
    let path = path.strip_suffix(".default").unwrap_or(path);
    let path = path.strip_prefix(WRAPPER).unwrap_or(path);
    match (path.strip_suffix(".lora_A"), path.strip_suffix(".lora_B")) {
        (Some(module), _) => Ok((module, true)),
        (_, Some(module)) => Ok((module, false)),
        _ => Err(unsupported_target(name)),
    }
}

fn matrix(name: &str, info: &TensorInfo, table: &Table) -> Result<Half, AdapterProblem> {
    let &[rows, row] = info.shape.as_slice() else {
        return Err(AdapterProblem::corrupt(
            TENSORS,
            format!("'{}' has {} dimensions instead of 2", quotable(name), info.shape.len()),
        ));
    };
    let float = match info.dtype {
        Dtype::F32 => Float::F32,
        Dtype::F16 => Float::F16,
        Dtype::BF16 => Float::Bf16,
        dtype => {
            return Err(AdapterProblem::Unsupported(format!(
                "This adapter stores '{}' as {dtype:?}, not as F32, F16 or BF16.",
                quotable(name)
            )));
        }
    };
    let (start, len) = table.byte_range(info);
    Ok(Half {
        rows,
        row,
        float,
        start,
        len,
    })
}

/// Both matrices of a module.
fn halves(target: ModuleName, pair: &Pair) -> Result<(&Half, &Half), AdapterProblem> {
    let missing = |name: &str| AdapterProblem::target(target, format!("its {name} is missing"));
    let a = pair.a.as_ref().ok_or_else(|| missing("lora_A"))?;
    Ok((a, pair.b.as_ref().ok_or_else(|| missing("lora_B"))?))
}

/// The shape of a module, checked against the configuration.
fn shape(target: ModuleName, pair: &Pair, config: &Config) -> Result<TargetShape, AdapterProblem> {
    let (a, b) = halves(target, pair)?;
    let (rank, inputs, outputs, rank_b) = (a.rows, a.row, b.rows, b.row);
    let configured = config.rank(&pair.module);
    if rank != rank_b || rank != configured {
        return Err(AdapterProblem::target(
            target,
            format!("its lora_A has rank {rank}, its lora_B rank {rank_b}, and {CONFIG} says {configured}"),
        ));
    }
    match LoraTensors::shape_problem(rank, inputs, outputs) {
        Some(problem) => Err(AdapterProblem::target(target, problem)),
        None => Ok(TargetShape { rank, inputs, outputs }),
    }
}

/// The matrices of a module, with the rows of B in transformers order.
fn lora(
    target: ModuleName,
    pair: &Pair,
    file: &impl ReadAt,
    config: &Config,
    base: &BaseShape,
    mode: ReadMode,
) -> Result<LoraTensors, AdapterProblem> {
    let (a, b) = halves(target, pair)?;
    let TargetShape { rank, inputs, outputs } = shape(target, pair, config)?;
    if !base.has_module(target) {
        return Err(AdapterProblem::OtherModel(base.no_such_target(target)));
    }
    // Rows can be reordered only if their count matches the model.
    base.check_module(target, inputs, outputs)?;
    let values = |half: &Half| {
        let read = |start: usize, len: usize| file.read(half.start + start as u64, len);
        floats(half.float, half.len, read).map_err(|error| AdapterProblem::Read(named(TENSORS, error)))
    };
    let lora = LoraTensors {
        a: values(a)?,
        b: values(b)?,
        rank,
        inputs,
        outputs,
        alpha: config.alpha(&pair.module),
    };
    mode.checked(target, lora)
}

/// Reorders the rows of a linear's B from transformers order to GGUF order.
fn to_gguf_order(target: TargetName, lora: &mut LoraTensors, base: &BaseShape) -> Result<(), AdapterProblem> {
    if !lora.b.is_empty() {
        let (order, head_dim) = base.row_order(target)?;
        lora.b = order.import(std::mem::take(&mut lora.b), lora.rank, head_dim);
    }
    Ok(())
}

//! LoRA adapters as GGUF files, compatible with llama.cpp.

use super::error::quotable;
use super::modules::{self, Modules};
use super::values::{Float, ReadMode, floats};
use super::{
    AdapterError, AdapterFile, AdapterHeader, AdapterManifest, AdapterProblem, BaseShape, LoraTensors, ModuleName,
    TargetName, TargetShape,
};
use crate::Architecture;
use crate::durable::write_file;
use crate::gguf::{GgufError, GgufHeader, GgufWriter, Metadata, TensorData, TensorHeader, TensorInfo, TensorType};
use crate::shape::Module;
use std::collections::BTreeMap;
use std::path::Path;

/// The metadata key of the manifest; llama.cpp ignores unknown keys.
const MANIFEST_KEY: &str = "hearth.manifest";

/// The manifest's key in files of earlier versions.
const OLD_MANIFEST_KEY: &str = "hearth.passport";

/// The tensors of a module.
#[derive(Default)]
struct Pair<'a> {
    a: Option<&'a TensorInfo>,
    b: Option<&'a TensorInfo>,
}

impl AdapterFile {
    /// Reads an adapter from a GGUF file without its base model.
    ///
    /// # Errors
    /// If it is a model instead of an adapter, is corrupt, or is unsupported. Also if it targets
    /// fused linears, whose rows follow from the base model.
    pub fn from_gguf(gguf: &impl TensorData) -> Result<Self, AdapterError> {
        read(gguf, None, ReadMode::Load).map_err(|problem| AdapterError::new(gguf.path(), problem))
    }

    /// Writes a GGUF file in F32 for a model of this shape. llama.cpp has one alpha for all targets
    /// and divides it by each rank, so B is rescaled for targets with another scale. Linears are
    /// fused as in the files that llama.cpp converts: not as in a file with fused queries, keys and
    /// values of an architecture in which transformers has them separate.
    ///
    /// # Errors
    /// If the adapter is invalid or for another model, or the file cannot be written; an existing
    /// file is then unchanged.
    pub fn write_gguf(&self, path: &Path, base: &BaseShape) -> Result<(), AdapterError> {
        self.check()
            .and_then(|()| self.write_gguf_tensors(path, &self.by_module(base)?))
            .map_err(|problem| AdapterError::new(path, problem))
    }

    fn write_gguf_tensors(&self, path: &Path, modules: &Modules) -> Result<(), AdapterProblem> {
        // In a GGUF an alpha of 0 means a scale of 1.
        let alpha = modules
            .values()
            .map(|lora| lora.scale(self.rslora) * lora.rank as f32)
            .find(|&alpha| alpha != 0.0)
            .unwrap_or(1.0);
        let mut metadata: Metadata = [
            ("general.type", "adapter"),
            ("general.architecture", &self.architecture),
            ("adapter.type", "lora"),
        ]
        .into_iter()
        .collect();
        if let Some(name) = &self.base_name {
            metadata.insert("general.base_model.count", 1u32);
            metadata.insert("general.base_model.0.name", name.as_str());
        }
        metadata.insert("general.file_type", 0u32);
        metadata.insert("adapter.lora.alpha", alpha);
        if let Some(manifest) = &self.manifest {
            let text = serde_json::to_string(manifest).map_err(|error| AdapterProblem::Write(error.into()))?;
            metadata.insert(MANIFEST_KEY, text);
        }
        let header = |name: ModuleName, half: &str, shape: [usize; 2]| TensorHeader {
            name: format!("{}.{half}", name.weight()),
            shape: shape.map(|n| n as u64).to_vec(),
            kind: TensorType::F32,
        };
        let table: Vec<_> = modules
            .iter()
            .flat_map(|(&name, lora)| {
                [
                    header(name, "lora_a", [lora.inputs, lora.rank]),
                    header(name, "lora_b", [lora.rank, lora.outputs]),
                ]
            })
            .collect();
        write_file(path, |out| {
            let mut writer = GgufWriter::begin(out, &metadata, &table).map_err(writing)?;
            for lora in modules.values() {
                let b_scale = lora.scale(self.rslora) * lora.rank as f32 / alpha;
                writer.tensor(&bytes(&lora.a, 1.0)).map_err(writing)?;
                writer.tensor(&bytes(&lora.b, b_scale)).map_err(writing)?;
            }
            writer.finish().map(drop).map_err(writing)
        })
    }
}

/// The values times `factor`, as little-endian bytes.
fn bytes(values: &[f32], factor: f32) -> Vec<u8> {
    values.iter().flat_map(|value| (value * factor).to_le_bytes()).collect()
}

/// Keeps an I/O error as [`AdapterProblem::Write`], so that a full disk is reported as such.
fn writing(error: GgufError) -> AdapterProblem {
    match error.problem {
        crate::gguf::GgufProblem::Io(error) => AdapterProblem::Write(error),
        _ => error.into(),
    }
}

/// Reads an adapter. With `base`, a target of another shape is refused before its values are read.
pub(super) fn read(
    gguf: &impl TensorData,
    base: Option<&BaseShape>,
    mode: ReadMode,
) -> Result<AdapterFile, AdapterProblem> {
    check_kind(gguf)?;
    let architecture = gguf.architecture()?.to_owned();
    if let Some(mismatch) = base.and_then(|base| base.architecture_mismatch(&architecture)) {
        return Err(AdapterProblem::OtherModel(mismatch));
    }
    let alpha = gguf.f32("adapter.lora.alpha")?.unwrap_or(0.0);
    let mut tensors = BTreeMap::new();
    for (name, pair) in pairs(gguf)? {
        let lora = lora(gguf, name, &pair, alpha, base, mode)?;
        match (name.module, base) {
            (_, Some(base)) => modules::add(&mut tensors, name, lora, base)?,
            (Module::Linear(linear), None) => {
                let layer = name.layer;
                modules::add_linear(&mut tensors, TargetName { layer, linear }, lora)?;
            }
            (Module::Fused(_), None) => {
                return Err(AdapterProblem::Unsupported(format!(
                    "This adapter targets {name}, which cannot be read without its base model."
                )));
            }
        }
    }
    let adapter = AdapterFile {
        path: gguf.path().to_owned(),
        architecture,
        base_name: gguf.str("general.base_model.0.name")?.map(str::to_owned),
        rslora: false,
        tensors,
        manifest: manifest(gguf)?,
        unmatched: Vec::new(),
    };
    adapter.check_not_empty()?;
    Ok(adapter)
}

/// Reads the header of a file, without its matrices.
pub(super) fn read_header(gguf: &GgufHeader) -> Result<AdapterHeader, AdapterProblem> {
    check_kind(gguf)?;
    let targets = pairs(gguf)?
        .iter()
        .map(|(&name, pair)| Ok((name, shape(name, pair)?.0)))
        .collect::<Result<Vec<_>, AdapterProblem>>()?;
    let base = |field: &str| gguf.str(&format!("general.base_model.0.{field}")).ok().flatten();
    let full_name = base("name").map(|name| match base("organization") {
        Some(owner) => format!("{owner}/{name}"),
        None => name.to_owned(),
    });
    let names = base("repo_url").map(str::to_owned).into_iter().chain(full_name);
    AdapterHeader::new(
        Some(gguf.architecture()?.to_owned()),
        names.collect(),
        manifest(gguf)?,
        &targets,
    )
}

/// Refuses models and kinds of adapters that Hearth does not support.
fn check_kind(gguf: &GgufHeader) -> Result<(), AdapterProblem> {
    match gguf.str("general.type")? {
        Some("adapter") => {}
        _ => {
            return Err(AdapterProblem::NotAnAdapter(
                "it is another kind of GGUF, such as a model".to_owned(),
            ));
        }
    }
    match gguf.required_str("adapter.type")? {
        "lora" => {}
        kind => {
            return Err(AdapterProblem::Unsupported(format!(
                "This adapter is of the type '{}'.",
                quotable(kind)
            )));
        }
    }
    match gguf.metadata().get("adapter.alora.invocation_tokens") {
        None => Ok(()),
        Some(_) => Err(AdapterProblem::Unsupported(
            "This adapter is an activated LoRA (aLoRA), which applies only after its invocation tokens.".to_owned(),
        )),
    }
}

/// The modules of the file and their tensors.
fn pairs(gguf: &GgufHeader) -> Result<BTreeMap<ModuleName, Pair<'_>>, AdapterProblem> {
    let architecture = Architecture::named(gguf.architecture()?);
    let mut pairs: BTreeMap<ModuleName, Pair> = BTreeMap::new();
    for info in gguf.tensors() {
        let (weight, half) = info.name.rsplit_once('.').unwrap_or((&info.name, ""));
        let Some(name) = ModuleName::from_weight(weight, architecture) else {
            return Err(AdapterProblem::Unsupported(format!(
                "This adapter targets '{}'.",
                quotable(weight)
            )));
        };
        let pair = pairs.entry(name).or_default();
        match half {
            "lora_a" => pair.a = Some(info),
            "lora_b" => pair.b = Some(info),
            _ => {
                return Err(AdapterProblem::Unsupported(format!(
                    "This adapter contains the tensor '{}'.",
                    quotable(&info.name)
                )));
            }
        }
    }
    Ok(pairs)
}

fn manifest(gguf: &GgufHeader) -> Result<Option<AdapterManifest>, AdapterProblem> {
    let text = match gguf.str(MANIFEST_KEY)? {
        None => gguf.str(OLD_MANIFEST_KEY)?,
        text => text,
    };
    let parsed = text.map(serde_json::from_str::<AdapterManifest>).transpose();
    parsed.map_err(|error| AdapterProblem::corrupt("manifest", error))
}

/// The shape of a module, and the float types of its matrices.
fn shape(target: ModuleName, pair: &Pair) -> Result<(TargetShape, Float, Float), AdapterProblem> {
    let half = |info: Option<&'_ TensorInfo>, name: &str| {
        let info = info.ok_or_else(|| AdapterProblem::target(target, format!("its {name} is missing")))?;
        let [row, rows] = *info.shape.as_slice() else {
            return Err(AdapterProblem::target(
                target,
                format!("its {name} has {} dimensions", info.shape.len()),
            ));
        };
        let float = float(info.kind).ok_or_else(|| {
            AdapterProblem::Unsupported(format!(
                "This adapter stores {target} as {}, not as F32, F16 or BF16.",
                info.kind.name()
            ))
        })?;
        // If one dimension is 0, the file's length does not bound the other.
        let sizes = [row, rows].map(usize::try_from);
        let [Ok(row), Ok(rows)] = sizes else {
            return Err(AdapterProblem::target(target, format!("its {name} is {row} x {rows}")));
        };
        Ok((row, rows, float))
    };
    let (inputs, rank, float_a) = half(pair.a, "lora_a")?;
    let (rank_b, outputs, float_b) = half(pair.b, "lora_b")?;
    if rank != rank_b {
        return Err(AdapterProblem::target(
            target,
            format!("its lora_a has rank {rank}, but its lora_b has rank {rank_b}"),
        ));
    }
    match LoraTensors::shape_problem(rank, inputs, outputs) {
        Some(problem) => Err(AdapterProblem::target(target, problem)),
        None => Ok((TargetShape { rank, inputs, outputs }, float_a, float_b)),
    }
}

fn lora(
    gguf: &impl TensorData,
    target: ModuleName,
    pair: &Pair,
    alpha: f32,
    base: Option<&BaseShape>,
    mode: ReadMode,
) -> Result<LoraTensors, AdapterProblem> {
    let (TargetShape { rank, inputs, outputs }, float_a, float_b) = shape(target, pair)?;
    if let Some(base) = base {
        base.check_module(target, inputs, outputs)?;
    }
    let read = |info: Option<&TensorInfo>, float: Float| match info {
        Some(info) => floats(float, info.byte_len, |start, len| {
            gguf.read(info, start, len).map_err(AdapterProblem::Gguf)
        }),
        None => Ok(Vec::new()),
    };
    let lora = LoraTensors {
        a: read(pair.a, float_a)?,
        b: read(pair.b, float_b)?,
        rank,
        inputs,
        outputs,
        // In a GGUF an alpha of 0 means a scale of 1.
        alpha: if alpha == 0.0 { rank as f32 } else { alpha },
    };
    mode.checked(target, lora)
}

/// The float type of a tensor type; `None` for quantized and integer types.
fn float(kind: TensorType) -> Option<Float> {
    Some(match kind {
        TensorType::F32 => Float::F32,
        TensorType::F16 => Float::F16,
        TensorType::BF16 => Float::Bf16,
        _ => return None,
    })
}

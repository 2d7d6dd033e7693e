//! Adapters as GGUF files, as llama.cpp reads and writes them.

use super::numbers::{Float, Numbers, floats};
use super::{AdapterError, AdapterFile, AdapterProblem, BaseShape, LoraTensors, Passport, TargetName, write_whole};
use crate::gguf::{GgufError, GgufWriter, Metadata, TensorData, TensorHeader, TensorInfo, TensorType};
use std::collections::BTreeMap;
use std::path::Path;

/// Where the passport lies in the metadata; llama.cpp passes over keys that it does not know.
const PASSPORT_KEY: &str = "hearth.passport";

/// The two halves of a target, as far as they were found.
#[derive(Default)]
struct Pair<'a> {
    a: Option<&'a TensorInfo>,
    b: Option<&'a TensorInfo>,
}

impl AdapterFile {
    /// Reads an adapter from a GGUF file.
    ///
    /// # Errors
    /// Where it is a model and no adapter, is damaged, or does what Hearth cannot do.
    pub fn from_gguf(gguf: &impl TensorData) -> Result<Self, AdapterError> {
        read(gguf, None, Numbers::Keep).map_err(|problem| AdapterError::new(gguf.path(), problem))
    }

    /// Writes it as a GGUF file in F32. llama.cpp knows one alpha for all and divides it by each rank, so where targets have
    /// other scales, B takes up the difference.
    ///
    /// # Errors
    /// Where the adapter is not sound or the file cannot be written; then what was there before is unchanged.
    pub fn write_gguf(&self, path: &Path) -> Result<(), AdapterError> {
        self.check()
            .and_then(|()| self.put_gguf(path))
            .map_err(|problem| AdapterError::new(path, problem))
    }

    fn put_gguf(&self, path: &Path) -> Result<(), AdapterProblem> {
        // 0 would mean a scale of 1.
        let alpha = self
            .tensors
            .iter()
            .map(|(&target, lora)| self.scale(target).unwrap_or_default() * lora.rank as f32)
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
        if let Some(passport) = &self.passport {
            let text = serde_json::to_string(passport).map_err(|error| AdapterProblem::Write(error.into()))?;
            metadata.insert(PASSPORT_KEY, text);
        }
        let header = |target: TargetName, half: &str, shape: [usize; 2]| TensorHeader {
            name: format!("{}.{half}", target.weight()),
            shape: shape.map(|n| n as u64).to_vec(),
            kind: TensorType::F32,
        };
        let table: Vec<_> = self
            .tensors
            .iter()
            .flat_map(|(&target, lora)| {
                [
                    header(target, "lora_a", [lora.inputs, lora.rank]),
                    header(target, "lora_b", [lora.rank, lora.outputs]),
                ]
            })
            .collect();
        write_whole(path, |out| {
            let mut writer = GgufWriter::begin(out, &metadata, &table).map_err(writing)?;
            for (&target, lora) in &self.tensors {
                let rest = self.scale(target).unwrap_or_default() * lora.rank as f32 / alpha;
                writer.tensor(&bytes(&lora.a, 1.0)).map_err(writing)?;
                writer.tensor(&bytes(&lora.b, rest)).map_err(writing)?;
            }
            writer.finish().map(drop).map_err(writing)
        })
    }
}

/// Numbers times `factor`, little-endian.
fn bytes(values: &[f32], factor: f32) -> Vec<u8> {
    values.iter().flat_map(|value| (value * factor).to_le_bytes()).collect()
}

/// A full disk is a full disk, whoever met it.
fn writing(error: GgufError) -> AdapterProblem {
    match error.problem {
        crate::gguf::GgufProblem::Io(error) => AdapterProblem::Write(error),
        _ => error.into(),
    }
}

/// Reads an adapter, for a model of these sizes where they are given: what is of another size is refused before its numbers are
/// read.
pub(super) fn read(
    gguf: &impl TensorData,
    base: Option<&BaseShape>,
    numbers: Numbers,
) -> Result<AdapterFile, AdapterProblem> {
    match gguf.str("general.type")? {
        Some("adapter") => {}
        _ => {
            return Err(AdapterProblem::NotAnAdapter(
                "it is a GGUF of another kind, such as a model".to_owned(),
            ));
        }
    }
    match gguf.required_str("adapter.type")? {
        "lora" => {}
        other => {
            return Err(AdapterProblem::Unsupported(format!(
                "This adapter is of the type '{other}'."
            )));
        }
    }
    if gguf.metadata().get("adapter.alora.invocation_tokens").is_some() {
        return Err(AdapterProblem::Unsupported(
            "This adapter is an activated LoRA, which works only from certain tokens on.".to_owned(),
        ));
    }
    let architecture = gguf.architecture()?.to_owned();
    if let Some(why) = base.and_then(|base| base.other_architecture(&architecture)) {
        return Err(AdapterProblem::OtherModel(why));
    }
    let alpha = gguf.f32("adapter.lora.alpha")?.unwrap_or(0.0);
    let mut pairs: BTreeMap<TargetName, Pair> = BTreeMap::new();
    for info in gguf.tensors() {
        let (weight, half) = info.name.rsplit_once('.').unwrap_or((&info.name, ""));
        let Some(target) = TargetName::from_weight(weight) else {
            return Err(AdapterProblem::Unsupported(format!("This adapter changes '{weight}'.")));
        };
        let pair = pairs.entry(target).or_default();
        match half {
            "lora_a" => pair.a = Some(info),
            "lora_b" => pair.b = Some(info),
            _ => {
                return Err(AdapterProblem::Unsupported(format!(
                    "This adapter holds '{}'.",
                    info.name
                )));
            }
        }
    }
    let tensors = pairs
        .into_iter()
        .map(|(target, pair)| Ok((target, lora(gguf, target, &pair, alpha, base, numbers)?)))
        .collect::<Result<_, AdapterProblem>>()?;
    let passport = gguf
        .str(PASSPORT_KEY)?
        .map(serde_json::from_str::<Passport>)
        .transpose();
    let adapter = AdapterFile {
        path: gguf.path().to_owned(),
        architecture,
        base_name: gguf.str("general.base_model.0.name")?.map(str::to_owned),
        rslora: false,
        tensors,
        passport: passport.map_err(|error| AdapterProblem::damaged("passport", error))?,
    };
    adapter.check_any()?;
    Ok(adapter)
}

fn lora(
    gguf: &impl TensorData,
    target: TargetName,
    pair: &Pair,
    alpha: f32,
    base: Option<&BaseShape>,
    numbers: Numbers,
) -> Result<LoraTensors, AdapterProblem> {
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
                "This adapter's part for {target} is stored as {}, not as F32, F16 or BF16.",
                info.kind.name()
            ))
        })?;
        // A dimension of 0 leaves the other one unbounded by the file's length.
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
            format!("its lora_a has the rank {rank} and its lora_b {rank_b}"),
        ));
    }
    if let Some(why) = LoraTensors::size_problem(rank, inputs, outputs) {
        return Err(AdapterProblem::target(target, why));
    }
    if let Some(base) = base {
        base.check_linear(target, inputs, outputs)?;
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
        // In a GGUF 0 means a scale of 1.
        alpha: if alpha == 0.0 { rank as f32 } else { alpha },
    };
    numbers.checked(target, lora)
}

/// The floats of a type; none where it is quantised or whole numbers.
fn float(kind: TensorType) -> Option<Float> {
    Some(match kind {
        TensorType::F32 => Float::F32,
        TensorType::F16 => Float::F16,
        TensorType::BF16 => Float::Bf16,
        _ => return None,
    })
}

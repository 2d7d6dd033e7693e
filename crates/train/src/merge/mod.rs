//! Merging a model and an adapter into one GGUF, which any GGUF reader can use.

mod conversion;

use conversion::{Conversion, Delta};
use hearth_formats::adapter::{AdapterError, AdapterFile, AdapterProblem, LinearName, TargetName};
use hearth_formats::durable;
use hearth_formats::gguf::{
    Gguf, GgufError, GgufProblem, GgufWriter, Metadata, Tensor, TensorHeader, TensorInfo, TensorType,
};
use hearth_kernels::Quant;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

/// The types of a merged file's weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuantRecipe {
    /// Each weight has the type of the base model's.
    Same,
    /// All matrices have this type. For types of less than 8 bits the output layer, which is more
    /// sensitive, has Q6_K.
    All(Quant),
    /// As [`QuantRecipe::All`], but the half of the values and of the down projections that matter
    /// most have Q6_K, too: Q4_K_M of Q4_K.
    Medium(Quant),
}

/// A merged file could not be written.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// The adapter does not belong to the model, or the file cannot be written.
    #[error(transparent)]
    Adapter(#[from] AdapterError),
    /// The model's file is invalid.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// A weight has an unsupported type.
    #[error(
        "The tensor '{tensor}' is of the type {kind}, which Hearth cannot convert yet. Merge into a file of another \
         quantization of this model."
    )]
    Type {
        /// The tensor.
        tensor: String,
        /// Its type's name.
        kind: &'static str,
    },
    /// A weight with an invalid scale.
    #[error("The tensor '{tensor}' is corrupt: {why}. Download the model again.")]
    Corrupt {
        /// The tensor.
        tensor: String,
        /// The reason.
        why: String,
    },
    /// A merged weight that the chosen type cannot represent.
    #[error("The tensor '{tensor}' cannot be stored as {kind}: {why}. Choose another type, such as BF16.")]
    NotStorable {
        /// The tensor.
        tensor: String,
        /// The type requested for it.
        kind: Quant,
        /// The reason.
        why: String,
    },
    /// The progress callback cancelled.
    #[error("Merging was cancelled. Nothing was written.")]
    Cancelled,
}

impl QuantRecipe {
    /// The recipes with several types: name, type of most weights, file type.
    const MEDIUM: [(&str, Quant, u32); 2] = [("Q4_K_M", Quant::Q4_K, 15), ("Q5_K_M", Quant::Q5_K, 17)];

    /// The recipe of this name, in any case: `Q4_K_M`, `Q5_K_M`, or a type such as
    /// `Q8_0`.
    pub fn from_name(name: &str) -> Option<Self> {
        let medium = Self::MEDIUM.iter().find(|medium| medium.0.eq_ignore_ascii_case(name));
        match medium {
            Some((_, quant, _)) => Some(Self::Medium(*quant)),
            None => Quant::from_name(name).map(Self::All),
        }
    }

    /// The names that [`QuantRecipe::from_name`] knows.
    pub fn names() -> Vec<&'static str> {
        let types = Quant::ALL.iter().map(|quant| quant.name());
        types.chain(Self::MEDIUM.map(|medium| medium.0)).collect()
    }

    /// The value of `general.file_type`.
    fn file_type(self) -> Option<u32> {
        match self {
            Self::Same => None,
            Self::Medium(of) => Self::MEDIUM.iter().find(|medium| medium.1 == of).map(|medium| medium.2),
            Self::All(quant) => Some(quant.file_type()),
        }
    }

    /// The type of a tensor in the merged file.
    fn kind_of(self, tensor: &TensorInfo, base: &Gguf, layers: usize) -> TensorType {
        let (quant, medium) = match self {
            Self::Same => return tensor.kind,
            Self::All(quant) => (quant, false),
            Self::Medium(quant) => (quant, true),
        };
        if tensor.shape.len() != 2 || tensor.rows() < 2 || !tensor.name.ends_with(".weight") {
            return tensor.kind;
        }
        let output = match base.tensor("output.weight") {
            Some(_) => "output.weight",
            None => "token_embd.weight",
        };
        let more = !quant.is_float() && quant != Quant::Q8_0 && tensor.name == output
            || medium && TargetName::from_weight(&tensor.name).is_some_and(|target| matters(target, layers));
        let requested = if more { Quant::Q6_K } else { quant };
        type_of(requested.for_rows_of(tensor.row_len()))
    }
}

/// Returns whether a medium (`_M`) recipe spends more bits on a weight: as in llama.cpp, the value
/// and down projections of the first and last eighth of the layers and of every third between.
fn matters(target: TargetName, layers: usize) -> bool {
    let (layer, eighth) = (target.layer, layers / 8);
    matches!(target.linear, LinearName::AttnV | LinearName::FfnDown)
        && (layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2)
}

/// The format of a tensor type, if the kernels support it.
fn quant_of(kind: TensorType) -> Option<Quant> {
    Quant::from_gguf_id(kind.id())
}

/// The tensor type of a format; GGUF has all.
fn type_of(quant: Quant) -> TensorType {
    TensorType::from_id(quant.gguf_id()).unwrap_or(TensorType::F32)
}

/// Writes `base` with `adapter` added to its weights to `path`, tensor by tensor, so that no model
/// is held in memory. The metadata are copied, except the names: `title`, the adapter's name, is
/// appended to the base's.
///
/// `progress` receives the fraction done, from 0 to 1, and returns whether to continue.
///
/// # Errors
/// If the adapter is for another model, a weight cannot be converted, the file cannot be written or
/// `progress` cancels; an existing file at `path` is then unchanged.
pub fn merge(
    base: &Gguf,
    adapter: &AdapterFile,
    mix: QuantRecipe,
    title: &str,
    path: &Path,
    progress: &mut dyn FnMut(f32) -> ControlFlow<()>,
) -> Result<(), MergeError> {
    adapter.check_base(base)?;
    let parts = parts(base, adapter, mix)?;
    let table: Vec<_> = parts.iter().flat_map(Part::headers).collect();
    let total = parts.iter().map(|part| part.info().byte_len).sum::<usize>().max(1);
    let mut done = 0;
    let writing = |error: GgufError| match error.problem {
        GgufProblem::Io(error) => Failed::Disk(error),
        _ => Failed::Merge(error.into()),
    };
    let written = durable::write_file(path, |out| {
        let mut writer = GgufWriter::begin(out, &metadata(base, mix, title)?, &table).map_err(writing)?;
        for part in &parts {
            match part {
                Part::Copied(tensor) => writer.tensor(tensor.bytes()).map_err(writing)?,
                Part::Converted(conversion) => {
                    for data in conversion.data()? {
                        writer.tensor(&data).map_err(writing)?;
                    }
                }
            }
            base.release(part.info());
            done += part.info().byte_len;
            if progress(done as f32 / total as f32).is_break() {
                return Err(Failed::Merge(MergeError::Cancelled));
            }
        }
        writer.finish().map(drop).map_err(writing)
    });
    written.map_err(|failed| match failed {
        Failed::Merge(error) => error,
        Failed::Disk(error) => MergeError::Adapter(AdapterError {
            path: path.to_owned(),
            problem: AdapterProblem::Write(error),
        }),
    })
}

/// A tensor of the base: copied or converted.
enum Part<'a> {
    Copied(Tensor<'a>),
    Converted(Conversion<'a>),
}

impl<'a> Part<'a> {
    /// The base's entry.
    fn info(&self) -> &'a TensorInfo {
        match self {
            Self::Copied(tensor) => tensor.info,
            Self::Converted(conversion) => conversion.info(),
        }
    }

    /// The entries of the merged file.
    fn headers(&self) -> Vec<TensorHeader> {
        match self {
            Self::Copied(tensor) => vec![TensorHeader {
                name: tensor.info.name.clone(),
                shape: tensor.info.shape.clone(),
                kind: tensor.info.kind,
            }],
            Self::Converted(conversion) => conversion.headers(),
        }
    }
}

/// The tensors of the merged file. A converted weight's old scale is multiplied into it; the scale
/// of its inputs has a meaning in NVFP4 only.
fn parts<'a>(base: &'a Gguf, adapter: &'a AdapterFile, mix: QuantRecipe) -> Result<Vec<Part<'a>>, MergeError> {
    let layers = base.required_u32(&format!("{}.block_count", base.architecture()?))? as usize;
    // The new type of a weight that changes.
    let converted = |info: &TensorInfo| {
        let kind = mix.kind_of(info, base, layers);
        (kind != info.kind || Delta::find(adapter, &info.name).is_some()).then_some(kind)
    };
    let is_dropped = |name: &str| {
        let weight_with = |end| converted(base.info(&format!("{}.weight", name.strip_suffix(end)?))?);
        weight_with(".scale").is_some() || weight_with(".input_scale").is_some_and(|kind| kind != TensorType::NVFP4)
    };
    let kept = base.tensors().filter(|info| !is_dropped(&info.name));
    kept.filter_map(|info| base.tensor(&info.name))
        .map(|tensor| match converted(tensor.info) {
            Some(kind) => Conversion::new(base, adapter, tensor, kind).map(Part::Converted),
            None => Ok(Part::Copied(tensor)),
        })
        .collect()
}

/// The reason that writing ended: an I/O error or another error.
enum Failed {
    Disk(io::Error),
    Merge(MergeError),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

impl<E: Into<MergeError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::Merge(error.into())
    }
}

/// The base's metadata, with a name that says that it was merged.
fn metadata(base: &Gguf, mix: QuantRecipe, title: &str) -> Result<Metadata, GgufError> {
    // A split model becomes one file.
    let entries = base.metadata().iter().filter(|(key, _)| !key.starts_with("split."));
    let mut metadata: Metadata = entries.map(|(key, value)| (key, value.clone())).collect();
    let base_name = base.str("general.name")?;
    if let Some(name) = base_name {
        metadata.insert("general.base_model.count", 1u32);
        metadata.insert("general.base_model.0.name", name);
    }
    metadata.insert("general.name", [base_name.unwrap_or_default(), title].join(" ").trim());
    metadata.insert("general.finetune", title);
    if let Some(file_type) = mix.file_type() {
        metadata.insert("general.file_type", file_type);
        metadata.insert("general.quantization_version", 2u32);
    }
    Ok(metadata)
}

//! Merging a model and an adapter into one GGUF, which any GGUF reader can use.

mod conversion;

use conversion::{Conversion, Delta};
use hearth_formats::adapter::{
    AdapterError, AdapterFile, AdapterProblem, BaseShape, LinearName, MERGED_KEY, TargetName,
};
use hearth_formats::durable;
use hearth_formats::gguf::{
    Gguf, GgufError, GgufProblem, GgufWriter, Metadata, Strings, Tensor, TensorHeader, TensorInfo, TensorType,
};
use hearth_kernels::Quant;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

/// The types of a merged file's weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuantRecipe {
    /// Each weight keeps its type.
    Same,
    /// All matrices have this type, except that the output layer, which is more sensitive, has Q6_K
    /// if the type has less than 8 bits.
    All(Quant),
    /// As [`QuantRecipe::All`], but about half of the value and down projections have Q6_K, too, as
    /// in Q4_K_M. Fused queries, keys and values have the next type with more bits.
    Medium(Quant),
}

/// A `_M` recipe of llama.cpp.
struct MediumRecipe {
    name: &'static str,
    /// The type of most weights.
    quant: Quant,
    /// The value of `general.file_type`.
    file_type: u32,
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
    /// A weight of an unsupported type.
    #[error(
        "The tensor '{tensor}' is of the type {kind}, which Hearth cannot convert yet. Merge into a file of another \
         quantization of this model."
    )]
    Type {
        /// The tensor.
        tensor: String,
        /// The name of its type.
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
    /// The progress callback cancelled the merge.
    #[error("Merging was cancelled. Nothing was written.")]
    Cancelled,
}

impl QuantRecipe {
    const MEDIUM: [MediumRecipe; 2] = [
        MediumRecipe {
            name: "Q4_K_M",
            quant: Quant::Q4_K,
            file_type: 15,
        },
        MediumRecipe {
            name: "Q5_K_M",
            quant: Quant::Q5_K,
            file_type: 17,
        },
    ];

    /// The recipe of this name, in any case: `Q4_K_M`, `Q5_K_M`, or a type such as `Q8_0`.
    pub fn from_name(name: &str) -> Option<Self> {
        let medium = Self::MEDIUM
            .iter()
            .find(|medium| medium.name.eq_ignore_ascii_case(name));
        match medium {
            Some(medium) => Some(Self::Medium(medium.quant)),
            None => Quant::from_name(name).map(Self::All),
        }
    }

    /// The names that [`QuantRecipe::from_name`] knows.
    pub fn names() -> Vec<&'static str> {
        let types = Quant::ALL.iter().map(|quant| quant.name());
        types.chain(Self::MEDIUM.map(|medium| medium.name)).collect()
    }

    /// The value of `general.file_type`; `None` keeps the base's.
    fn file_type(self) -> Option<u32> {
        match self {
            Self::Same => None,
            Self::Medium(quant) => Self::MEDIUM
                .iter()
                .find(|medium| medium.quant == quant)
                .map(|medium| medium.file_type),
            Self::All(quant) => Some(quant.file_type()),
        }
    }

    /// The type of a tensor in the merged file.
    fn kind_of(self, tensor: &TensorInfo, base: &Gguf, layers: usize) -> TensorType {
        let (quant, is_medium) = match self {
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
        if is_medium && tensor.name.ends_with(FUSED_ATTENTION) {
            let requested = if quant == Quant::Q4_K { Quant::Q5_K } else { Quant::Q6_K };
            return type_of(requested.for_rows_of(tensor.row_len()));
        }
        let has_more_bits = !quant.is_float() && quant != Quant::Q8_0 && tensor.name == output
            || is_medium
                && TargetName::from_weight(&tensor.name).is_some_and(|target| has_more_bits_in_medium(target, layers));
        let requested = if has_more_bits { Quant::Q6_K } else { quant };
        type_of(requested.for_rows_of(tensor.row_len()))
    }
}

/// The end of the name of the weight with fused queries, keys and values.
const FUSED_ATTENTION: &str = ".attn_qkv.weight";

/// Whether a medium (`_M`) recipe spends more bits on a weight. As in `use_more_bits` of llama.cpp,
/// these are the value and down projections in the first and last eighth of the layers and in every
/// third layer between.
fn has_more_bits_in_medium(target: TargetName, layers: usize) -> bool {
    let (layer, eighth) = (target.layer, layers / 8);
    matches!(target.linear, LinearName::AttnV | LinearName::FfnDown)
        && (layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2)
}

/// The kernels' format of a tensor type, if they support it.
fn quant_of(kind: TensorType) -> Option<Quant> {
    Quant::from_gguf_id(kind.id())
}

/// The tensor type of a format. GGUF has all of the kernels' formats.
fn type_of(quant: Quant) -> TensorType {
    TensorType::from_id(quant.gguf_id()).unwrap_or(TensorType::F32)
}

/// Writes the merged model to `path`, tensor by tensor, so that it is never in memory as a whole.
/// The metadata are copied, but `name` replaces the base's name.
///
/// `progress` receives the fraction done, from 0 to 1, and returns whether to continue.
///
/// # Errors
/// If the adapter is for another model, a weight cannot be converted, the file cannot be written or
/// `progress` cancels. An existing file at `path` is then unchanged.
pub fn merge(
    base: &Gguf,
    adapter: &AdapterFile,
    recipe: QuantRecipe,
    name: &str,
    path: &Path,
    progress: &mut dyn FnMut(f32) -> ControlFlow<()>,
) -> Result<(), MergeError> {
    adapter.check_base(base)?;
    let parts = parts(base, adapter, recipe)?;
    let headers: Vec<_> = parts.iter().flat_map(Part::headers).collect();
    let total_bytes = parts.iter().map(|part| part.info().byte_len).sum::<usize>().max(1);
    let mut bytes_done = 0;
    let write_error = |error: GgufError| match error.problem {
        GgufProblem::Io(error) => WriteError::Io(error),
        _ => WriteError::Merge(error.into()),
    };
    let result = durable::write_file(path, |out| {
        let metadata = metadata(base, adapter, recipe, name)?;
        let mut writer = GgufWriter::begin(out, &metadata, &headers).map_err(write_error)?;
        for part in &parts {
            match part {
                Part::Copy(tensor) => writer.tensor(tensor.bytes()).map_err(write_error)?,
                Part::Convert(conversion) => {
                    for data in conversion.data()? {
                        writer.tensor(&data).map_err(write_error)?;
                    }
                }
            }
            base.release(part.info());
            bytes_done += part.info().byte_len;
            if progress(bytes_done as f32 / total_bytes as f32).is_break() {
                return Err(WriteError::Merge(MergeError::Cancelled));
            }
        }
        writer.finish().map(drop).map_err(write_error)
    });
    result.map_err(|error| match error {
        WriteError::Merge(error) => error,
        WriteError::Io(error) => MergeError::Adapter(AdapterError {
            path: path.to_owned(),
            problem: AdapterProblem::Write(error),
        }),
    })
}

/// The source of tensors of the merged file.
enum Part<'a> {
    /// A tensor of the base model, unchanged.
    Copy(Tensor<'a>),
    /// A weight in a new type or with a LoRA update.
    Convert(Conversion<'a>),
}

impl<'a> Part<'a> {
    /// The tensor's entry in the base model.
    fn info(&self) -> &'a TensorInfo {
        match self {
            Self::Copy(tensor) => tensor.info,
            Self::Convert(conversion) => conversion.info(),
        }
    }

    /// The entries in the merged file.
    fn headers(&self) -> Vec<TensorHeader> {
        match self {
            Self::Copy(tensor) => vec![TensorHeader {
                name: tensor.info.name.clone(),
                shape: tensor.info.shape.clone(),
                kind: tensor.info.kind,
            }],
            Self::Convert(conversion) => conversion.headers(),
        }
    }
}

/// The parts of the merged file. The base's tensor scale of a converted weight is dropped, since it
/// is multiplied into the weight. Its input scale is dropped unless the new type is NVFP4, the only
/// one that uses it.
fn parts<'a>(base: &'a Gguf, adapter: &'a AdapterFile, recipe: QuantRecipe) -> Result<Vec<Part<'a>>, MergeError> {
    let layers = base.required_u32(&format!("{}.block_count", base.architecture()?))? as usize;
    let shape = BaseShape::from_gguf(base)?;
    let delta = |info: &TensorInfo| Delta::find(adapter, &shape, &info.name);
    // The type to convert a tensor to; `None` if it is copied.
    let converted_kind = |info: &TensorInfo| {
        let kind = recipe.kind_of(info, base, layers);
        (kind != info.kind || !delta(info).is_empty()).then_some(kind)
    };
    let is_dropped = |name: &str| {
        let weight_kind = |suffix| converted_kind(base.info(&format!("{}.weight", name.strip_suffix(suffix)?))?);
        weight_kind(".scale").is_some() || weight_kind(".input_scale").is_some_and(|kind| kind != TensorType::NVFP4)
    };
    let infos = base.tensors().filter(|info| !is_dropped(&info.name));
    infos
        .filter_map(|info| base.tensor(&info.name))
        .map(|tensor| match converted_kind(tensor.info) {
            Some(kind) => Conversion::new(base, delta(tensor.info), tensor, kind).map(Part::Convert),
            None => Ok(Part::Copy(tensor)),
        })
        .collect()
}

/// An error while the merged file is written.
enum WriteError {
    Io(io::Error),
    Merge(MergeError),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl<E: Into<MergeError>> From<E> for WriteError {
    fn from(error: E) -> Self {
        Self::Merge(error.into())
    }
}

/// The base's metadata, with the name, the adapters and the file type of the merged model.
fn metadata(base: &Gguf, adapter: &AdapterFile, recipe: QuantRecipe, name: &str) -> Result<Metadata, GgufError> {
    // A split model becomes one file.
    let entries = base.metadata().iter().filter(|(key, _)| !key.starts_with("split."));
    let mut metadata: Metadata = entries.map(|(key, value)| (key, value.clone())).collect();
    if let Some(base_name) = base.str("general.name")? {
        metadata.insert("general.base_model.count", 1u32);
        metadata.insert("general.base_model.0.name", base_name);
    }
    metadata.insert("general.name", name);
    metadata.insert("general.finetune", name);
    if let Some(manifest) = &adapter.manifest {
        // An invalid list counts as an empty one.
        let earlier = base.strings(MERGED_KEY).ok().flatten();
        let earlier = earlier.into_iter().flat_map(Strings::iter);
        let merged: Strings = earlier.chain([&*manifest.id()]).collect();
        metadata.insert(MERGED_KEY, merged);
    }
    if let Some(file_type) = recipe.file_type() {
        metadata.insert("general.file_type", file_type);
        metadata.insert("general.quantization_version", 2u32);
    }
    Ok(metadata)
}

//! Merging a model and an adapter into one GGUF, which any GGUF reader can use.

use hearth_formats::adapter::{AdapterError, AdapterFile, AdapterProblem, LinearName, LoraTensors, TargetName};
use hearth_formats::durable;
use hearth_formats::gguf::{
    Gguf, GgufError, GgufProblem, GgufWriter, Metadata, Tensor, TensorHeader, TensorInfo, TensorType,
};
use hearth_kernels::blocks::BlockError;
use hearth_kernels::{Quant, team};
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;

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
         quantisation of this model."
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
    let layers = base.required_u32(&format!("{}.block_count", base.architecture()?))? as usize;
    let table: Vec<_> = base
        .tensors()
        .map(|info| TensorHeader {
            name: info.name.clone(),
            shape: info.shape.clone(),
            kind: mix.kind_of(info, base, layers),
        })
        .collect();
    let total = base.tensors().map(|info| info.byte_len).sum::<usize>().max(1);
    let mut done = 0;
    let writing = |error: GgufError| match error.problem {
        GgufProblem::Io(error) => Failed::Disk(error),
        _ => Failed::Merge(error.into()),
    };
    let written = durable::write_file(path, |out| {
        let mut writer = GgufWriter::begin(out, &metadata(base, mix, title)?, &table).map_err(writing)?;
        for (info, header) in base.tensors().zip(&table) {
            let Some(tensor) = base.tensor(&info.name) else {
                continue;
            };
            let delta = Delta::of(base, adapter, &info.name)?;
            if delta.is_none() && header.kind == info.kind {
                writer.tensor(tensor.bytes()).map_err(writing)?;
            } else {
                writer.tensor(&convert(tensor, header.kind, delta)?).map_err(writing)?;
            }
            base.release(info);
            done += info.byte_len;
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

/// The LoRA update of a weight.
#[derive(Clone, Copy)]
struct Delta<'a> {
    lora: &'a LoraTensors,
    /// Factor of `B A`.
    factor: f32,
}

impl<'a> Delta<'a> {
    /// The adapter's update of a tensor, or `None`.
    fn of(base: &Gguf, adapter: &'a AdapterFile, tensor: &str) -> Result<Option<Self>, MergeError> {
        let target = TargetName::from_weight(tensor);
        let Some((target, lora)) = target.and_then(|target| Some((target, adapter.tensors.get(&target)?))) else {
            return Ok(None);
        };
        let mut factor = adapter.scale(target).unwrap_or_default();
        // A linear adds the LoRA product after the weight's own scale, unscaled. An update of the
        // weight is multiplied by that scale, so it is divided by it here.
        if let Some(own) = base.tensor(&format!("{target}.scale")) {
            let mut scale = [0.0];
            let read = quant_of(own.info.kind).map(|quant| quant.dequantize_row(own.bytes(), &mut scale));
            let [scale] = scale;
            if !matches!(read, Some(Ok(()))) || scale == 0.0 || !scale.is_finite() {
                return Err(MergeError::Corrupt {
                    tensor: own.info.name.clone(),
                    why: "nothing can be merged into a weight with such a scale".to_owned(),
                });
            }
            factor /= scale;
        }
        Ok(Some(Self { lora, factor }))
    }

    /// Writes row `row` of `factor * B A`.
    fn row(&self, row: usize, out: &mut [f32]) {
        let lora = self.lora;
        out.fill(0.0);
        for (b, a) in lora.b[row * lora.rank..][..lora.rank]
            .iter()
            .zip(lora.a.chunks_exact(lora.inputs))
        {
            for (out, a) in out.iter_mut().zip(a) {
                *out += b * a;
            }
        }
        out.iter_mut().for_each(|out| *out *= self.factor);
    }
}

/// Bytes of output per work item of a thread.
const BYTES_A_CHUNK: usize = 64 * 1024;

/// A matrix converted to another type, with an optional LoRA update, row by row in f32.
fn convert(tensor: Tensor, kind: TensorType, delta: Option<Delta>) -> Result<Vec<u8>, MergeError> {
    let info = tensor.info;
    let known = |kind: TensorType| {
        quant_of(kind).ok_or_else(|| MergeError::Type {
            tensor: info.name.clone(),
            kind: kind.name(),
        })
    };
    let (from, to) = (known(info.kind)?, known(kind)?);
    let fail = |error: BlockError| MergeError::NotStorable {
        tensor: info.name.clone(),
        kind: to,
        why: error.to_string(),
    };
    // The mapped tensor has been checked to have these sizes.
    let (cols, rows) = (info.row_len() as usize, info.rows() as usize);
    let partial = |quant| fail(BlockError::PartialBlock { quant, weights: cols });
    let from_row = from.row_bytes(cols).ok_or_else(|| partial(from))?;
    let to_row = to.row_bytes(cols).ok_or_else(|| partial(to))?;

    let mut out = vec![0; to_row * rows];
    if out.is_empty() {
        return Ok(out);
    }
    let rows_a_chunk = (BYTES_A_CHUNK / to_row).max(1);
    let failure = Mutex::new(None);
    team::run_over(&mut out, rows_a_chunk * to_row, &|chunk, out| {
        let (mut weights, mut added) = (vec![0.0; cols], vec![0.0; cols]);
        for (i, out) in out.chunks_exact_mut(to_row).enumerate() {
            let row = chunk * rows_a_chunk + i;
            let converted = from
                .dequantize_row(&tensor.bytes()[row * from_row..][..from_row], &mut weights)
                .and_then(|()| {
                    if let Some(delta) = delta {
                        delta.row(row, &mut added);
                        weights
                            .iter_mut()
                            .zip(&added)
                            .for_each(|(weight, added)| *weight += added);
                    }
                    to.quantize_row(&weights, out)
                })
                .and_then(|()| match to.has_bad_scale(out) {
                    // Formats with scales check this themselves; a plain one turns values out of
                    // range into infinities.
                    true => Err(BlockError::NotStorable { quant: to, at: 0 }),
                    false => Ok(()),
                });
            if let Err(error) = converted {
                *failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(error);
            }
        }
    });
    match failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        Some(error) => Err(fail(error)),
        None => Ok(out),
    }
}

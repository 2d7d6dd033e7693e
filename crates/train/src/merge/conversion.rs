//! Weights that a merge converts or updates.

use super::{MergeError, quant_of, type_of};
use hearth_formats::Architecture;
use hearth_formats::adapter::{AdapterFile, BaseShape, LoraTensors, ModuleName, TargetName};
use hearth_formats::gguf::{Gguf, Tensor, TensorHeader, TensorInfo, TensorType};
use hearth_formats::shape::{LayerPart, LinearName};
use hearth_kernels::blocks::BlockError;
use hearth_kernels::{Quant, team};
use std::ops::Range;
use std::sync::Mutex;

/// Bytes of output per work item of a thread.
const CHUNK_BYTES: usize = 64 * 1024;

/// The largest magnitude in NVFP4 without a tensor scale: the product of the maxima of E2M1 (the
/// weights) and E4M3 (the block scales).
const NVFP4_MAX: f32 = 6.0 * 448.0;

/// The conversion of a matrix to another type, with an optional LoRA update, row by row in f32.
pub(super) struct Conversion<'a> {
    tensor: Tensor<'a>,
    from: Quant,
    to: Quant,
    /// The base's tensor scale, `NAME.scale`, which is multiplied into the weights.
    base_scale: f32,
    delta: Delta<'a>,
    /// The name of the tensor scale to write, if any.
    scale_name: Option<String>,
}

impl<'a> Conversion<'a> {
    /// The conversion of a tensor of `base` to `kind`.
    pub fn new(base: &Gguf, delta: Delta<'a>, tensor: Tensor<'a>, kind: TensorType) -> Result<Self, MergeError> {
        let info = tensor.info;
        let supported = |kind: TensorType| {
            quant_of(kind).ok_or_else(|| MergeError::Type {
                tensor: info.name.clone(),
                kind: kind.name(),
            })
        };
        let (from, to) = (supported(info.kind)?, supported(kind)?);
        let scale_name = format!("{}.scale", info.name.trim_end_matches(".weight"));
        let base_has_scale = from == Quant::NVFP4 && base.info(&scale_name).is_some();
        let writes_scale = to == Quant::NVFP4 && (base_has_scale || supports_scale(base, &info.name)?);
        Ok(Self {
            tensor,
            from,
            to,
            base_scale: base_scale(base, &scale_name)?,
            delta,
            scale_name: writes_scale.then_some(scale_name),
        })
    }

    /// The tensor's entry in the base model.
    pub fn info(&self) -> &'a TensorInfo {
        self.tensor.info
    }

    /// The entries in the merged file: the weight, and its scale if one is written.
    pub fn headers(&self) -> Vec<TensorHeader> {
        let weight = TensorHeader {
            name: self.info().name.clone(),
            shape: self.info().shape.clone(),
            kind: type_of(self.to),
        };
        let scale = self.scale_name.clone().map(|name| TensorHeader {
            name,
            shape: vec![1],
            kind: TensorType::F32,
        });
        std::iter::once(weight).chain(scale).collect()
    }

    /// The data of the [headers](Self::headers). The tensor scale maps the largest magnitude to
    /// [`NVFP4_MAX`], so that the block scales use their whole range.
    pub fn data(&self) -> Result<Vec<Vec<u8>>, MergeError> {
        if self.scale_name.is_none() {
            return Ok(vec![self.quantize(1.0)?]);
        }
        let scale = match self.max_magnitude()? {
            0.0 => 1.0,
            // Weights divided by a subnormal scale could exceed NVFP4_MAX.
            max => (max / NVFP4_MAX).max(f32::MIN_POSITIVE),
        };
        Ok(vec![self.quantize(scale)?, scale.to_le_bytes().to_vec()])
    }

    /// The largest magnitude of the weights.
    fn max_magnitude(&self) -> Result<f32, MergeError> {
        let mut row_maxima = vec![0.0_f32; self.info().rows() as usize];
        self.for_rows(&mut row_maxima, &|weights, out| {
            out[0] = weights.iter().fold(0.0, |max, weight| max.max(weight.abs()));
            Ok(())
        })?;
        Ok(row_maxima.into_iter().fold(0.0, f32::max))
    }

    /// The blocks of the weights divided by `scale`.
    fn quantize(&self, scale: f32) -> Result<Vec<u8>, MergeError> {
        let to = self.to;
        let mut out = vec![0; self.row_bytes(to)? * self.info().rows() as usize];
        self.for_rows(&mut out, &move |weights, out| {
            weights.iter_mut().for_each(|weight| *weight /= scale);
            to.quantize_row(weights, out)?;
            if to.has_bad_scale(out) {
                // Formats with scales check this themselves. F16 and BF16 have turned values out of
                // range into infinities.
                Err(BlockError::NotStorable { quant: to, at: 0 })
            } else {
                Ok(())
            }
        })?;
        Ok(out)
    }

    /// Calls `row_op` with each row's weights in f32 and its part of `out`, on all threads.
    fn for_rows<T: Send>(&self, out: &mut [T], row_op: &RowOp<T>) -> Result<(), MergeError> {
        if out.is_empty() {
            return Ok(());
        }
        let (cols, rows) = (self.info().row_len() as usize, self.info().rows() as usize);
        let row_bytes = self.row_bytes(self.from)?;
        let chunk_rows = (CHUNK_BYTES / self.row_bytes(self.to)?).max(1);
        let out_row_len = out.len() / rows;
        let failure = Mutex::new(None);
        team::run_over(out, chunk_rows * out_row_len, &|chunk, out| {
            let (mut weights, mut update) = (vec![0.0; cols], vec![0.0; cols]);
            for (i, out) in out.chunks_exact_mut(out_row_len).enumerate() {
                let row = chunk * chunk_rows + i;
                let bytes = &self.tensor.bytes()[row * row_bytes..][..row_bytes];
                let result = self.from.dequantize_row(bytes, &mut weights).and_then(|()| {
                    weights.iter_mut().for_each(|weight| *weight *= self.base_scale);
                    if self.delta.row(row, &mut update) {
                        weights
                            .iter_mut()
                            .zip(&update)
                            .for_each(|(weight, update)| *weight += update);
                    }
                    row_op(&mut weights, out)
                });
                if let Err(error) = result {
                    *failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(error);
                }
            }
        });
        match failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            Some(error) => Err(self.not_storable(&error)),
            None => Ok(()),
        }
    }

    /// Bytes of a row of the weight in a format.
    fn row_bytes(&self, quant: Quant) -> Result<usize, MergeError> {
        // The row length of a mapped tensor fits in usize.
        let weights = self.info().row_len() as usize;
        let bytes = quant.row_bytes(weights);
        bytes.ok_or_else(|| self.not_storable(&BlockError::PartialBlock { quant, weights }))
    }

    fn not_storable(&self, error: &BlockError) -> MergeError {
        MergeError::NotStorable {
            tensor: self.info().name.clone(),
            kind: self.to,
            why: error.to_string(),
        }
    }
}

/// An operation on a row's weights and its part of the output.
type RowOp<T> = dyn Fn(&mut [f32], &mut [T]) -> Result<(), BlockError> + Sync;

/// Whether both Hearth and llama.cpp apply a tensor scale to this weight in NVFP4. Hearth applies
/// it to any linear layer; llama.cpp to attention weights, and in some architectures to
/// feed-forward weights without biases.
fn supports_scale(base: &Gguf, weight: &str) -> Result<bool, MergeError> {
    let architecture = Architecture::named(base.architecture()?);
    let Some(name) = ModuleName::from_weight(weight, architecture) else {
        return Ok(false);
    };
    let is_of_mixer = |part: &LinearName| part.part() == LayerPart::Mixer;
    Ok(name.module.parts().iter().all(is_of_mixer)
        || architecture.is_some_and(Architecture::has_ffn_scales)
            && base
                .info(&format!("{}.bias", weight.trim_end_matches(".weight")))
                .is_none())
}

/// The value of the base's tensor scale of this name, or 1 if it has none.
fn base_scale(base: &Gguf, name: &str) -> Result<f32, MergeError> {
    let Some(tensor) = base.tensor(name) else {
        return Ok(1.0);
    };
    // Ignored when the model runs, too: see `Weights::embedding` of hearth-llm.
    if name == "token_embd.scale" {
        return Ok(1.0);
    }
    let mut scale = [0.0];
    let result = quant_of(tensor.info.kind).map(|quant| quant.dequantize_row(tensor.bytes(), &mut scale));
    match scale {
        [scale] if matches!(result, Some(Ok(()))) && scale.is_finite() => Ok(scale),
        _ => Err(MergeError::Corrupt {
            tensor: name.to_owned(),
            why: "it is no finite number".to_owned(),
        }),
    }
}

/// The LoRA update of a weight.
pub(super) struct Delta<'a>(Vec<RowsDelta<'a>>);

/// The update of the rows of one linear: `factor * B A`.
struct RowsDelta<'a> {
    rows: Range<usize>,
    lora: &'a LoraTensors,
    factor: f32,
}

impl<'a> Delta<'a> {
    /// The adapter's update of a tensor of its base model; empty if it has none. A fused weight has
    /// the updates of its linears.
    pub fn find(adapter: &'a AdapterFile, base: &BaseShape, tensor: &str) -> Self {
        let architecture = Architecture::named(&base.architecture);
        let Some(name) = ModuleName::from_weight(tensor, architecture) else {
            return Self(Vec::new());
        };
        let update = |target: TargetName| {
            Some(RowsDelta {
                rows: name.module.rows(base.layers.get(name.layer)?, target.linear)?,
                lora: adapter.tensors.get(&target)?,
                factor: adapter.scale(target)?,
            })
        };
        Self(name.targets().filter_map(update).collect())
    }

    /// Whether no row is changed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes a row of the update to `out`. `false` means that the row is not changed.
    fn row(&self, row: usize, out: &mut [f32]) -> bool {
        let Some(delta) = self.0.iter().find(|delta| delta.rows.contains(&row)) else {
            return false;
        };
        let (lora, row) = (delta.lora, row - delta.rows.start);
        out.fill(0.0);
        for (b, a) in lora.b[row * lora.rank..][..lora.rank]
            .iter()
            .zip(lora.a.chunks_exact(lora.inputs))
        {
            for (out, a) in out.iter_mut().zip(a) {
                *out += b * a;
            }
        }
        out.iter_mut().for_each(|out| *out *= delta.factor);
        true
    }
}

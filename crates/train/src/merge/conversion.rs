//! Weights that a merge recomputes.

use super::{MergeError, quant_of, type_of};
use hearth_formats::Architecture;
use hearth_formats::adapter::{AdapterFile, LinearName, LoraTensors, TargetName};
use hearth_formats::gguf::{Gguf, Tensor, TensorHeader, TensorInfo, TensorType};
use hearth_kernels::blocks::BlockError;
use hearth_kernels::{Quant, team};
use std::sync::Mutex;

/// Bytes of output per work item of a thread.
const BYTES_A_CHUNK: usize = 64 * 1024;

/// The largest magnitude in NVFP4, without a scale of the whole tensor: E2M1's times E4M3's.
const NVFP4_MAX: f32 = 6.0 * 448.0;

/// A matrix converted to another type, with an optional LoRA update, row by row in f32.
pub(super) struct Conversion<'a> {
    tensor: Tensor<'a>,
    from: Quant,
    to: Quant,
    /// The base's `NAME.scale`; multiplied into the weights.
    scale: f32,
    delta: Option<Delta<'a>>,
    /// Name of the scale to write; `None` means that none is written.
    scale_name: Option<String>,
}

impl<'a> Conversion<'a> {
    /// The conversion of a tensor of `base` to `kind`.
    pub fn new(
        base: &Gguf,
        adapter: &'a AdapterFile,
        tensor: Tensor<'a>,
        kind: TensorType,
    ) -> Result<Self, MergeError> {
        let info = tensor.info;
        let known = |kind: TensorType| {
            quant_of(kind).ok_or_else(|| MergeError::Type {
                tensor: info.name.clone(),
                kind: kind.name(),
            })
        };
        let (from, to) = (known(info.kind)?, known(kind)?);
        let scale_name = format!("{}.scale", info.name.trim_end_matches(".weight"));
        let had_scale = from == Quant::NVFP4 && base.info(&scale_name).is_some();
        let has_scale = to == Quant::NVFP4 && (had_scale || takes_scale(base, &info.name)?);
        Ok(Self {
            tensor,
            from,
            to,
            scale: own_scale(base, &scale_name)?,
            delta: Delta::find(adapter, &info.name),
            scale_name: has_scale.then_some(scale_name),
        })
    }

    /// The base's entry.
    pub fn info(&self) -> &'a TensorInfo {
        self.tensor.info
    }

    /// The entries of the merged file: the weight, and its scale if it has one.
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

    /// The data of the [headers](Self::headers). A scale takes the largest weight to the largest
    /// of the type, so that the scales of blocks use their whole range.
    pub fn data(&self) -> Result<Vec<Vec<u8>>, MergeError> {
        if self.scale_name.is_none() {
            return Ok(vec![self.quantized(1.0)?]);
        }
        let scale = match self.largest()? {
            0.0 => 1.0,
            // Not subnormal: then a quotient might be too large.
            largest => (largest / NVFP4_MAX).max(f32::MIN_POSITIVE),
        };
        Ok(vec![self.quantized(scale)?, scale.to_le_bytes().to_vec()])
    }

    /// The largest magnitude of the weights.
    fn largest(&self) -> Result<f32, MergeError> {
        let mut of_rows = vec![0.0_f32; self.info().rows() as usize];
        self.for_rows(&mut of_rows, &|weights, out| {
            out[0] = weights.iter().fold(0.0, |most, weight| most.max(weight.abs()));
            Ok(())
        })?;
        Ok(of_rows.into_iter().fold(0.0, f32::max))
    }

    /// The blocks of the weights divided by `scale`.
    fn quantized(&self, scale: f32) -> Result<Vec<u8>, MergeError> {
        let to = self.to;
        let mut out = vec![0; self.row_bytes(to)? * self.info().rows() as usize];
        self.for_rows(&mut out, &move |weights, out| {
            weights.iter_mut().for_each(|weight| *weight /= scale);
            to.quantize_row(weights, out)?;
            if to.has_bad_scale(out) {
                // Formats with scales check this themselves; a plain one turns values out of range
                // into infinities.
                Err(BlockError::NotStorable { quant: to, at: 0 })
            } else {
                Ok(())
            }
        })?;
        Ok(out)
    }

    /// Calls `each` on every row's weights in f32 and its part of `out`, on all threads.
    fn for_rows<T: Send>(&self, out: &mut [T], each: &EachRow<T>) -> Result<(), MergeError> {
        if out.is_empty() {
            return Ok(());
        }
        let (cols, rows) = (self.info().row_len() as usize, self.info().rows() as usize);
        let from_row = self.row_bytes(self.from)?;
        let rows_a_chunk = (BYTES_A_CHUNK / self.row_bytes(self.to)?).max(1);
        let out_row = out.len() / rows;
        let failure = Mutex::new(None);
        team::run_over(out, rows_a_chunk * out_row, &|chunk, out| {
            let (mut weights, mut added) = (vec![0.0; cols], vec![0.0; cols]);
            for (i, out) in out.chunks_exact_mut(out_row).enumerate() {
                let row = chunk * rows_a_chunk + i;
                let bytes = &self.tensor.bytes()[row * from_row..][..from_row];
                let done = self.from.dequantize_row(bytes, &mut weights).and_then(|()| {
                    weights.iter_mut().for_each(|weight| *weight *= self.scale);
                    if let Some(delta) = self.delta {
                        delta.row(row, &mut added);
                        weights
                            .iter_mut()
                            .zip(&added)
                            .for_each(|(weight, added)| *weight += added);
                    }
                    each(&mut weights, out)
                });
                if let Err(error) = done {
                    *failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(error);
                }
            }
        });
        match failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            Some(error) => Err(self.fail(&error)),
            None => Ok(()),
        }
    }

    /// Bytes of a row of the weight in a format.
    fn row_bytes(&self, quant: Quant) -> Result<usize, MergeError> {
        // The mapped tensor has been checked to have this size.
        let weights = self.info().row_len() as usize;
        let bytes = quant.row_bytes(weights);
        bytes.ok_or_else(|| self.fail(&BlockError::PartialBlock { quant, weights }))
    }

    fn fail(&self, error: &BlockError) -> MergeError {
        MergeError::NotStorable {
            tensor: self.info().name.clone(),
            kind: self.to,
            why: error.to_string(),
        }
    }
}

/// The work on a row's weights and its part of the output.
type EachRow<T> = dyn Fn(&mut [f32], &mut [T]) -> Result<(), BlockError> + Sync;

/// Whether all readers apply a scale of the whole tensor to this weight in NVFP4. Hearth applies it
/// to any linear layer. llama.cpp applies it to attention weights, and to feed-forward weights in
/// some architectures and without biases.
fn takes_scale(base: &Gguf, weight: &str) -> Result<bool, MergeError> {
    let Some(target) = TargetName::from_weight(weight) else {
        return Ok(false);
    };
    Ok(match target.linear {
        LinearName::AttnQ | LinearName::AttnK | LinearName::AttnV | LinearName::AttnOutput => true,
        LinearName::FfnGate | LinearName::FfnUp | LinearName::FfnDown => {
            Architecture::named(base.architecture()?).is_some_and(Architecture::has_ffn_scales)
                && base.info(&format!("{target}.bias")).is_none()
        }
    })
}

/// The value of a scale; 1 if the file has none.
fn own_scale(base: &Gguf, name: &str) -> Result<f32, MergeError> {
    let Some(tensor) = base.tensor(name) else {
        return Ok(1.0);
    };
    // See `Weights::embedding` of hearth-llm.
    if name == "token_embd.scale" {
        return Ok(1.0);
    }
    let mut scale = [0.0];
    let read = quant_of(tensor.info.kind).map(|quant| quant.dequantize_row(tensor.bytes(), &mut scale));
    match scale {
        [scale] if matches!(read, Some(Ok(()))) && scale.is_finite() => Ok(scale),
        _ => Err(MergeError::Corrupt {
            tensor: name.to_owned(),
            why: "it is no finite number".to_owned(),
        }),
    }
}

/// The LoRA update of a weight.
#[derive(Clone, Copy)]
pub(super) struct Delta<'a> {
    lora: &'a LoraTensors,
    /// Factor of `B A`.
    factor: f32,
}

impl<'a> Delta<'a> {
    /// The adapter's update of a tensor, or `None`.
    pub fn find(adapter: &'a AdapterFile, tensor: &str) -> Option<Self> {
        let target = TargetName::from_weight(tensor)?;
        Some(Self {
            lora: adapter.tensors.get(&target)?,
            factor: adapter.scale(target)?,
        })
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

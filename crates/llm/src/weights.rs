//! Loads the tensors of a file as inputs of the operations: checks them, packs them for the CPU,
//! and moves them to their device.

use crate::arch::{Config, RopeSpec};
use crate::cpu_matrices::CpuMatrices;
use crate::error::LoadError;
use crate::header_keys::POSITIVE;
use crate::ops::{Adapter, Bias, Linear, MatrixSpec, Norm, SharedRope};
use crate::packed::{PackedWeights, UnpackedMatrix};
use burn::backend::{AllocationProperty, Bytes, Dispatch};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use hearth_formats::gguf::{Gguf, TensorType};
use hearth_kernels::rope::Rope;
use hearth_kernels::{Layout, Quant, ShapeError, matrix};
use std::ops::{ControlFlow, Range};

/// Consecutive rows of a tensor, which are a matrix.
struct MatrixRows<'n> {
    /// The tensor's name without `.weight`.
    name: &'n str,
    rows: Range<usize>,
    /// All rows and columns of the tensor.
    size: [usize; 2],
}

/// Loads weights one after another, and reports progress.
pub(crate) struct Weights<'a> {
    gguf: &'a Gguf,
    packed: PackedWeights,
    /// The device of the next weights.
    device: Device,
    /// The planned context length, in tokens.
    context: usize,
    progress: &'a mut dyn FnMut(f32) -> ControlFlow<()>,
    bytes_done: u64,
    bytes_total: u64,
    /// RoPEs loaded so far, which layers share.
    ropes: Vec<(RopeSpec, SharedRope)>,
    /// Matrices on the CPU loaded so far.
    cpu_matrices: CpuMatrices,
}

impl<'a> Weights<'a> {
    pub fn new(
        gguf: &'a Gguf,
        packed: PackedWeights,
        device: Device,
        context: usize,
        progress: &'a mut dyn FnMut(f32) -> ControlFlow<()>,
    ) -> Self {
        let bytes_total = gguf.tensors().map(|tensor| tensor.byte_len as u64).sum::<u64>().max(1);
        Self {
            gguf,
            packed,
            device,
            context,
            progress,
            bytes_done: 0,
            bytes_total,
            ropes: Vec::new(),
            cpu_matrices: CpuMatrices::default(),
        }
    }

    pub fn gguf(&self) -> &'a Gguf {
        self.gguf
    }

    /// Ends loading, after the last weight. Returns the matrices on the CPU.
    pub fn finish(self) -> CpuMatrices {
        self.packed.finish();
        self.cpu_matrices
    }

    /// Sets the device of the next weights.
    pub fn set_device(&mut self, device: &Device) {
        self.device = device.clone();
    }

    /// The embedding `[vocab, width]`, also used as a tied output layer. It has no scale and no
    /// bias, since a lookup applies none.
    pub fn embedding(&mut self, config: &Config) -> Result<Linear<Dispatch>, LoadError> {
        self.matrix(&MatrixRows {
            name: "token_embd",
            rows: 0..config.vocab,
            size: [config.vocab, config.width],
        })
    }

    /// A linear layer: the weight `[rows, cols]`, packed on the CPU and in the file's layout on a
    /// GPU, with the scale `NAME.scale` and the bias `NAME.bias` if the file has them.
    pub fn linear(&mut self, name: &str, rows: usize, cols: usize) -> Result<Linear<Dispatch>, LoadError> {
        self.rows_of(name, name, 0..rows, [rows, cols])
    }

    /// As [`Weights::linear`], for one of the linear layers that have the rows of `fused`, a tensor
    /// of `size` rows and columns. The scale is the scale of `fused`. The bias is in its rows of
    /// the bias of `fused`, or in `NAME.bias`.
    pub fn rows_of(
        &mut self,
        fused: &str,
        name: &str,
        rows: Range<usize>,
        size: [usize; 2],
    ) -> Result<Linear<Dispatch>, LoadError> {
        let own_rows = 0..rows.len();
        let mut linear = self.matrix(&MatrixRows {
            name: fused,
            rows: rows.clone(),
            size,
        })?;
        linear.spec.scale = self.scale(fused)?;
        for (name, rows, length) in [(fused, rows, size[0]), (name, own_rows.clone(), own_rows.len())] {
            let bias = format!("{name}.bias");
            if self.gguf.tensor(&bias).is_some() {
                let values = self.float_vec(&bias, length)?;
                linear.bias = Bias::Add(self.upload(values[rows].to_vec()).into_dispatch());
                break;
            }
        }
        Ok(linear)
    }

    fn matrix(&mut self, source: &MatrixRows) -> Result<Linear<Dispatch>, LoadError> {
        let [all_rows, cols] = source.size;
        let (first, rows) = (source.rows.start, source.rows.len());
        let tensor_name = format!("{}.weight", source.name);
        let (quant, bytes) = self.tensor(&tensor_name, &[cols, all_rows])?;
        // Rows are whole blocks, so they can be separated in every format.
        let row_bytes = bytes.len() / all_rows.max(1);
        let bytes = &bytes[first * row_bytes..source.rows.end * row_bytes];
        self.advance(bytes.len())?;
        let matrix = UnpackedMatrix {
            name: &tensor_name,
            first_row: first,
            quant,
            rows,
            cols,
            bytes,
        };
        let (layout, bytes, dtype) = if self.device == Device::flex() {
            let layout = matrix::layout(quant, rows, cols);
            let bytes = self.packed(&matrix)?;
            self.cpu_matrices.add(quant, layout, [rows, cols], bytes.clone());
            let bytes = Bytes::from_shared(bytes, AllocationProperty::File);
            (layout, bytes, DType::U8)
        } else {
            self.check(&matrix)?;
            // GPU kernels read 32-bit words.
            let mut words = bytes.to_vec();
            words.resize(bytes.len().next_multiple_of(size_of::<u32>()), 0);
            (Layout::Plain, Bytes::from_bytes_vec(words), DType::U32)
        };
        if source.rows.end == all_rows {
            self.release(&tensor_name);
        }
        let length = bytes.len() / dtype.size();
        let data = TensorData::from_bytes(bytes, [length], dtype);
        let upload = |data| Tensor::<1, Int>::from_data(data, (&self.device, dtype));
        let weight = self.device.memory_persistent_allocations(data, upload).into_dispatch();
        Ok(Linear {
            weight,
            spec: MatrixSpec {
                quant,
                layout,
                rows,
                cols,
                scale: 1.0,
            },
            adapter: Adapter::None,
            bias: Bias::None,
        })
    }

    /// A matrix packed for the CPU, now or by an earlier load. Also in the plain layout, it is not
    /// a map of the model's file: overwriting the file must not affect a loaded model.
    fn packed(&mut self, matrix: &UnpackedMatrix) -> Result<bytes::Bytes, LoadError> {
        // Cached matrices were checked by the load that packed them.
        if let Some(cached) = self.packed.cached(matrix) {
            return Ok(cached);
        }
        self.check(matrix)?;
        let packed = self.packed.pack(matrix);
        packed.map_err(|error| self.unsupported(matrix, &error))
    }

    fn unsupported(&self, matrix: &UnpackedMatrix, error: &ShapeError) -> LoadError {
        LoadError::unsupported(self.gguf, &format!("the tensor '{}': {error}", matrix.name))
    }

    /// Refuses a matrix with values that are not finite.
    fn check(&self, matrix: &UnpackedMatrix) -> Result<(), LoadError> {
        if matrix::is_finite(matrix.quant, matrix.cols, matrix.bytes) {
            Ok(())
        } else {
            Err(self.not_finite(matrix.name))
        }
    }

    /// Releases the mapped pages of a tensor that was copied, or whose packed copy was mapped.
    fn release(&self, name: &str) {
        if let Some(tensor) = self.gguf.tensor(name) {
            self.gguf.release(tensor.info);
        }
    }

    /// The weight of a norm, `[width]`.
    pub fn norm(&mut self, name: &str, width: usize, eps: f32) -> Result<Norm<Dispatch>, LoadError> {
        Ok(Norm {
            weight: self.floats(&format!("{name}.weight"), width)?.into_dispatch(),
            eps,
        })
    }

    /// The values of a vector in f32, `[length]`.
    pub fn float_vec(&mut self, name: &str, length: usize) -> Result<Vec<f32>, LoadError> {
        let (quant, bytes) = self.tensor(name, &[length])?;
        self.advance(bytes.len())?;
        let mut values = vec![0.0; length];
        quant
            .dequantize_row(bytes, &mut values)
            .map_err(|error| LoadError::unsupported(self.gguf, &format!("the tensor '{name}': {error}")))?;
        if values.iter().all(|value| value.is_finite()) {
            Ok(values)
        } else {
            Err(self.not_finite(name))
        }
    }

    /// RoPE, with the divisors of its frequencies if the architecture uses them and the file has
    /// them.
    pub fn rope(&mut self, spec: RopeSpec) -> Result<SharedRope, LoadError> {
        if let Some((_, rope)) = self.ropes.iter().find(|(loaded, _)| *loaded == spec) {
            return Ok(rope.clone());
        }
        let frequencies = spec.frequencies(self.rope_divisors(&spec)?.as_deref());
        let rope = SharedRope::from(Rope::new(spec.pairing, &frequencies, spec.total_magnitude()));
        self.ropes.push((spec, rope.clone()));
        Ok(rope)
    }

    /// The divisors of RoPE's frequencies for the planned context, if the file has them. A file has
    /// both sets of LongRoPE, or none. Both are checked, so that no plan depends on a corrupt one.
    fn rope_divisors(&mut self, spec: &RopeSpec) -> Result<Option<Vec<f32>>, LoadError> {
        let Some(name) = spec.factors.tensor(self.context) else {
            return Ok(None);
        };
        let others: Vec<_> = spec.factors.others(name).collect();
        if self.gguf.tensor(name).is_none() {
            return if others.iter().any(|other| self.gguf.tensor(other).is_some()) {
                Err(LoadError::missing(self.gguf, name))
            } else {
                Ok(None)
            };
        }
        for other in others {
            self.divisors(other, spec.dims / 2)?;
        }
        self.divisors(name, spec.dims / 2).map(Some)
    }

    /// A tensor with this number of divisors. Zero, negative and subnormal ones are refused, unlike
    /// in llama.cpp: they make angles infinite or NaN, or rotate backwards.
    fn divisors(&mut self, name: &str, count: usize) -> Result<Vec<f32>, LoadError> {
        let divisors = self.float_vec(name, count)?;
        match divisors.iter().find(|divisor| **divisor < f32::MIN_POSITIVE) {
            Some(divisor) => Err(LoadError::bad_value(self.gguf, name, divisor, POSITIVE)),
            None => Ok(divisors),
        }
    }

    fn floats(&mut self, name: &str, length: usize) -> Result<Tensor<1>, LoadError> {
        let values = self.float_vec(name, length)?;
        Ok(self.upload(values))
    }

    /// A vector on the device.
    fn upload(&self, values: Vec<f32>) -> Tensor<1> {
        let length = values.len();
        Tensor::from_data(TensorData::new(values, [length]), &self.device)
    }

    /// The scalar `NAME.scale`, applied after the product; 1 if the file has none. As in llama.cpp,
    /// it may be 0 or negative.
    fn scale(&mut self, name: &str) -> Result<f32, LoadError> {
        let name = format!("{name}.scale");
        match self.gguf.tensor(&name) {
            None => Ok(1.0),
            Some(_) => Ok(self.float_vec(&name, 1)?[0]),
        }
    }

    /// A tensor of exactly this shape (row length first), as blocks of a supported format.
    fn tensor(&self, name: &str, needed: &[usize]) -> Result<(Quant, &'a [u8]), LoadError> {
        let tensor = self
            .gguf
            .tensor(name)
            .ok_or_else(|| LoadError::missing(self.gguf, name))?;
        let needed: Vec<u64> = needed.iter().map(|size| *size as u64).collect();
        let without_trailing_ones = |shape: &[u64]| {
            let rank = shape.iter().rposition(|size| *size != 1).map_or(0, |last| last + 1);
            shape[..rank].to_vec()
        };
        if without_trailing_ones(&tensor.info.shape) != without_trailing_ones(&needed) {
            return Err(LoadError::Shape {
                file: LoadError::file(self.gguf),
                tensor: name.to_owned(),
                found: tensor.info.shape.clone(),
                needed,
            });
        }
        let quant = quant_of(tensor.info.kind).ok_or_else(|| {
            let kind = tensor.info.kind.name();
            LoadError::unsupported(
                self.gguf,
                &format!("its weights have the type {kind}, which Hearth does not support yet"),
            )
        })?;
        Ok((quant, tensor.bytes()))
    }

    /// Reports that this number of bytes is read next.
    fn advance(&mut self, bytes: usize) -> Result<(), LoadError> {
        self.bytes_done += bytes as u64;
        let fraction = self.bytes_done as f32 / self.bytes_total as f32;
        match (self.progress)(fraction.min(1.0)) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(LoadError::Cancelled),
        }
    }

    fn not_finite(&self, tensor: &str) -> LoadError {
        LoadError::NotFinite {
            file: LoadError::file(self.gguf),
            tensor: tensor.to_owned(),
        }
    }
}

/// The block format of a tensor type; `None` if the kernels do not support it.
pub(crate) fn quant_of(kind: TensorType) -> Option<Quant> {
    Quant::from_gguf_id(kind.id())
}

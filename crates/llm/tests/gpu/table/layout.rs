//! Inputs in memory as an operation may find them.

use burn::backend::Cube;
use burn::tensor::{Device, Tensor, TensorData};
use burn_std::{Metadata, strides};

/// How an input lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// In memory of its own, which the operation may write over.
    Sole,
    /// In memory that something else reads afterwards.
    Held,
    /// In the middle of a larger buffer.
    Sliced,
    /// With a gap behind each row, as CUDA's and ROCm's allocators leave one; the gaps hold NaN.
    Pitched,
}

/// Rows before a slice: buffers are cut at multiples of 256 bytes.
const BEFORE: usize = 64;

/// An input, and what else holds it.
pub struct Input<const D: usize> {
    pub tensor: Tensor<D>,
    holder: Option<(Tensor<D>, Vec<f32>)>,
}

impl<const D: usize> Input<D> {
    /// The input where something else is to hold it, none where the operation may be the only one
    /// that does.
    pub fn kept(self) -> Option<Self> {
        self.holder.is_some().then_some(self)
    }

    /// Fails where an operation has written over what something else holds.
    pub fn check_holder(&self) {
        if let Some((tensor, values)) = &self.holder {
            let found = tensor.clone().into_data().try_into_vec::<f32>().expect("floats");
            assert!(
                found == *values,
                "an operation wrote over an input that something else holds"
            );
        }
    }
}

/// A tensor with a gap behind each row (or, of a vector, behind each element), which holds NaN.
fn pitched<const D: usize>(values: &[f32], shape: [usize; D], device: &Device) -> Tensor<D> {
    let (rows, cols) = rows_of(shape);
    let pitch = (cols + 1).next_multiple_of(if D == 1 { 2 } else { 64 });
    let mut apart = vec![f32::NAN; rows * pitch];
    for (into, from) in apart.chunks_mut(pitch).zip(values.chunks(cols)) {
        into[..cols].copy_from_slice(from);
    }
    let whole = Tensor::<2>::from_data(TensorData::new(apart, [rows, pitch]), device);
    if *device == Device::flex() {
        return whole.narrow(1, 0, cols).reshape(shape);
    }
    // By hand, so that no device copies it.
    let mut tensor = whole.try_into_primitive::<Cube>().expect("a tensor on a GPU");
    tensor.meta = Box::new(match D {
        1 => Metadata::new([rows], strides![pitch]),
        _ => Metadata::new([rows, cols], strides![pitch, 1]),
    });
    Tensor::from_primitive::<Cube>(tensor)
}

/// A vector's elements lie like rows of one column.
fn rows_of<const D: usize>(shape: [usize; D]) -> (usize, usize) {
    (shape[0], if D == 1 { 1 } else { shape[1] })
}

impl Layout {
    /// A tensor of these values in this layout.
    pub fn tensor<const D: usize>(self, values: &[f32], shape: [usize; D], device: &Device) -> Tensor<D> {
        let plain = |values: Vec<f32>, shape: [usize; D]| Tensor::from_data(TensorData::new(values, shape), device);
        match self {
            Self::Sole | Self::Held => plain(values.to_vec(), shape),
            Self::Sliced => {
                let (rows, cols) = rows_of(shape);
                let mut all = vec![f32::NAN; (rows + 2 * BEFORE) * cols];
                all[BEFORE * cols..][..rows * cols].copy_from_slice(values);
                let mut whole = shape;
                whole[0] = rows + 2 * BEFORE;
                plain(all, whole).narrow(0, BEFORE, rows)
            }
            Self::Pitched => pitched(values, shape, device),
        }
    }

    /// The same, with what holds it where something does.
    pub fn input<const D: usize>(self, values: &[f32], shape: [usize; D], device: &Device) -> Input<D> {
        let tensor = self.tensor(values, shape, device);
        let holder = (self == Self::Held).then(|| (tensor.clone(), values.to_vec()));
        Input { tensor, holder }
    }
}

//! What an operation on the CPU keeps of its forward for its backward.

use super::Product;
use super::flex::{floats, sound};
use super::room::tensor;
use burn::backend::TensorMetadata;
use burn_flex::FlexTensor;
use hearth_kernels::scratch::Scratch;
use hearth_kernels::{bf16, bf16s};
use std::sync::Arc;

/// A matrix kept for the backward: as it is, or in bf16 where products round it to that anyway.
#[derive(Clone)]
pub enum Kept {
    /// In f32.
    Whole(FlexTensor),
    /// In half the memory, with its rows and columns.
    Half(Arc<Scratch<bf16>>, [usize; 2]),
}

/// What is kept of attention.
#[derive(Clone)]
pub struct KeptAttention {
    /// Q, K and V as they came where heads are normalised, else as they were made ready, which can be undone.
    pub(super) qkv: FlexTensor,
    /// The output.
    pub(super) out: FlexTensor,
    /// The logarithm of each row's sum of exponentials, `[T, heads]`.
    pub(super) logs: Arc<Vec<f32>>,
}

impl Kept {
    pub(super) fn new(x: &FlexTensor, product: Product) -> Self {
        match product {
            Product::Bf16 if x.is_contiguous() => {
                let mut half = Scratch::new(floats(x).len());
                sound(bf16s::to_bf16(floats(x), &mut half));
                let shape = x.shape();
                Self::Half(Arc::new(half), [shape[0], shape[1]])
            }
            _ => Self::Whole(x.clone()),
        }
    }

    pub(super) fn restore(&self) -> FlexTensor {
        match self {
            Self::Whole(x) => x.clone(),
            Self::Half(half, shape) => {
                let mut x = Scratch::new(half.len());
                sound(bf16s::to_f32(half, &mut x));
                tensor(x, *shape)
            }
        }
    }
}

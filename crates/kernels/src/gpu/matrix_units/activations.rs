//! Activations in f16, each token scaled by its own power of two.

use crate::gpu::launch::{buffer_arg, cube_count, matrix_arg};
use crate::gpu::reduce::reduce_max;
use crate::gpu::{Floats, GpuError};
use cubecl::prelude::*;
use cubecl::server::Handle;
use half::f16;

/// Units that share a token.
const UNITS: usize = 128;
/// Elements of a vector, which a unit loads or stores at once.
pub(super) const VECTOR: usize = 4;

/// The power of two that scales `maximum` to between 2^14 and 2^15, which leaves one bit of
/// headroom in f16; clamped so that [`inverse`] can undo it.
#[cube]
pub(super) fn f16_scale(maximum: f32) -> f32 {
    let exponent = (u32::reinterpret(maximum) >> 23u32) & 0xffu32;
    // The biased exponent of the result is 14 - (exponent - 127) + 127. The smallest exponents mean
    // zero or nearly zero.
    f32::reinterpret((268u32 - max(exponent, 15u32)) << 23u32)
}

/// The inverse of a power of two from [`f16_scale`], computed from its bits, since division is not
/// exact on every device.
#[cube]
pub(super) fn inverse(scale: f32) -> f32 {
    f32::reinterpret((254u32 << 23u32) - u32::reinterpret(scale))
}

#[cube(launch_unchecked)]
fn scale_to_f16(
    x: &[f32],
    f16s: &mut [Vector<f16, Const<4>>],
    inverses: &mut [f32],
    tokens: usize,
    width: usize,
    first_column: usize,
    cols: usize,
    padded_tokens: usize,
    depth: usize,
) {
    let token = CUBE_POS;
    if token >= padded_tokens {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let start = token * width + first_column;
    let mut maximum = 0.0f32;
    if token < tokens {
        for step in 0..cols.div_ceil(UNITS) {
            let column = step * UNITS + unit;
            if column < cols {
                maximum = max(maximum, f32::abs(x[start + column]));
            }
        }
    }
    let mut shared = Shared::<[f32]>::new_slice(UNITS);
    let maximum = reduce_max(maximum, &mut shared, UNITS);
    let scale = f16_scale(maximum);
    let vectors = depth / VECTOR;
    for step in 0..vectors.div_ceil(UNITS) {
        let vector = step * UNITS + unit;
        if vector < vectors {
            let mut elements = Vector::<f16, Const<4>>::empty();
            #[unroll]
            for i in 0..VECTOR {
                let column = vector * VECTOR + i;
                let mut value = 0.0f32;
                if token < tokens && column < cols {
                    value = scale * x[start + column];
                }
                elements.insert(i, f16::cast_from(value));
            }
            f16s[token * vectors + vector] = elements;
        }
    }
    if unit == 0 {
        inverses[token] = inverse(scale);
    }
}

/// Activations in f16 with their inverse scales.
pub(super) struct F16Activations {
    elements: Handle,
    inverses: Handle,
    padded_tokens: usize,
    depth: usize,
}

impl F16Activations {
    /// Converts `cols` columns of `x [T, width]` from `first_column` on, which must exist,
    /// zero-padded to whole tiles of `tokens` and `depth`.
    ///
    /// # Errors
    /// Returns an error if `x` is too large for a kernel to address.
    pub fn new(
        client: &Client,
        x: &Floats,
        first_column: usize,
        cols: usize,
        tokens: usize,
        depth: usize,
    ) -> Result<Self, GpuError> {
        let (padded_tokens, depth) = (x.rows.next_multiple_of(tokens), cols.next_multiple_of(depth));
        let bytes = padded_tokens as u64 * depth as u64 * 2;
        let elements = match u32::try_from(bytes) {
            Ok(bytes) => client.empty(bytes as usize),
            Err(_) => {
                return Err(GpuError::Large {
                    what: "f16 input of a linear",
                    needed: bytes,
                });
            }
        };
        let f16s = Self {
            elements,
            inverses: client.empty(padded_tokens * size_of::<f32>()),
            padded_tokens,
            depth,
        };
        // SAFETY: the kernel reads existing columns of `x`, and writes `padded_tokens` rows of
        // `depth` and `padded_tokens` scales.
        unsafe {
            scale_to_f16::launch_unchecked(
                client,
                cube_count(client, padded_tokens)?,
                CubeDim::new_1d(UNITS as u32),
                matrix_arg(x, "input of a linear")?,
                f16s.elements(),
                f16s.inverses()?,
                x.rows,
                x.cols,
                first_column,
                cols,
                padded_tokens,
                depth,
            );
        }
        Ok(f16s)
    }

    /// The f16 elements, token by token.
    pub fn elements(&self) -> BufferArg {
        // SAFETY: the buffer was allocated with this length, and any bits are a valid f16.
        unsafe { BufferArg::from_raw_parts(self.elements.clone(), self.padded_tokens * self.depth) }
    }

    /// The inverse scale of each token.
    ///
    /// # Errors
    /// Never: the buffer was allocated with this length.
    pub fn inverses(&self) -> Result<BufferArg, GpuError> {
        buffer_arg(&self.inverses, "scales of tokens", self.padded_tokens)
    }
}

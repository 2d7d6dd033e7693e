//! Activations in f16, each token's multiplied by a power of two of its own.

use crate::gpu::launch::{argument, cubes, matrix};
use crate::gpu::reduce::greatest;
use crate::gpu::{Floats, GpuError};
use cubecl::prelude::*;
use cubecl::server::Handle;
use half::f16;

/// Units that share a token.
const UNITS: usize = 128;
/// Numbers that a unit takes at a time.
pub(super) const FOUR: usize = 4;

/// The power of two that brings a greatest number to between 2^14 and 2^15, which f16 holds with a bit to spare; the nearest to it that is
/// neither too large nor too small to be undone by [`inverse`].
#[cube]
pub(super) fn fitting(greatest: f32) -> f32 {
    let exponent = (u32::reinterpret(greatest) >> 23u32) & 0xffu32;
    // With the biases, 14 - (exponent - 127) + 127. A number with the least exponent is zero or next to it.
    f32::reinterpret((268u32 - max(exponent, 15u32)) << 23u32)
}

/// One through a power of two that [`fitting`] gave: by its bits, for a division need not be exact.
#[cube]
pub(super) fn inverse(power: f32) -> f32 {
    f32::reinterpret((254u32 << 23u32) - u32::reinterpret(power))
}

#[cube(launch_unchecked)]
fn scaled(
    x: &[f32],
    halves: &mut [Vector<f16, Const<4>>],
    inverses: &mut [f32],
    tokens: usize,
    width: usize,
    at: usize,
    cols: usize,
    room: usize,
    depth: usize,
) {
    let token = CUBE_POS;
    if token >= room {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let start = token * width + at;
    let mut most = 0.0f32;
    if token < tokens {
        for step in 0..cols.div_ceil(UNITS) {
            let column = step * UNITS + unit;
            if column < cols {
                most = max(most, f32::abs(x[start + column]));
            }
        }
    }
    let mut shared = Shared::<[f32]>::new_slice(UNITS);
    let most = greatest(most, &mut shared, UNITS);
    let power = fitting(most);
    let fours = depth / FOUR;
    for step in 0..fours.div_ceil(UNITS) {
        let four = step * UNITS + unit;
        if four < fours {
            let mut numbers = Vector::<f16, Const<4>>::empty();
            #[unroll]
            for i in 0..FOUR {
                let column = four * FOUR + i;
                let mut value = 0.0f32;
                if token < tokens && column < cols {
                    value = power * x[start + column];
                }
                numbers.insert(i, f16::cast_from(value));
            }
            halves[token * fours + four] = numbers;
        }
    }
    if unit == 0 {
        inverses[token] = inverse(power);
    }
}

/// Activations as matrix units take them.
pub(super) struct Halves {
    numbers: Handle,
    inverses: Handle,
    room: usize,
    depth: usize,
}

impl Halves {
    /// `cols` columns of `x [T, width]` from `at` on, which has to have them, with zeros up to whole tiles of `tokens` and `depth`.
    ///
    /// # Errors
    /// Where `x` is larger than a kernel can address.
    pub fn of(
        client: &Client,
        x: &Floats,
        at: usize,
        cols: usize,
        tokens: usize,
        depth: usize,
    ) -> Result<Self, GpuError> {
        let (room, depth) = (x.rows.next_multiple_of(tokens), cols.next_multiple_of(depth));
        let bytes = room as u64 * depth as u64 * 2;
        let numbers = match u32::try_from(bytes) {
            Ok(bytes) => client.empty(bytes as usize),
            Err(_) => {
                return Err(GpuError::Large {
                    what: "input of a product in f16",
                    needed: bytes,
                });
            }
        };
        let halves = Self {
            numbers,
            inverses: client.empty(room * size_of::<f32>()),
            room,
            depth,
        };
        // SAFETY: the kernel reads columns of `x` that are there, and writes `room` rows of `depth`, and `room` powers.
        unsafe {
            scaled::launch_unchecked(
                client,
                cubes(client, room)?,
                CubeDim::new_1d(UNITS as u32),
                matrix(x, "input of a product")?,
                halves.numbers(),
                halves.inverses()?,
                x.rows,
                x.cols,
                at,
                cols,
                room,
                depth,
            );
        }
        Ok(halves)
    }

    /// The numbers, a token behind the other.
    pub fn numbers(&self) -> BufferArg {
        // SAFETY: the buffer was made with as many, and any bits are a number.
        unsafe { BufferArg::from_raw_parts(self.numbers.clone(), self.room * self.depth) }
    }

    /// What each token's sums are multiplied by, to undo what its numbers were.
    ///
    /// # Errors
    /// None: the buffer was made for them.
    pub fn inverses(&self) -> Result<BufferArg, GpuError> {
        argument(&self.inverses, "scales of tokens", self.room)
    }
}

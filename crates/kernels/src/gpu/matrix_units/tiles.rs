//! Which of a device's matrix units is taken, and how large the tiles are that a cube multiplies on them.

use crate::blocks::Quant;
use cubecl::features::{MmaConfig, TypeUsage};
use cubecl::ir::{ElemType, FloatKind};
use cubecl::prelude::Client;

/// Rows and columns of the result that a plane sums.
pub(super) const SQUARE: usize = 32;
/// Numbers in f16 that rows of a tile are longer than what they hold: 16 bytes, so that every row begins where matrix units load from,
/// and rows that are loaded together lie in different banks of the memory.
const APART: usize = 8;
/// Rows of the result that a cube may make, the best first: the more there are, the more tokens a decoded weight serves.
const TOKENS: [usize; 3] = [128, 64, SQUARE];
/// Columns of the result that a cube makes where the format asks for no more.
const ACROSS: usize = 64;
/// Steps of the sum that are in shared memory at a time where the format asks for no more.
const DEPTH: usize = 32;

/// Over which side of a weight a product sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::gpu) enum Over {
    /// Over its columns: the output of a linear.
    Columns,
    /// Over its rows: the gradient of its input.
    Rows,
}

/// A matrix unit, and the tiles of one cube, all in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tiles {
    /// Rows that the unit multiplies at a time.
    pub m: usize,
    /// Columns.
    pub n: usize,
    /// Steps of their sums.
    pub k: usize,
    /// How many units of the device run together.
    pub plane: usize,
    /// Rows of the result.
    pub tokens: usize,
    /// Columns of the result.
    pub across: usize,
    /// Steps of the sum in shared memory.
    pub depth: usize,
    /// What the sum is over.
    pub over: Over,
}

impl Tiles {
    /// Planes of a cube along the columns of its result.
    pub const fn planes_across(self) -> usize {
        self.across / SQUARE
    }

    /// Planes of a cube.
    pub const fn planes(self) -> usize {
        self.tokens / SQUARE * self.planes_across()
    }

    /// Units of a cube.
    pub const fn units(self) -> usize {
        self.planes() * self.plane
    }

    /// From a token's activations in the tile to the next one's.
    pub const fn x_stride(self) -> usize {
        self.depth + APART
    }

    /// Rows of the weight in its tile.
    pub const fn rows(self) -> usize {
        match self.over {
            Over::Columns => self.across,
            Over::Rows => self.depth,
        }
    }

    /// Columns of the weight in its tile.
    pub const fn columns(self) -> usize {
        match self.over {
            Over::Columns => self.depth,
            Over::Rows => self.across,
        }
    }

    /// From a row of the weight in the tile to the next one.
    pub const fn w_stride(self) -> usize {
        self.columns() + APART
    }

    /// Shared memory that a cube takes: both tiles, and a fragment of the result for each plane.
    const fn bytes(self) -> usize {
        2 * (self.tokens * self.x_stride() + self.rows() * self.w_stride()) + 4 * self.planes() * self.m * self.n
    }
}

/// Columns of a row that whole pieces of a format cover (see [`place`](crate::gpu::pieces::place)): a tile has to hold as many.
const fn covered(quant: Quant) -> usize {
    match quant {
        Quant::Q6_K => 128,
        Quant::Q4_K | Quant::Q5_K => 64,
        _ => 32,
    }
}

/// A matrix unit of the device, `[m, n, k]`, and the size of its planes, where it has one that multiplies f16 and sums in f32, can
/// hold f16 in buffers, and runs planes of one size.
fn unit(client: &Client) -> Option<([usize; 3], usize)> {
    let properties = client.properties();
    let (half, single) = (ElemType::Float(FloatKind::F16), ElemType::Float(FloatKind::F32));
    let hardware = &properties.hardware;
    // Of planes of several sizes a driver takes which it likes, and a matrix unit belongs to one.
    let plane = hardware.plane_size_min as usize;
    if plane == 0 || hardware.plane_size_min != hardware.plane_size_max {
        return None;
    }
    let usages = properties.features.types.elem.get(&half)?;
    if !usages.contains(TypeUsage::Buffer) || !usages.contains(TypeUsage::Conversion) {
        return None;
    }
    let shape = |found: &MmaConfig| [found.m, found.n, found.k].map(|side| side as usize);
    let fits = |found: &&MmaConfig| {
        let [m, n, k] = shape(found);
        let divides = |side: usize, of: usize| side > 0 && of.is_multiple_of(side);
        (found.a_type, found.b_type, found.cd_type) == (half, half, single)
            && divides(m, SQUARE)
            && divides(n, SQUARE)
            && divides(k, DEPTH)
            // What is loaded begins at 16 bytes.
            && [m, n, k].iter().all(|side| side.is_multiple_of(APART))
            && divides(plane, m * n)
    };
    let listed = properties.features.matmul.cmma.iter().filter(fits).map(shape);
    let rank = |shape: &[usize; 3]| match shape {
        [16, 16, 16] => 0,
        [8, 8, 8] => 1,
        _ => 2,
    };
    listed.min_by_key(rank).map(|shape| (shape, plane))
}

/// The tiles in which a product of `tokens` with a weight of this format is made; none where the device has no matrix unit for it, or
/// too little shared memory.
pub(super) fn choose(client: &Client, quant: Quant, tokens: usize, over: Over) -> Option<Tiles> {
    let ([m, n, k], plane) = unit(client)?;
    let hardware = &client.properties().hardware;
    let covered = covered(quant);
    let (across, depth) = match over {
        Over::Columns => (ACROSS, DEPTH.max(covered)),
        Over::Rows => (ACROSS.max(covered), DEPTH),
    };
    let tiles = |tokens| Tiles {
        m,
        n,
        k,
        plane,
        tokens,
        across,
        depth,
        over,
    };
    let fits = |tiles: &Tiles| {
        tiles.bytes() <= hardware.max_shared_memory_size
            // Units copy as much of the activations each, four at a time.
            && (tiles.tokens * tiles.depth / 4).is_multiple_of(tiles.units())
            && tiles.units() <= hardware.max_units_per_cube as usize
            && plane <= hardware.max_cube_dim.0 as usize
            && tiles.planes() <= hardware.max_cube_dim.1 as usize
    };
    // No more rows than there are tokens, but for the last.
    let useful = TOKENS.into_iter().filter(|side| *side < 2 * tokens || *side == SQUARE);
    useful.map(tiles).find(fits)
}

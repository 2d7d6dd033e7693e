//! Choice of a device's matrix unit and of a cube's tile sizes.

use crate::blocks::Quant;
use crate::gpu::decode::segment_span;
use cubecl::features::{MmaConfig, TypeUsage};
use cubecl::ir::{ElemType, FloatKind};
use cubecl::prelude::Client;

/// Rows and columns of the output that a plane accumulates.
pub(super) const PLANE_TILE: usize = 32;
/// Padding of a tile's rows in f16 elements: 16 bytes, so that every row is aligned for loads by
/// matrix units and rows that are loaded together are in different banks.
const PADDING: usize = 8;
/// Possible numbers of rows of a cube's output tile, best first: more rows reuse a decoded weight
/// for more tokens.
const TILE_TOKENS: [usize; 3] = [128, 64, PLANE_TILE];
/// Columns of a cube's output tile unless the format needs more.
const OUT_COLUMNS: usize = 64;
/// Steps of the summed dimension in shared memory at a time unless the format needs more.
const DEPTH: usize = 32;

/// The dimension of a weight over which a product sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::gpu) enum SumOver {
    /// Over its columns: the output of a linear.
    Columns,
    /// Over its rows: the gradient of its input.
    Rows,
}

/// A matrix unit and the tile sizes of a cube, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tiles {
    /// Rows of the matrix unit's output.
    pub m: usize,
    /// Columns of the matrix unit's output.
    pub n: usize,
    /// Steps of the matrix unit's sum.
    pub k: usize,
    /// Plane size.
    pub plane: usize,
    /// Rows of the output tile.
    pub tokens: usize,
    /// Columns of the output tile.
    pub out_columns: usize,
    /// Steps of the sum in shared memory.
    pub depth: usize,
    /// The dimension of the weight over which the product sums.
    pub sum_over: SumOver,
}

impl Tiles {
    /// Planes of a cube along a row of its output tile.
    pub const fn planes_per_row(self) -> usize {
        self.out_columns / PLANE_TILE
    }

    /// Planes of a cube.
    pub const fn planes(self) -> usize {
        self.tokens / PLANE_TILE * self.planes_per_row()
    }

    /// Units of a cube.
    pub const fn units(self) -> usize {
        self.planes() * self.plane
    }

    /// Stride between the activations of two tokens in their tile.
    pub const fn x_stride(self) -> usize {
        self.depth + PADDING
    }

    /// Rows of the weight in its tile.
    pub const fn weight_rows(self) -> usize {
        match self.sum_over {
            SumOver::Columns => self.out_columns,
            SumOver::Rows => self.depth,
        }
    }

    /// Columns of the weight in its tile.
    pub const fn weight_columns(self) -> usize {
        match self.sum_over {
            SumOver::Columns => self.depth,
            SumOver::Rows => self.out_columns,
        }
    }

    /// Stride between two rows of the weight in its tile.
    pub const fn w_stride(self) -> usize {
        self.weight_columns() + PADDING
    }

    /// Shared memory of a cube in bytes: both input tiles and one output fragment per plane.
    const fn bytes(self) -> usize {
        2 * (self.tokens * self.x_stride() + self.weight_rows() * self.w_stride()) + 4 * self.planes() * self.m * self.n
    }
}

/// The device's matrix unit, `[m, n, k]`, and its plane size. `None` unless it multiplies f16 and
/// accumulates in f32, supports f16 in buffers, and has planes of one size.
fn matrix_unit(client: &Client) -> Option<([usize; 3], usize)> {
    let properties = client.properties();
    let (half, single) = (ElemType::Float(FloatKind::F16), ElemType::Float(FloatKind::F32));
    let hardware = &properties.hardware;
    // With several plane sizes the driver chooses one, and a matrix unit needs a specific one.
    let plane = hardware.plane_size_min as usize;
    if plane == 0 || hardware.plane_size_min != hardware.plane_size_max {
        return None;
    }
    let usages = properties.features.types.elem.get(&half)?;
    if !usages.contains(TypeUsage::Buffer) || !usages.contains(TypeUsage::Conversion) {
        return None;
    }
    let shape = |config: &MmaConfig| [config.m, config.n, config.k].map(|side| side as usize);
    let is_supported = |config: &&MmaConfig| {
        let [m, n, k] = shape(config);
        let divides = |side: usize, size: usize| side > 0 && size.is_multiple_of(side);
        (config.a_type, config.b_type, config.cd_type) == (half, half, single)
            && divides(m, PLANE_TILE)
            && divides(n, PLANE_TILE)
            && divides(k, DEPTH)
            // Loads are aligned to 16 bytes.
            && [m, n, k].iter().all(|side| side.is_multiple_of(PADDING))
            && divides(plane, m * n)
    };
    let shapes = properties.features.matmul.cmma.iter().filter(is_supported).map(shape);
    let preference = |shape: &[usize; 3]| match shape {
        [16, 16, 16] => 0,
        [8, 8, 8] => 1,
        _ => 2,
    };
    shapes.min_by_key(preference).map(|shape| (shape, plane))
}

/// The tile sizes for `tokens` and a weight of this format. `None` means that the device has no
/// suitable matrix unit or too little shared memory.
pub(super) fn choose(client: &Client, quant: Quant, tokens: usize, sum_over: SumOver) -> Option<Tiles> {
    let ([m, n, k], plane) = matrix_unit(client)?;
    let hardware = &client.properties().hardware;
    let segment_span = segment_span(quant);
    let (out_columns, depth) = match sum_over {
        SumOver::Columns => (OUT_COLUMNS, DEPTH.max(segment_span)),
        SumOver::Rows => (OUT_COLUMNS.max(segment_span), DEPTH),
    };
    let tiles = |tokens| Tiles {
        m,
        n,
        k,
        plane,
        tokens,
        out_columns,
        depth,
        sum_over,
    };
    let fits = |tiles: &Tiles| {
        tiles.bytes() <= hardware.max_shared_memory_size
            // Each unit copies the same number of activations, four at a time.
            && (tiles.tokens * tiles.depth / 4).is_multiple_of(tiles.units())
            && tiles.units() <= hardware.max_units_per_cube as usize
            && plane <= hardware.max_cube_dim.0 as usize
            && tiles.planes() <= hardware.max_cube_dim.1 as usize
    };
    // Excludes tiles with at least twice as many rows as there are tokens, except the smallest.
    let sizes = TILE_TOKENS
        .into_iter()
        .filter(|size| *size < 2 * tokens || *size == PLANE_TILE);
    sizes.map(tiles).find(fits)
}

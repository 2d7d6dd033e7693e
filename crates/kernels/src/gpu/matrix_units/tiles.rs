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
/// Rows of a cube's output tile, best first: more rows reuse a decoded weight for more tokens.
const TOKENS: [usize; 3] = [128, 64, PLANE_TILE];
/// Columns of a cube's output tile unless the format needs more.
const ACROSS: usize = 64;
/// Steps of the summed dimension in shared memory at a time unless the format needs more.
const DEPTH: usize = 32;

/// The dimension of a weight over which a product sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::gpu) enum Over {
    /// Over its columns: the output of a linear.
    Columns,
    /// Over its rows: the gradient of its input.
    Rows,
}

/// A matrix unit and the tile sizes of a cube, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tiles {
    /// Rows that the unit multiplies at a time.
    pub m: usize,
    /// Columns.
    pub n: usize,
    /// Steps of the sum.
    pub k: usize,
    /// Plane size.
    pub plane: usize,
    /// Rows of the output tile.
    pub tokens: usize,
    /// Columns of the output tile.
    pub across: usize,
    /// Steps of the sum in shared memory.
    pub depth: usize,
    /// Dimension of the weight that is summed over.
    pub over: Over,
}

impl Tiles {
    /// Planes of a cube along the columns of its output tile.
    pub const fn planes_across(self) -> usize {
        self.across / PLANE_TILE
    }

    /// Planes of a cube.
    pub const fn planes(self) -> usize {
        self.tokens / PLANE_TILE * self.planes_across()
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

    /// Stride between two rows of the weight in its tile.
    pub const fn w_stride(self) -> usize {
        self.columns() + PADDING
    }

    /// Shared memory of a cube in bytes: both input tiles and one output fragment per plane.
    const fn bytes(self) -> usize {
        2 * (self.tokens * self.x_stride() + self.rows() * self.w_stride()) + 4 * self.planes() * self.m * self.n
    }
}

/// The device's matrix unit, `[m, n, k]`, and its plane size. `None` unless it multiplies f16 and
/// accumulates in f32, supports f16 in buffers, and has planes of one size.
fn unit(client: &Client) -> Option<([usize; 3], usize)> {
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
    let shape = |found: &MmaConfig| [found.m, found.n, found.k].map(|side| side as usize);
    let fits = |found: &&MmaConfig| {
        let [m, n, k] = shape(found);
        let divides = |side: usize, of: usize| side > 0 && of.is_multiple_of(side);
        (found.a_type, found.b_type, found.cd_type) == (half, half, single)
            && divides(m, PLANE_TILE)
            && divides(n, PLANE_TILE)
            && divides(k, DEPTH)
            // Loads are aligned to 16 bytes.
            && [m, n, k].iter().all(|side| side.is_multiple_of(PADDING))
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

/// The tile sizes for `tokens` and a weight of this format. `None` means that the device has no
/// suitable matrix unit or too little shared memory.
pub(super) fn choose(client: &Client, quant: Quant, tokens: usize, over: Over) -> Option<Tiles> {
    let ([m, n, k], plane) = unit(client)?;
    let hardware = &client.properties().hardware;
    let segment_span = segment_span(quant);
    let (across, depth) = match over {
        Over::Columns => (ACROSS, DEPTH.max(segment_span)),
        Over::Rows => (ACROSS.max(segment_span), DEPTH),
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
            // Each unit copies the same number of activations, four at a time.
            && (tiles.tokens * tiles.depth / 4).is_multiple_of(tiles.units())
            && tiles.units() <= hardware.max_units_per_cube as usize
            && plane <= hardware.max_cube_dim.0 as usize
            && tiles.planes() <= hardware.max_cube_dim.1 as usize
    };
    // Only tiles with fewer than twice as many rows as there are tokens; the smallest always.
    let useful = TOKENS
        .into_iter()
        .filter(|side| *side < 2 * tokens || *side == PLANE_TILE);
    useful.map(tiles).find(fits)
}

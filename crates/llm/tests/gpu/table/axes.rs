//! The axes of the table, and the sampling of cases.

use super::layout::Layout;
use hearth_kernels::Quant;
use hearth_kernels::attention::KvFormat;
use hearth_llm::ops::MatmulPrecision;
use std::fmt;

/// One case of an operation. Each operation depends only on the axes of its row in the table.
#[derive(Clone, Debug)]
pub struct Case {
    pub quant: Quant,
    pub precision: MatmulPrecision,
    /// Memory layout of the float inputs.
    pub layout: Layout,
    pub tokens: usize,
    pub columns: usize,
    pub vocabulary: usize,
    /// Tokens in the cache before the batch.
    pub cached: usize,
    pub window: Option<usize>,
    /// Query heads per KV head.
    pub group: usize,
    pub head_dim: usize,
    pub format: KvFormat,
    pub qk_change: QkChange,
    /// The softcap of scores or logits. Set by the rows whose names say so.
    pub softcap: Option<f32>,
    /// Seed of the other properties, such as bias, norm, adapter and scale.
    pub seed: u64,
}

impl Case {
    /// A case with a default value on each axis.
    fn new(seed: u64) -> Self {
        Self {
            quant: Quant::F32,
            precision: MatmulPrecision::F32,
            layout: Layout::Sole,
            tokens: 1,
            columns: 96,
            vocabulary: 331,
            cached: 1,
            window: None,
            group: 1,
            head_dim: 64,
            format: KvFormat::F16,
            qk_change: QkChange::PLAIN,
            softcap: None,
            seed,
        }
    }

    /// A pseudo-random bool that depends only on the seed and this number.
    pub fn coin(&self, number: u64) -> bool {
        hash(self.seed.wrapping_mul(31).wrapping_add(number)) & 1 == 1
    }

    /// The rank of the adapters: a small one, a common one, and one larger than a tile of 32.
    pub fn rank(&self) -> usize {
        [5, 16, 37][hash(self.seed) as usize % 3]
    }

    /// The columns, rounded up to whole blocks of the format.
    pub fn whole_columns(&self) -> usize {
        self.columns.next_multiple_of(self.quant.block_elements())
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            quant,
            precision,
            layout,
            tokens,
            columns,
            vocabulary,
            cached,
            window,
            group,
            head_dim,
            format,
            qk_change,
            softcap: _,
            seed,
        } = self;
        write!(
            f,
            "{quant} {precision:?} {layout:?} tokens={tokens} columns={columns} vocabulary={vocabulary} \
             cached={cached} window={window:?} group={group} head_dim={head_dim} cache={format:?}{qk_change} \
             seed={seed}"
        )
    }
}

/// The change of Q and K before attention, besides the norms of each head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QkChange {
    /// The magnitude of RoPE; `None` means no RoPE.
    pub rope: Option<f32>,
    pub has_temperature: bool,
    pub has_norms_over_heads: bool,
}

impl QkChange {
    /// RoPE only.
    const PLAIN: Self = Self::new(Some(1.0), false, false);

    const fn new(rope: Option<f32>, has_temperature: bool, has_norms_over_heads: bool) -> Self {
        Self {
            rope,
            has_temperature,
            has_norms_over_heads,
        }
    }
}

/// Empty for [`QkChange::PLAIN`], otherwise after a space.
impl fmt::Display for QkChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::PLAIN {
            return Ok(());
        }
        let Self {
            rope,
            has_temperature,
            has_norms_over_heads,
        } = self;
        write!(
            f,
            " rope={rope:?} temperature={has_temperature} norms_over_heads={has_norms_over_heads}"
        )
    }
}

/// An axis of the table.
pub struct Axis {
    /// The number of values.
    count: usize,
    /// Sets the case to the value at an index.
    set: fn(&mut Case, usize),
}

macro_rules! axis {
    ($name:ident, $field:ident, $kind:ty, $values:expr) => {
        pub const $name: Axis = {
            const VALUES: &[$kind] = &$values;
            Axis {
                count: VALUES.len(),
                set: |case, index| case.$field = VALUES[index],
            }
        };
    };
}

axis!(QUANT, quant, Quant, Quant::ALL);
axis!(
    PRECISION,
    precision,
    MatmulPrecision,
    [
        MatmulPrecision::F32,
        MatmulPrecision::Int8Activations,
        MatmulPrecision::Bf16
    ]
);
axis!(
    DIFFERENTIABLE,
    precision,
    MatmulPrecision,
    [MatmulPrecision::F32, MatmulPrecision::Bf16]
);
axis!(
    LAYOUT,
    layout,
    Layout,
    [Layout::Sole, Layout::Held, Layout::Sliced, Layout::Pitched]
);
axis!(TOKENS, tokens, usize, [1, 2, 4, 5, 8, 9, 31, 33, 63, 65, 129, 512]);
axis!(COLUMNS, columns, usize, [32, 96, 576, 960]);
axis!(VOCABULARY, vocabulary, usize, [331, 32003]);
axis!(CACHED, cached, usize, [1, 257, 1000]);
axis!(WINDOW, window, Option<usize>, [None, Some(5), Some(200)]);
axis!(GROUP, group, usize, [1, 3, 7, 8]);
axis!(HEAD_DIM, head_dim, usize, [64, 80, 96, 128, 256]);
axis!(FORMAT, format, KvFormat, [KvFormat::F16, KvFormat::Q8_0]);
axis!(
    QK_CHANGE,
    qk_change,
    QkChange,
    [
        QkChange::new(Some(1.25), false, false),
        QkChange::new(Some(1.0), true, false),
        QkChange::new(None, false, false),
        QkChange::new(None, true, false),
        QkChange::new(Some(1.0), false, true),
        QkChange::new(None, false, true),
        QkChange::new(Some(0.75), true, true),
    ]
);

axis!(SEED, seed, u64, [1, 2, 3, 4]);

fn hash(number: u64) -> u64 {
    // SplitMix64. <https://prng.di.unimi.it/splitmix64.c>
    let mut z = number
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Element `index` of an endless concatenation of shuffles of `0..count`. So `count` consecutive
/// elements from a multiple of `count` on are each value once. Shuffles of other axes are
/// independent.
fn shuffled(axis: u64, index: usize, count: usize) -> usize {
    let mut values: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        let seed = hash(axis) ^ hash((index / count) as u64).rotate_left(17) ^ last as u64;
        values.swap(last, hash(seed) as usize % (last + 1));
    }
    values[index % count]
}

/// Cases that cover every value of every axis, in pseudo-random combinations. They are the same on
/// every machine.
pub fn sample(seed: u64, crossed: &[Axis], cycled: &[Axis]) -> Vec<Case> {
    let axes = || crossed.iter().chain(cycled);
    let count = axes().map(|axis| axis.count).max().unwrap_or(1);
    let case = |index: usize| {
        let mut case = Case::new(hash(seed ^ index as u64));
        for (number, axis) in axes().enumerate() {
            (axis.set)(&mut case, shuffled(hash(seed) ^ number as u64, index, axis.count));
        }
        case
    };
    (0..count).map(case).collect()
}

/// Every combination of the crossed axes. The cycled axes have pseudo-random values.
pub fn complete(seed: u64, crossed: &[Axis], cycled: &[Axis]) -> Vec<Case> {
    let count = crossed.iter().map(|axis| axis.count).product();
    let case = |index: usize| {
        let mut case = Case::new(hash(seed ^ index as u64));
        let mut rest = index;
        for axis in crossed {
            (axis.set)(&mut case, rest % axis.count);
            rest /= axis.count;
        }
        for (number, axis) in cycled.iter().enumerate() {
            (axis.set)(&mut case, shuffled(hash(seed) ^ number as u64, index, axis.count));
        }
        case
    };
    (0..count).map(case).collect()
}

#[test]
fn a_sample_holds_every_value_of_every_axis() {
    let cases = sample(1, &[QUANT, TOKENS], &[LAYOUT]);
    assert_eq!(cases.len(), Quant::ALL.len());
    for quant in Quant::ALL {
        assert_eq!(cases.iter().filter(|case| case.quant == quant).count(), 1, "{quant}");
    }
    for tokens in [1, 129, 512] {
        assert!(cases.iter().any(|case| case.tokens == tokens), "{tokens} tokens");
    }
    for layout in [Layout::Sole, Layout::Held, Layout::Sliced, Layout::Pitched] {
        assert!(cases.iter().any(|case| case.layout == layout), "{layout:?}");
    }
}

#[test]
fn a_complete_table_holds_every_pair_of_crossed_axes_once() {
    let cases = complete(1, &[COLUMNS, GROUP], &[LAYOUT]);
    let pairs: std::collections::BTreeSet<_> = cases.iter().map(|case| (case.columns, case.group)).collect();
    assert_eq!((cases.len(), pairs.len()), (16, 16));
}

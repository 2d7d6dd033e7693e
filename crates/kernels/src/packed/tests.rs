//! Products and dequantization of packed rows against the scalar specification.

use super::*;
use crate::gemv::ActivationChunk;
use crate::matrix::LAYOUT_VERSION;
use proptest::prelude::*;
use proptest::sample::select;

/// The formats that can be packed.
fn quants() -> Vec<Quant> {
    Quant::ALL
        .into_iter()
        .filter(|quant| PackedLayout::for_quant(*quant).is_some())
        .collect()
}

/// Relative tolerance of products: the same integer products, summed in a different order in f32.
const TOLERANCE: f32 = 1e-5;

/// Pseudo-random weights or activations.
fn random(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let next = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(next).collect()
}

/// Sixteen rows of random weights, quantized.
fn quantized_rows(quant: Quant, cols: usize, seed: u64) -> Vec<u8> {
    let row_bytes = quant.row_bytes(cols).expect("whole blocks");
    let mut bytes = vec![0; row_bytes * ROWS];
    for (row, bytes) in bytes.chunks_exact_mut(row_bytes).enumerate() {
        quant
            .quantize_row(&random(seed + row as u64, cols), bytes)
            .expect("it fits");
    }
    bytes
}

/// Packs sixteen rows.
fn pack(quant: Quant, cols: usize, plain: &[u8]) -> Vec<u8> {
    let mut packed = vec![0; plain.len()];
    pack_group(quant, cols, plain, &mut packed).expect("it fits");
    packed
}

proptest! {
    #[test]
    fn packed_rows_dequantize_to_the_same_weights(
        seed in any::<u32>(),
        blocks in 1usize..20,
        quant in select(quants()),
    ) {
        let cols = blocks * quant.block_elements();
        let plain = quantized_rows(quant, cols, seed.into());
        let packed = pack(quant, cols, &plain);
        let matrix = Packed::new(quant, cols, &packed).expect("it fits");
        let (mut expected, mut actual) = (vec![0.0; cols], vec![0.0; cols]);
        for (row, bytes) in plain.chunks_exact(plain.len() / ROWS).enumerate() {
            quant.dequantize_row(bytes, &mut expected).expect("it fits");
            matrix.dequantize_row(row, &mut actual).expect("it fits");
            prop_assert_eq!(&expected, &actual);
        }
    }

    #[test]
    fn every_isa_matches_the_scalar_product(
        seed in any::<u32>(),
        blocks in 1usize..20,
        groups in 1usize..3,
        quant in select(quants()),
        tokens in 1usize..30,
    ) {
        let cols = blocks * quant.block_elements();
        let mut packed = Vec::new();
        for group in 0..groups {
            let plain = quantized_rows(quant, cols, u64::from(seed) + (ROWS * group) as u64);
            packed.extend(pack(quant, cols, &plain));
        }
        let matrix = Packed::new(quant, cols, &packed).expect("it fits");
        let chunks = Activations::chunks_for(cols);
        let mut rows = vec![ActivationChunk::ZERO; chunks * tokens];
        for (token, row) in rows.chunks_exact_mut(chunks).enumerate() {
            Activations::quantize(&random(u64::from(seed) * 7 + token as u64, cols), row).expect("it fits");
        }
        check_products(&matrix, &rows, tokens);
    }
}

/// A row of activations that is 1 at `column` and 0 elsewhere.
fn unit_row(column: usize, chunks: usize) -> Vec<ActivationChunk> {
    let mut row = vec![ActivationChunk::ZERO; chunks];
    let (activations, column) = (&mut row[column / QK_K], column % QK_K);
    let (part, half) = (column / GROUP, column / HALF_GROUP);
    activations.values[column] = 1;
    activations.scales[part] = 1.0;
    (activations.sums[part], activations.half_sums[half]) = (1.0, 1.0);
    (activations.minus_sums[part], activations.minus_half_sums[half]) = (-1, -1);
    row
}

proptest! {
    /// Tests any finite scale, including subnormal ones. Results are equal because a product is
    /// rounded as often as a dequantized weight.
    #[test]
    fn products_with_one_are_the_dequantized_weights(
        quant in select(quants()),
        blocks in prop::collection::vec(any::<u8>(), 16 * 256),
        first in 0usize..256,
    ) {
        let (cols, bytes) = (quant.block_elements().next_multiple_of(GROUP), quant.block_bytes());
        let mut plain: Vec<u8> = blocks.chunks(256).flat_map(|row| &row[..bytes]).copied().collect();
        for block in plain.chunks_mut(bytes).filter(|block| quant.has_bad_scale(block)) {
            block.fill(0);
        }
        let mut weights = vec![0.0; cols * ROWS];
        quant.dequantize_scalar(&plain, &mut weights);
        prop_assume!(weights.iter().all(|weight| weight.is_finite()));
        let packed = pack(quant, cols, &plain);
        let matrix = Packed::new(quant, cols, &packed).expect("it fits");
        let columns: Vec<usize> = (0..TOKEN_TILE).map(|token| (first + 7 * token) % cols).collect();
        let rows: Vec<_> = columns.iter().flat_map(|column| unit_row(*column, Activations::chunks_for(cols))).collect();
        for isa in Isa::available() {
            let actual = products(&matrix, isa, &rows, TOKEN_TILE);
            for (token, column) in columns.iter().enumerate() {
                let expected: Vec<f32> = weights.chunks(cols).map(|row| row[*column]).collect();
                prop_assert_eq!(&actual[ROWS * token..][..ROWS], expected, "{} {:?} {}", quant, isa, column);
            }
        }
    }
}

/// Reorders quantized rows to the order of [`TokenTiles`].
fn to_tiles(rows: &[ActivationChunk], tokens: usize) -> Vec<ActivationChunk> {
    let (per_token, mut tiles) = (rows.len() / tokens, rows.to_vec());
    for (i, activations) in rows.iter().enumerate() {
        tiles[TokenTiles::index(tokens, per_token, i / per_token, i % per_token)] = *activations;
    }
    tiles
}

/// Products of all groups of a matrix with quantized rows, `[token][row]`.
fn products(matrix: &Packed, isa: Isa, rows: &[ActivationChunk], tokens: usize) -> Vec<f32> {
    let chunks = to_tiles(rows, tokens);
    let tiles = TokenTiles::new(&chunks, tokens, matrix.cols).expect("it fits");
    let count = matrix.groups() * ROWS;
    let mut out = vec![0.0; tokens * count];
    matrix
        .product(isa, 0..matrix.groups(), tiles, 0..tokens, |token, row, sums| {
            out[token * count + row..][..ROWS].copy_from_slice(sums);
        })
        .expect("it fits");
    out
}

/// Checks the products on every instruction set against scalar code.
fn check_products(matrix: &Packed, rows: &[ActivationChunk], tokens: usize) {
    let run = |isa: Isa| products(matrix, isa, rows, tokens);
    let mut isas = Isa::available().into_iter();
    let expected = run(isas.next().expect("scalar is always available"));
    let largest = expected.iter().fold(1.0f32, |max, x| max.max(x.abs()));
    let tolerance = TOLERANCE * largest * (matrix.cols / GROUP) as f32;
    for isa in isas {
        for (expected, actual) in expected.iter().zip(run(isa)) {
            let quant = matrix.quant;
            assert!(
                (expected - actual).abs() <= tolerance,
                "{isa:?} {quant:?}: {expected} {actual}"
            );
        }
    }
}

/// Tests the codes and activations of largest magnitude in every position: sums of their products
/// in 16 bits would overflow first.
#[test]
fn extreme_codes_overflow_no_sum() {
    for quant in quants() {
        let (cols, layout) = (QK_K, PackedLayout::for_quant(quant).expect("it can be packed"));
        let plain = quantized_rows(quant, cols, 1);
        let mut packed = pack(quant, cols, &plain);
        for codes in [0x00, 0x7f, 0x80, 0xff] {
            for blocks in packed.chunks_exact_mut(layout.bytes()) {
                blocks[layout.scales.bytes()..].fill(codes);
            }
            let matrix = Packed::new(quant, cols, &packed).expect("it fits");
            for signs in [[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]] {
                let x: Vec<f32> = (0..cols).map(|column| signs[column % 2]).collect();
                let mut chunks = [ActivationChunk::ZERO];
                Activations::quantize(&x, &mut chunks).expect("it fits");
                for tokens in 1..=TOKEN_TILE {
                    check_products(&matrix, &chunks.repeat(tokens), tokens);
                }
            }
        }
    }
}

/// Multiplies one weight per scale: its product is exact.
#[test]
fn every_fp4_scale_has_the_scalar_value() {
    for quant in [Quant::MXFP4, Quant::NVFP4] {
        let (cols, block_bytes) = (quant.block_elements(), quant.block_bytes());
        for batch in 0..16 {
            // Of every sixteen weights, the first is one step of the codebook and the others are
            // zero.
            let block = |row: usize| {
                let bits = (ROWS * batch + row) as u8;
                let mut block = vec![0; block_bytes];
                if quant == Quant::MXFP4 {
                    // Larger scales are rejected.
                    (block[0], block[1]) = (bits, 0x11);
                    block[0] = if quant.has_bad_scale(&block) { 0 } else { bits };
                } else {
                    for part in 0..4 {
                        (block[part], block[4 + 8 * part]) = (bits.wrapping_add(64 * part as u8), 1);
                    }
                }
                block
            };
            let plain: Vec<u8> = (0..ROWS).flat_map(block).collect();
            let packed = pack(quant, cols, &plain);
            let matrix = Packed::new(quant, cols, &packed).expect("it fits");
            let (tokens, chunks) = (cols / 16, Activations::chunks_for(cols));
            let mut activations = vec![ActivationChunk::ZERO; chunks * tokens];
            for (token, activations) in activations.chunks_exact_mut(chunks).enumerate() {
                let mut values = vec![0.0; cols];
                // The second activation is multiplied by zero and makes the scale 1.
                (values[16 * token], values[16 * token + 1]) = (1.0, 127.0);
                Activations::quantize(&values, activations).expect("it fits");
            }
            let mut weights = vec![0.0; cols * ROWS];
            quant.dequantize_scalar(&plain, &mut weights);
            let expected: Vec<f32> = (0..tokens * ROWS)
                .map(|i| weights[i % ROWS * cols + 16 * (i / ROWS)])
                .collect();
            for isa in Isa::available() {
                let actual = products(&matrix, isa, &activations, tokens);
                assert_eq!(actual, expected, "{quant} from {} on {isa:?}", ROWS * batch);
            }
        }
    }
}

#[test]
fn accepted_scales_of_mxfp4_overflow_no_product() {
    let (quant, x) = (Quant::MXFP4, [2.0_f32.powi(-40); GROUP]);
    let mut chunks = [ActivationChunk::ZERO];
    Activations::quantize(&x, &mut chunks).expect("it fits");
    for bits in 64..=u8::MAX {
        let mut block = [0x77; 17];
        block[0] = bits;
        if quant.has_bad_scale(&block) {
            continue;
        }
        let expected = f64::from(12 * GROUP as u32) * 2.0_f64.powi(i32::from(bits) - 128 - 40);
        let is_near = |actual: f32| (f64::from(actual) / expected - 1.0).abs() < 1e-5;
        let (plain, mut packed) = (block.repeat(ROWS), vec![0; 17 * ROWS]);
        pack_group(quant, GROUP, &plain, &mut packed).expect("it fits");
        let matrix = Packed::new(quant, GROUP, &packed).expect("it fits");
        for isa in Isa::available() {
            let mut y = [0.0];
            let activations = Activations::from_parts(&x, &chunks).expect("it fits");
            quant.gemv_on(isa, &block, &activations, &mut y).expect("it fits");
            assert!(is_near(y[0]), "scale {bits} on {isa:?}: {} for {expected}", y[0]);
            let actual = products(&matrix, isa, &chunks, 1);
            assert!(
                actual.iter().copied().all(is_near),
                "packed, scale {bits} on {isa:?}: {actual:?} for {expected}"
            );
        }
    }
}

#[test]
fn mismatched_sizes_are_rejected() {
    let mut packed = vec![0; 16 * 20];
    assert!(pack_group(Quant::F16, 32, &[0; 320], &mut packed).is_err());
    assert!(pack_group(Quant::Q2_K, 32, &[0; 320], &mut packed).is_err());
    assert!(pack_group(Quant::Q4_1, 33, &[0; 320], &mut packed).is_err());
    assert!(pack_group(Quant::Q4_1, 32, &[0; 319], &mut packed).is_err());
    assert!(Packed::new(Quant::Q4_1, 32, &packed[1..]).is_err());
    let matrix = Packed::new(Quant::Q4_1, 32, &packed).expect("it fits");
    assert!(matrix.dequantize_row(16, &mut [0.0; 32]).is_err());
    let chunks = [ActivationChunk::ZERO; 2];
    let tiles = TokenTiles::new(&chunks[..1], 1, 32).expect("it fits");
    let wide_tiles = TokenTiles::new(&chunks, 1, 512).expect("it fits");
    let product = |groups, tiles, tokens| matrix.product(Isa::best(), groups, tiles, tokens, |_, _, _| {});
    assert!(product(0..1, tiles, 0..1).is_ok());
    assert!(product(0..2, tiles, 0..1).is_err());
    assert!(product(0..1, tiles, 0..2).is_err());
    assert!(product(0..1, wide_tiles, 0..1).is_err());
    assert!(TokenTiles::new(&chunks, 1, 32).is_err());
}

/// Hashes of packed rows of each format, in the layout of version 4.
const PACKED: &[(Quant, u64)] = &[
    (Quant::Q4_0, 0x1a45_e335_f7f4_354d),
    (Quant::Q4_1, 0x7a81_5308_94d0_41bc),
    (Quant::Q5_0, 0xf6fd_ea78_a2e7_12f9),
    (Quant::Q5_1, 0xd5c1_8556_8d5f_1be8),
    (Quant::Q8_0, 0x6ec6_00d6_fa13_ad85),
    (Quant::Q2_K, 0x09e2_34ee_06db_e916),
    (Quant::Q3_K, 0x49c5_5fc0_2c20_0165),
    (Quant::Q4_K, 0xd2cd_9b72_2303_0c86),
    (Quant::Q5_K, 0xefb1_e435_ca54_6046),
    (Quant::Q6_K, 0xa048_611b_4b19_202f),
    (Quant::IQ4_XS, 0x4b3f_ae3b_6bdd_1d9a),
    (Quant::IQ4_NL, 0x1a45_e335_f7f4_354d),
    (Quant::MXFP4, 0x2ada_2086_64b6_53b1),
    (Quant::NVFP4, 0x7528_61dd_4628_4e83),
    (Quant::F32, 0x7664_09d9_9f46_2a6f),
    (Quant::F16, 0x45ba_548d_aa22_50aa),
    (Quant::BF16, 0x45ba_548d_aa22_50aa),
];

/// Packed weights are stored in files that later builds read.
#[test]
fn a_layout_version_has_one_layout() {
    for quant in Quant::ALL {
        let cols = 2 * quant.block_elements().max(GROUP);
        let bytes = quant.row_bytes(cols).expect("whole blocks") * ROWS;
        let blocks: Vec<u8> = random(1, bytes).into_iter().map(|x| (x * 128.0) as i8 as u8).collect();
        let mut packed = vec![0; bytes];
        pack_group(quant, cols, &blocks, &mut packed).expect("it fits");
        // FNV-1a.
        let hash = packed.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let expected = PACKED
            .iter()
            .find(|(packed, _)| *packed == quant)
            .map(|(_, hash)| *hash);
        assert_eq!(
            (LAYOUT_VERSION, Some(hash)),
            (4, expected),
            "{quant}: if its layout has changed, increment LAYOUT_VERSION; then write the hash {hash:#018x} here"
        );
    }
}

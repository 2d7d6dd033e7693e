//! Compares hashes of drawn tokens with golden values. A difference means that a filter, the order
//! of filters or the random draws changed.

use hearth_llm::{Sampler, SamplingError, SamplingParams};

/// Pseudo-random numbers in 0..1 from Knuth's linear congruential generator for MMIX.
fn uniform(seed: u64) -> impl Iterator<Item = f32> {
    let mut state = seed;
    std::iter::from_fn(move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        Some((state >> 40) as f32 / (1_u64 << 24) as f32)
    })
}

/// Logits with ties. Every `unusual_every`-th is NaN, infinity or minus infinity.
fn logits(vocab: usize, unusual_every: usize) -> Vec<f32> {
    let unusual = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    let logit = |(i, x): (usize, f32)| match i % unusual_every {
        0 => unusual[i / unusual_every % 3],
        _ => (x * 400.0).floor() / 16.0 - 5.0,
    };
    uniform(vocab as u64).take(vocab).enumerate().map(logit).collect()
}

fn params() -> Vec<SamplingParams> {
    let base = SamplingParams {
        temperature: 0.8,
        ..SamplingParams::greedy()
    };
    let changes: [fn(&mut SamplingParams); 22] = [
        |_| (),
        |s| s.top_k = 40,
        |s| s.top_k = 1,
        |s| s.top_p = 0.9,
        |s| s.top_p = 0.0,
        |s| s.min_p = 0.05,
        |s| (s.top_k, s.top_p, s.min_p) = (40, 0.95, 0.05),
        |s| (s.top_k, s.top_p, s.min_p, s.temperature) = (300, 0.99, 0.01, 2.5),
        |s| (s.repetition_penalty, s.repeat_last_n) = (1.3, 64),
        |s| (s.frequency_penalty, s.presence_penalty, s.repeat_last_n, s.top_k) = (0.7, 0.4, 20, 50),
        |s| (s.temperature, s.presence_penalty, s.repeat_last_n) = (0.0, 3.0, 5),
        |s| (s.temperature, s.top_k, s.min_p) = (0.0, 3, 0.5),
        |s| s.typical_p = 0.6,
        |s| s.top_n_sigma = 1.2,
        |s| (s.xtc_probability, s.xtc_threshold) = (0.5, 0.05),
        |s| (s.dry_multiplier, s.dry_allowed_length, s.dry_last_n, s.top_k) = (0.8, 1, 64, 3),
        |s| (s.temperature, s.dry_multiplier, s.dry_allowed_length, s.dry_last_n) = (0.0, 2.0, 1, 30),
        |s| (s.mirostat, s.mirostat_tau, s.mirostat_eta) = (true, 3.0, 0.2),
        |s| (s.dynatemp_range, s.dynatemp_exponent, s.top_k) = (0.7, 1.3, 50),
        |s| s.logit_bias = vec![(3, 12.5), (4, f32::NEG_INFINITY), (1 << 30, 1.0)],
        |s| {
            (s.top_n_sigma, s.top_k, s.typical_p, s.top_p, s.min_p) = (3.0, 60, 0.95, 0.97, 0.01);
            (s.xtc_probability, s.dynatemp_range, s.dry_multiplier, s.dry_last_n) = (0.3, 0.2, 0.5, 20);
        },
        // Neutral values: the hashes equal those in the first row.
        |s| {
            (s.top_n_sigma, s.xtc_threshold, s.dry_last_n, s.dry_base) = (-1.0, 0.0, 99, 3.0);
            (s.mirostat_tau, s.mirostat_eta, s.dynatemp_exponent) = (1.0, 1.0, 2.0);
        },
    ];
    let apply = |change: &fn(&mut SamplingParams)| {
        let mut params = base.clone();
        change(&mut params);
        params
    };
    changes.iter().map(apply).collect()
}

/// The FNV-1a hash of 60 tokens for each of two seeds. Each token is accepted after it is drawn.
fn hash_draws(params: &SamplingParams, logits: &[f32]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for seed in [7, 1 << 40] {
        let mut sampler = Sampler::new(SamplingParams { seed, ..params.clone() }).expect("valid parameters");
        for _ in 0..60 {
            let token = match sampler.sample(logits) {
                Ok(token) => token,
                Err(SamplingError::NoLogits) => u32::MAX,
                Err(error) => panic!("{error}"),
            };
            sampler.accept(token);
            for byte in token.to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    hash
}

/// The hashes for each element of [`params`] and each set of logits. The fourth set has no finite
/// logits, so its hash is always the same. The first twelve rows are from commit 90e1749, whose
/// sampler had no separate filters. The others are from the commits that added their filters.
/// `HEARTH_UPDATE_SAMPLER=1` prints the current hashes.
#[rustfmt::skip]
const EXPECTED: [[u64; 4]; 22] = [
    [0x201d_e281_d536_4148, 0x4ee0_6c41_f4eb_3115, 0xe203_71b3_744b_4e71, 0x9add_87f2_c07c_0ac5],
    [0xe2f2_bd56_4a2d_6fee, 0x4ee0_6c41_f4eb_3115, 0x0fa9_a053_c833_39c5, 0x9add_87f2_c07c_0ac5],
    [0x62be_04cd_573d_bc25, 0xa1fc_053d_9a73_fc25, 0xaf7a_72ab_a206_4325, 0x9add_87f2_c07c_0ac5],
    [0xc0b9_5133_b3d8_dc1b, 0x86ed_14ec_2078_57df, 0x159a_cd3c_5008_8110, 0x9add_87f2_c07c_0ac5],
    [0x62be_04cd_573d_bc25, 0xa1fc_053d_9a73_fc25, 0xaf7a_72ab_a206_4325, 0x9add_87f2_c07c_0ac5],
    [0xcd3d_e8e7_7b8d_77f9, 0x86ed_14ec_2078_57df, 0x5016_ccee_023d_58c6, 0x9add_87f2_c07c_0ac5],
    [0x1bda_7c5c_c361_4be7, 0x86ed_14ec_2078_57df, 0xb902_b40e_d9e0_05cd, 0x9add_87f2_c07c_0ac5],
    [0xf180_7475_4b38_aaf5, 0x97a4_67eb_a945_57d5, 0x24d6_3307_5951_82e4, 0x9add_87f2_c07c_0ac5],
    [0x5439_5a61_699f_3606, 0x7e21_d8fc_2414_ddbe, 0xd48b_8372_8d03_cd5f, 0x9add_87f2_c07c_0ac5],
    [0xb50c_85b4_3b4e_6ec1, 0xaee4_83b2_95bf_55d8, 0x06b7_ca87_62b8_972a, 0x9add_87f2_c07c_0ac5],
    [0xdd39_c940_3a58_8d5d, 0x4b04_5a93_06e9_7365, 0xe588_f7e5_2c27_ed85, 0x9add_87f2_c07c_0ac5],
    [0x62be_04cd_573d_bc25, 0xa1fc_053d_9a73_fc25, 0xaf7a_72ab_a206_4325, 0x9add_87f2_c07c_0ac5],
    [0x12ba_6a40_c88a_26e2, 0xa1fc_053d_9a73_fc25, 0x5bc0_2bf1_b948_e929, 0x9add_87f2_c07c_0ac5],
    [0x201d_e281_d536_4148, 0x4ee0_6c41_f4eb_3115, 0x1b3b_9a0d_808a_0fba, 0x9add_87f2_c07c_0ac5],
    [0x02c7_e7c3_d578_4d5f, 0x2e3a_c986_9907_e83f, 0xb7b1_c9f4_8b97_6b3b, 0x9add_87f2_c07c_0ac5],
    [0x612d_bf83_e3c7_d28f, 0xffc2_25d7_1cd0_7159, 0x0c80_8ccb_e192_9f9a, 0x9add_87f2_c07c_0ac5],
    [0x303c_1be5_acf9_54a5, 0xf22d_e2e9_2a48_08c5, 0x3a4a_aa93_baec_1429, 0x9add_87f2_c07c_0ac5],
    [0x1db3_b043_f1d9_b4d0, 0x4ee0_6c41_f4eb_3115, 0xc5fb_ff47_73df_f015, 0x9add_87f2_c07c_0ac5],
    [0x913c_a49d_ea61_14b1, 0xa1fc_053d_9a73_fc25, 0x3a2a_d689_f7be_7d99, 0x9add_87f2_c07c_0ac5],
    [0x4f7c_d4ff_0bf2_da65, 0x4f7c_d4ff_0bf2_da65, 0xe203_71b3_744b_4e71, 0x9add_87f2_c07c_0ac5],
    [0xafbb_b7bc_40b9_f69b, 0x5858_e223_ff53_9ac2, 0x3ce6_950d_7511_d4f9, 0x9add_87f2_c07c_0ac5],
    [0x201d_e281_d536_4148, 0x4ee0_6c41_f4eb_3115, 0xe203_71b3_744b_4e71, 0x9add_87f2_c07c_0ac5],
];

#[test]
fn draws_match_the_golden_hashes() {
    let logit_sets = [logits(300, 7), logits(32, 1000), logits(49_152, 101), logits(50, 1)];
    let actual: Vec<[u64; 4]> = params()
        .iter()
        .map(|params| logit_sets.each_ref().map(|logits| hash_draws(params, logits)))
        .collect();
    if std::env::var_os("HEARTH_UPDATE_SAMPLER").is_some() {
        println!("{actual:#018x?}");
    }
    assert_eq!(EXPECTED[0], EXPECTED[21], "neutral values change nothing");
    for ((actual, expected), params) in actual.iter().zip(EXPECTED).zip(params()) {
        assert_eq!(*actual, expected, "{params:?}");
    }
}

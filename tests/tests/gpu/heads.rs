//! RMSNorm, RoPE and temperature of Q and K.

use crate::device::{assert_near, floats, gpu, numbers};
use hearth_kernels::attention::{Heads, QkNormWidth, Temperature};
use hearth_kernels::gpu::{Norm, QkNormRope, Rotation, qk_norm_rope, rope_table};
use hearth_kernels::reference::{self, noise, wide};
use hearth_kernels::rope::{Pairing, Rope};

/// Heads, norms of Q and K, pairing, and rotated elements.
struct Case {
    heads: Heads,
    norms: [bool; 2],
    norm_width: QkNormWidth,
    pairing: Pairing,
    dims: usize,
    /// The magnitude of RoPE; `None` means no RoPE.
    magnitude: Option<f32>,
    temperature: Option<Temperature>,
}

const fn case(shape: [usize; 3], norms: [bool; 2], pairing: Pairing, dims: usize) -> Case {
    let [heads, kv_heads, head_dim] = shape;
    let heads = Heads {
        heads,
        kv_heads,
        head_dim,
        scale: 1.0,
        softcap: None,
        window: None,
    };
    Case {
        heads,
        norms,
        norm_width: QkNormWidth::Head,
        pairing,
        dims,
        magnitude: Some(1.0),
        temperature: None,
    }
}

/// One of nine positions is below the length.
const TEMPERATURE: Option<Temperature> = Some(Temperature { scale: 0.3, length: 1 });

const CASES: [Case; 10] = [
    case([4, 2, 6], [false, false], Pairing::Interleaved, 6),
    case([3, 1, 10], [true, true], Pairing::Halves, 4),
    case([2, 2, 80], [true, false], Pairing::Interleaved, 64),
    case([6, 2, 64], [false, true], Pairing::Halves, 64),
    case([1, 1, 7], [true, true], Pairing::Halves, 0),
    Case {
        magnitude: Some(1.25),
        temperature: TEMPERATURE,
        ..case([4, 2, 64], [true, true], Pairing::Interleaved, 48)
    },
    Case {
        magnitude: None,
        temperature: TEMPERATURE,
        ..case([4, 2, 10], [false, true], Pairing::Halves, 10)
    },
    Case {
        norm_width: QkNormWidth::AllHeads,
        ..case([5, 5, 64], [true, true], Pairing::Halves, 64)
    },
    Case {
        norm_width: QkNormWidth::AllHeads,
        magnitude: None,
        ..case([7, 1, 80], [true, false], Pairing::Halves, 80)
    },
    Case {
        norm_width: QkNormWidth::AllHeads,
        magnitude: Some(0.75),
        temperature: TEMPERATURE,
        ..case([2, 1, 6], [false, true], Pairing::Interleaved, 6)
    },
];

#[test]
fn heads_are_normalized_and_rotated_as_the_reference() {
    let Some(client) = gpu() else { return };
    let positions = [0, 5, 70, 3, 3, 99, 1, 2, 50];
    for (number, case) in CASES.into_iter().enumerate() {
        let Case {
            heads, pairing, dims, ..
        } = case;
        let (width, eps) = (heads.qkv_width(), 1e-3);
        let qkv = noise(1, 9 * width);
        let lengths = case.norm_width.lengths(&heads);
        let weights = [0, 1].map(|index| noise(2 + index as u64, lengths[index]));
        let norm = |index: usize| Norm {
            weight: floats(&client, &weights[index], 1, lengths[index]).handle,
            eps,
        };
        let [q, k] = [0, 1].map(|index| case.norms[index].then(|| norm(index)));
        let plain = reference::Rotation::plain(pairing, dims, 100.0);
        let table = rope_table(
            &Rope::new(pairing, &plain.frequencies, case.magnitude.unwrap_or(1.0)),
            100,
        );
        // An empty table still needs a buffer of one word.
        let table = floats(&client, &[table, vec![0.0]].concat(), 1, 1).handle;
        let (qkv_on_gpu, positions_on_gpu) = (floats(&client, &qkv, 9, width), numbers(&client, &positions));
        let args = QkNormRope {
            norms: [q.as_ref(), k.as_ref()],
            norm_width: case.norm_width,
            rotation: case.magnitude.map(|_| Rotation {
                pairing,
                dims,
                table: &table,
                positions: 100,
            }),
            temperature: case.temperature,
        };
        let actual = qk_norm_rope(&client, &qkv_on_gpu, &heads, &args, &positions_on_gpu).expect("shapes that fit");
        let expected = reference::QkNormRope {
            norms: [0, 1].map(|index| case.norms[index].then(|| wide(&weights[index]))),
            eps: f64::from(eps),
            rotation: case.magnitude.map(|magnitude| reference::Rotation {
                magnitude: f64::from(magnitude),
                ..plain
            }),
            temperature: case.temperature,
        };
        let expected = reference::qk_norm_rope(&wide(&qkv), &heads, &positions, &expected);
        assert_near(&format!("case {number}"), &client, &actual, &expected, 1e-5);

        let refused = |heads: &Heads, dims, positions| {
            let rotation = Some(Rotation {
                pairing,
                dims,
                table: &table,
                positions,
            });
            let args = QkNormRope {
                norms: [None, None],
                rotation,
                ..args
            };
            assert!(qk_norm_rope(&client, &qkv_on_gpu, heads, &args, &positions_on_gpu).is_err());
        };
        refused(
            &Heads {
                head_dim: heads.head_dim + 1,
                ..heads
            },
            dims,
            100,
        );
        refused(&Heads { kv_heads: 0, ..heads }, dims, 100);
        refused(&heads, dims + 2, 100);
        refused(&heads, 2, 0);
    }
}

/// The buffers of such short weights hold fewer words than the heads need.
#[test]
fn norms_over_heads_need_a_weight_for_each_element() {
    let Some(client) = gpu() else { return };
    let heads = case([64, 64, 64], [true, true], Pairing::Halves, 0).heads;
    let qkv = floats(&client, &noise(1, heads.qkv_width()), 1, heads.qkv_width());
    let positions = numbers(&client, &[0]);
    let norm = |length: usize| Norm {
        weight: floats(&client, &noise(2, length), 1, length).handle,
        eps: 1e-3,
    };
    let (short, long) = (norm(64), norm(4096));
    for (q, k, norm_width, is_valid) in [
        (&short, &short, QkNormWidth::Head, true),
        (&long, &long, QkNormWidth::AllHeads, true),
        (&short, &long, QkNormWidth::AllHeads, false),
        (&long, &short, QkNormWidth::AllHeads, false),
    ] {
        let args = QkNormRope {
            norms: [Some(q), Some(k)],
            norm_width,
            rotation: None,
            temperature: None,
        };
        let result = qk_norm_rope(&client, &qkv, &heads, &args, &positions);
        assert_eq!(result.is_ok(), is_valid, "{norm_width:?}");
    }
}

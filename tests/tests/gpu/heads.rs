//! RMSNorm and RoPE of Q and K.

use crate::device::{assert_near, floats, gpu, numbers};
use hearth_kernels::attention::Heads;
use hearth_kernels::gpu::{Norm, qk_norm_rope, rope_table};
use hearth_kernels::reference::{QkNormRope, noise, qk_norm_rope as reference_qk_norm_rope, wide};
use hearth_kernels::rope::{Pairing, Rope};

/// Heads, norms of Q and K, pairing, and rotated elements.
struct Case {
    heads: Heads,
    norms: [bool; 2],
    pairing: Pairing,
    dims: usize,
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
        pairing,
        dims,
    }
}

const CASES: [Case; 5] = [
    case([4, 2, 6], [false, false], Pairing::Interleaved, 6),
    case([3, 1, 10], [true, true], Pairing::Halves, 4),
    case([2, 2, 80], [true, false], Pairing::Interleaved, 64),
    case([6, 2, 64], [false, true], Pairing::Halves, 64),
    case([1, 1, 7], [true, true], Pairing::Halves, 0),
];

#[test]
fn heads_are_normalized_and_rotated_as_the_reference() {
    let Some(client) = gpu() else { return };
    let positions = [0, 5, 70, 3, 3, 99, 1, 2, 50];
    for (
        number,
        Case {
            heads,
            norms,
            pairing,
            dims,
        },
    ) in CASES.into_iter().enumerate()
    {
        let (width, eps) = (heads.qkv_width(), 1e-3);
        let (qkv, weights) = (
            noise(1, 9 * width),
            [noise(2, heads.head_dim), noise(3, heads.head_dim)],
        );
        let norm = |index: usize| Norm {
            weight: floats(&client, &weights[index], 1, heads.head_dim).handle,
            eps,
        };
        let [q, k] = [0, 1].map(|index| norms[index].then(|| norm(index)));
        let table = rope_table(&Rope::new(pairing, dims, 100.0, 1.0, None), 100);
        // An empty table still needs a buffer of one word.
        let table = floats(&client, &[table, vec![0.0]].concat(), 1, 1).handle;
        let (qkv_on_gpu, positions_on_gpu) = (floats(&client, &qkv, 9, width), numbers(&client, &positions));
        let actual = qk_norm_rope(
            &client,
            &qkv_on_gpu,
            &heads,
            q.as_ref(),
            k.as_ref(),
            pairing,
            dims,
            &table,
            100,
            &positions_on_gpu,
        )
        .expect("shapes that fit");
        let norms = [0, 1].map(|index| norms[index].then(|| wide(&weights[index])));
        let reference = QkNormRope {
            norms,
            eps: f64::from(eps),
            pairing,
            dims,
            base: 100.0,
        };
        let expected = reference_qk_norm_rope(&wide(&qkv), &heads, &positions, &reference);
        assert_near(&format!("case {number}"), &client, &actual, &expected, 1e-5);

        let refused = |heads: &Heads, dims, positions| {
            assert!(
                qk_norm_rope(
                    &client,
                    &qkv_on_gpu,
                    heads,
                    None,
                    None,
                    pairing,
                    dims,
                    &table,
                    positions,
                    &positions_on_gpu
                )
                .is_err()
            );
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

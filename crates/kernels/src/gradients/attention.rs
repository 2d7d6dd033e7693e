//! Attention over a batch, and RMSNorm and RoPE of Q and K.

use super::{F32, Report, many_rows};
use crate::attention::{Heads, attend_batch_backward, attend_batch_with_lse, qk_norm_rope_backward_in_place};
use crate::linear::Norm;
use crate::reference::{self, QkNormRope, central_differences, noise, wide};
use crate::rope::{Pairing, Rope};

/// An attention layer with large scores.
fn heads(heads: usize, kv_heads: usize, head_dim: usize, window: Option<usize>) -> Heads {
    Heads {
        heads,
        kv_heads,
        head_dim,
        scale: 2.0 / (head_dim as f32).sqrt(),
        softcap: None,
        window,
    }
}

/// The heads with a softcap near the size of their scores.
fn capped(heads: Heads) -> Heads {
    Heads {
        softcap: Some(1.5),
        ..heads
    }
}

pub(super) fn check(report: &mut Report) {
    let many = many_rows();
    let cases = [
        ("one element", heads(1, 1, 1, None), vec![1]),
        ("one row", heads(4, 2, 6, None), vec![1]),
        ("causal, more rows than threads", heads(4, 2, 6, None), vec![many]),
        (
            "sliding window, more rows than threads",
            heads(3, 1, 18, Some(3)),
            vec![many],
        ),
        ("segments, causal", heads(4, 2, 6, None), vec![4, 1, 6]),
        ("segments, sliding window", heads(2, 2, 5, Some(2)), vec![1, 7, 3]),
        ("segments, softcap", capped(heads(4, 2, 6, None)), vec![4, 1, 6]),
        (
            "softcap, sliding window, more rows than threads",
            capped(heads(3, 1, 18, Some(3))),
            vec![many],
        ),
    ];
    for (case, heads, lengths) in cases {
        attend(report, case, &heads, &lengths);
    }
    for pairing in [Pairing::Interleaved, Pairing::Halves] {
        for norms in [false, true] {
            for (size, tokens) in [("one row", 1), ("more rows than threads", many)] {
                qk_norm_rope(report, size, tokens, pairing, norms);
            }
        }
    }
}

fn attend(report: &mut Report, case: &str, heads: &Heads, lengths: &[usize]) {
    let mut starts = Vec::new();
    for length in lengths {
        starts.extend(vec![starts.len() as u32; *length]);
    }
    let qkv = noise(1, starts.len() * heads.qkv_width());
    let d_out = noise(2, starts.len() * heads.out_width());
    let expected = central_differences(&wide(&qkv), &wide(&d_out), |qkv| reference::attend(qkv, heads, &starts));
    let mut d_qkv = vec![f32::NAN; qkv.len()];
    let (mut out, mut lse) = (vec![f32::NAN; d_out.len()], vec![f32::NAN; starts.len() * heads.heads]);
    let result = attend_batch_with_lse(&qkv, heads, &starts, &mut out, &mut lse)
        .and_then(|()| attend_batch_backward(&qkv, heads, &starts, [&out, &lse], &d_out, &mut d_qkv));
    report.compare(
        "attention",
        format!("separate output, {case}"),
        result.map(|()| d_qkv),
        &expected,
        F32,
    );
}

fn qk_norm_rope(report: &mut Report, size: &str, tokens: usize, pairing: Pairing, has_norms: bool) {
    let (heads, eps, dims) = (heads(3, 1, 8, None), 1e-3, 6);
    let (q_weight, k_weight) = (noise(3, heads.head_dim), noise(4, heads.head_dim));
    let norm = |weight| has_norms.then_some(Norm { weight, eps });
    let (q_norm, k_norm) = (norm(&q_weight[..]), norm(&k_weight[..]));
    let positions: Vec<u32> = (0..tokens as u32).map(|token| 37 * token).collect();
    let reference_args = QkNormRope {
        norms: [q_norm, k_norm].map(|norm| norm.map(|norm| wide(norm.weight))),
        eps: f64::from(eps),
        pairing,
        dims,
        base: 10_000.0,
    };
    let (qkv, mut gradient) = (
        noise(5, tokens * heads.qkv_width()),
        noise(6, tokens * heads.qkv_width()),
    );
    let expected = central_differences(&wide(&qkv), &wide(&gradient), |qkv| {
        reference::qk_norm_rope(qkv, &heads, &positions, &reference_args)
    });
    let rope = Rope::new(pairing, dims, 10_000.0, 1.0, None);
    let result = qk_norm_rope_backward_in_place(&mut gradient, &qkv, &heads, &positions, q_norm, k_norm, &rope);
    let norms = if has_norms { "head norms" } else { "no norms" };
    let arrangement = format!("{pairing:?}, {norms}, over the gradient, {size}");
    report.compare(
        "rope and head norms",
        arrangement,
        result.map(|()| gradient),
        &expected,
        F32,
    );
}

//! Attention over a batch, and RMSNorm and RoPE of Q and K.

use super::{F32, Report, many_rows};
use crate::attention::{
    Heads, QkNormRope, QkNormWidth, Temperature, attend_batch_backward, attend_batch_with_lse,
    qk_norm_rope_backward_in_place,
};
use crate::linear::Norm;
use crate::reference::{self, central_differences, noise, wide};
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
    for change in CHANGES {
        for pairing in [Pairing::Interleaved, Pairing::Halves] {
            for (size, tokens) in [("one row", 1), ("more rows than threads", many)] {
                qk_norm_rope(report, size, tokens, pairing, change);
            }
        }
    }
}

/// A change of Q and K before attention.
#[derive(Clone, Copy, Debug)]
struct Change {
    /// The width of the norms; `None` means no norms.
    norms: Option<QkNormWidth>,
    /// The magnitude of RoPE; `None` means no RoPE.
    magnitude: Option<f32>,
    temperature: Option<Temperature>,
}

/// Positions are multiples of 37, so Q of all tokens but the first has another factor than 1.
const TEMPERATURE: Temperature = Temperature { scale: 0.5, length: 20 };

const CHANGES: [Change; 6] = [
    change(None, Some(1.0), None),
    change(Some(QkNormWidth::Head), Some(1.0), None),
    change(Some(QkNormWidth::AllHeads), Some(1.25), None),
    change(Some(QkNormWidth::Head), Some(1.25), Some(TEMPERATURE)),
    change(Some(QkNormWidth::AllHeads), None, Some(TEMPERATURE)),
    change(None, None, None),
];

const fn change(norms: Option<QkNormWidth>, magnitude: Option<f32>, temperature: Option<Temperature>) -> Change {
    Change {
        norms,
        magnitude,
        temperature,
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

fn qk_norm_rope(report: &mut Report, size: &str, tokens: usize, pairing: Pairing, change: Change) {
    let (heads, eps, dims) = (heads(3, 1, 8, None), 1e-3, 6);
    let norm_width = change.norms.unwrap_or_default();
    let [q_length, k_length] = norm_width.lengths(&heads);
    let (q_weight, k_weight) = (noise(3, q_length), noise(4, k_length));
    let norms = [&q_weight[..], &k_weight[..]].map(|weight| change.norms.map(|_| Norm { weight, eps }));
    let plain = reference::Rotation::plain(pairing, dims, 10_000.0);
    let positions: Vec<u32> = (0..tokens as u32).map(|token| 37 * token).collect();
    let reference_args = reference::QkNormRope {
        norms: norms.map(|norm| norm.map(|norm| wide(norm.weight))),
        eps: f64::from(eps),
        rotation: change.magnitude.map(|magnitude| reference::Rotation {
            magnitude: f64::from(magnitude),
            ..plain.clone()
        }),
        temperature: change.temperature,
    };
    let (qkv, mut gradient) = (
        noise(5, tokens * heads.qkv_width()),
        noise(6, tokens * heads.qkv_width()),
    );
    let expected = central_differences(&wide(&qkv), &wide(&gradient), |qkv| {
        reference::qk_norm_rope(qkv, &heads, &positions, &reference_args)
    });
    let rope = change
        .magnitude
        .map(|magnitude| Rope::new(pairing, &plain.frequencies, magnitude));
    let args = QkNormRope {
        norms,
        norm_width,
        rope: rope.as_ref(),
        temperature: change.temperature,
    };
    let result = qk_norm_rope_backward_in_place(&mut gradient, &qkv, &heads, &positions, &args);
    report.compare(
        "rope and norms of Q and K",
        format!("{pairing:?}, {change:?}, over the gradient, {size}"),
        result.map(|()| gradient),
        &expected,
        F32,
    );
}

//! The formulas of the cases in f64, the reference for gradients.

use super::case::{Case, EPS, LORA_SCALE, LinearShape, Op, Source};
use super::on_device::{NormKind, norm_weights, rope, weight_seed};
use hearth_kernels::attention::Heads;
use hearth_kernels::reference::{self, Linear, Lora, QkNormRope, Rotation, wide};
use hearth_kernels::rope::Pairing;
use hearth_llm::Batch;
use std::error::Error;

/// A case with its weights dequantized to f64.
pub struct Formula<'a> {
    case: &'a Case,
    linears: Vec<Linear>,
}

impl<'a> Formula<'a> {
    /// The formula of a case.
    ///
    /// # Errors
    /// A weight's rows are not whole blocks.
    pub fn from_case(case: &'a Case) -> Result<Self, Box<dyn Error>> {
        let linear = |(index, shape): (usize, LinearShape)| -> Result<Linear, Box<dyn Error>> {
            Ok(Linear {
                weight: wide(&shape.values(weight_seed(index))?),
                rows: shape.rows,
                cols: shape.cols,
                scale: f64::from(shape.scale()),
                lora: shape.rank.map(|_| Lora {
                    a: Vec::new(),
                    b: Vec::new(),
                    scale: f64::from(LORA_SCALE),
                    mask: None,
                }),
                bias: shape.bias(weight_seed(index)).as_deref().map(wide),
            })
        };
        let linears = case.op.linears().into_iter().enumerate().map(linear);
        Ok(Self {
            case,
            linears: linears.collect::<Result<_, _>>()?,
        })
    }

    /// Computes the output from the values of the case's leaves.
    pub fn output(&self, leaves: &[Vec<f64>]) -> Vec<f64> {
        let linears = self.with_adapters(leaves);
        match &self.case.op {
            Op::NormLinears(shapes) => {
                let x = normed(&leaves[0], shapes[0].cols, NormKind::Before);
                let outputs: Vec<Vec<f64>> = linears.iter().map(|linear| linear.over(&x)).collect();
                let row = |token: usize| {
                    let parts = outputs.iter().zip(&linears);
                    parts.flat_map(move |(y, linear)| y[token * linear.rows..][..linear.rows].iter().copied())
                };
                (0..self.case.tokens).flat_map(row).collect()
            }
            Op::LinearAdd { linear, norm, scale } => {
                let y = optionally_normed(linears[0].over(&leaves[1]), *norm, linear.rows);
                sum(&leaves[0], *scale, &y)
            }
            Op::FeedForward {
                gated,
                down,
                activation,
                norm,
                scale,
            } => {
                let x = normed(&leaves[0], gated[0].cols, NormKind::Before);
                let h = reference::gated(*activation, &linears[0].over(&x), &linears[1].over(&x));
                let y = optionally_normed(linears[2].over(&h), *norm, down.rows);
                sum(&leaves[0], *scale, &y)
            }
            Op::Attend {
                heads,
                pairing,
                norms,
                source,
            } => attend(&leaves[0], heads, *pairing, *norms, source),
            Op::CrossEntropy { output, softcap } => {
                let mut logits = linears[0].over(&normed(&leaves[0], output.cols, NormKind::Before));
                if let Some(cap) = softcap {
                    logits = reference::softcapped(&logits, f64::from(*cap));
                }
                let losses = reference::cross_entropy(&logits, &self.case.targets(output.rows));
                vec![losses.iter().sum::<f64>() / self.case.tokens as f64]
            }
            Op::Argmax { .. } => Vec::new(),
        }
    }

    /// The linear layers with their adapters, whose factors are the last leaves.
    fn with_adapters(&self, leaves: &[Vec<f64>]) -> Vec<Linear> {
        let mut linears = self.linears.clone();
        let adapters: Vec<&mut Lora> = linears.iter_mut().filter_map(|linear| linear.lora.as_mut()).collect();
        let factors = leaves[leaves.len() - 2 * adapters.len()..].chunks_exact(2);
        for (lora, factors) in adapters.into_iter().zip(factors) {
            (lora.a, lora.b) = (factors[0].clone(), factors[1].clone());
        }
        linears
    }
}

fn attend(qkv: &[f64], heads: &Heads, pairing: Pairing, norms: bool, source: &Source) -> Vec<f64> {
    let lengths = match source {
        Source::Batch(lengths) => lengths.clone(),
        Source::Cache { passes, .. } => vec![passes.iter().sum()],
    };
    let batch = Batch::of_lengths(&lengths);
    let norm = |kind| norms.then(|| wide(&norm_weights(heads.head_dim, kind)));
    let args = QkNormRope {
        norms: [norm(NormKind::Queries), norm(NormKind::Keys)],
        eps: f64::from(EPS),
        rotation: Some(Rotation::plain(
            pairing,
            heads.head_dim,
            rope(pairing, heads.head_dim).1,
        )),
        temperature: None,
    };
    let prepared = reference::qk_norm_rope(qkv, heads, batch.positions(), &args);
    reference::attend(&prepared, heads, batch.starts())
}

fn normed(x: &[f64], width: usize, kind: NormKind) -> Vec<f64> {
    reference::rms_norm(x, &wide(&norm_weights(width, kind)), f64::from(EPS))
}

fn optionally_normed(y: Vec<f64>, norm: bool, width: usize) -> Vec<f64> {
    if norm { normed(&y, width, NormKind::After) } else { y }
}

/// `residual + scale * y`.
fn sum(residual: &[f64], scale: f32, y: &[f64]) -> Vec<f64> {
    let sum = |(residual, y): (&f64, &f64)| residual + f64::from(scale) * y;
    residual.iter().zip(y).map(sum).collect()
}

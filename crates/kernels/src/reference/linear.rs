//! A linear: product, scale, adapter, bias.

use super::wide;
use crate::shape::ShapeError;

/// `[m, k] @ [k, n]`.
pub fn matmul(a: &[f64], b: &[f64], m: usize, k: usize, n: usize) -> Vec<f64> {
    let mut out = vec![0.0; m * n];
    for row in 0..m {
        for i in 0..k {
            let factor = a[row * k + i];
            let sums = out[row * n..][..n].iter_mut();
            sums.zip(&b[i * n..]).for_each(|(sum, b)| *sum += factor * b);
        }
    }
    out
}

/// The transpose of a matrix `[rows, cols]`.
pub fn transpose(x: &[f64], rows: usize, cols: usize) -> Vec<f64> {
    (0..rows * cols).map(|i| x[i % rows * cols + i / rows]).collect()
}

/// An adapter.
#[derive(Clone, Debug)]
pub struct Lora {
    /// `[rank, in]`.
    pub a: Vec<f64>,
    /// `[out, rank]`.
    pub b: Vec<f64>,
    /// Scale of the adapter's output.
    pub scale: f64,
    /// Factor of each element of its input `[T, in]`: 0 if dropped, else `1 / (1 - rate)`; `None`
    /// means no dropout.
    pub mask: Option<Vec<f64>>,
}

/// `y = scale * (x W^T) + lora(x) + bias`.
#[derive(Clone, Debug)]
pub struct Linear {
    /// `[out, in]`.
    pub weight: Vec<f64>,
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub cols: usize,
    /// The weight's own scale.
    pub scale: f64,
    /// The adapter.
    pub lora: Option<Lora>,
    /// The bias.
    pub bias: Option<Vec<f64>>,
}

impl Linear {
    /// Dequantizes a stored linear, with its adapter's dropout mask for `tokens` rows.
    ///
    /// # Errors
    /// Returns an error if the sizes do not match.
    pub fn from_linear(linear: &crate::Linear, tokens: usize) -> Result<Self, ShapeError> {
        linear.check()?;
        let (rows, cols) = (linear.weight.rows(), linear.weight.cols());
        let mut weight = vec![0.0; rows * cols];
        linear.weight.dequantize_rows(0..rows, &mut weight)?;
        let lora = linear.lora.map(|lora| Lora {
            a: wide(lora.a),
            b: wide(lora.b),
            scale: f64::from(lora.scale),
            mask: lora
                .dropout
                .map(|dropout| wide(&dropout.apply(&vec![1.0; tokens * cols], cols))),
        });
        Ok(Self {
            weight: wide(&weight),
            rows,
            cols,
            scale: f64::from(linear.scale),
            lora,
            bias: linear.bias.map(wide),
        })
    }

    /// The output `[T, out]` for `x [T, in]`.
    pub fn over(&self, x: &[f64]) -> Vec<f64> {
        let (tokens, rows, cols) = (x.len() / self.cols, self.rows, self.cols);
        let mut y = matmul(x, &transpose(&self.weight, rows, cols), tokens, cols, rows);
        y.iter_mut().for_each(|y| *y *= self.scale);
        if let Some(lora) = &self.lora {
            let rank = lora.a.len() / cols;
            let input: Vec<f64> = match &lora.mask {
                Some(mask) => x.iter().zip(mask).map(|(x, mask)| x * mask).collect(),
                None => x.to_vec(),
            };
            let low = matmul(&input, &transpose(&lora.a, rank, cols), tokens, cols, rank);
            let output = matmul(&low, &transpose(&lora.b, rows, rank), tokens, rank, rows);
            y.iter_mut().zip(output).for_each(|(y, x)| *y += lora.scale * x);
        }
        if let Some(bias) = &self.bias {
            y.iter_mut().enumerate().for_each(|(i, y)| *y += bias[i % rows]);
        }
        y
    }
}

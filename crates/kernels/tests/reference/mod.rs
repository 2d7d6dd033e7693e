//! The layer loops in f64, written as the formulas are, and what tests share.
#![allow(dead_code, reason = "each test file uses its part")]

/// Reproducible numbers between -1 and 1.
pub fn noise(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Runs the other tests of the calling file again, on each lower level of vector instructions that the machine has (a process
/// chooses its own once).
#[track_caller]
pub fn on_lower_levels() {
    const LIMIT: &str = "HEARTH_ISA";
    if std::env::var_os(LIMIT).is_some() {
        return;
    }
    let best = hearth_kernels::Isa::best();
    for isa in hearth_kernels::Isa::available().into_iter().filter(|isa| *isa != best) {
        let level = isa.level().name();
        let run = std::process::Command::new(std::env::current_exe().unwrap())
            .env(LIMIT, level)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success(), "on {level}:\n{said}");
    }
}

pub fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|x| f64::from(*x)).collect()
}

pub fn narrow(x: &[f64]) -> Vec<f32> {
    x.iter().map(|x| *x as f32).collect()
}

/// Fails where the distance of two vectors is more than `tolerance` of the second's length.
#[track_caller]
pub fn assert_near(what: &str, found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}: lengths");
    let distance = found
        .iter()
        .zip(expected)
        .map(|(a, b)| (f64::from(*a) - b).powi(2))
        .sum::<f64>()
        .sqrt();
    let length = expected.iter().map(|x| x * x).sum::<f64>().sqrt();
    assert!(
        distance <= tolerance * length.max(1e-3),
        "{what}: off by {:.3e} of its length, {tolerance:.1e} allowed\nfound    {:?}\nexpected {:?}",
        distance / length.max(1e-3),
        &found[..found.len().min(8)],
        &expected[..expected.len().min(8)],
    );
}

/// The gradient of `f` at `x` against `weights`, by central differences.
pub fn differences(x: &[f64], weights: &[f64], f: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    const STEP: f64 = 1e-5;
    let value = |x: &[f64]| f(x).iter().zip(weights).map(|(y, w)| y * w).sum::<f64>();
    let mut x = x.to_vec();
    (0..x.len())
        .map(|i| {
            let kept = x[i];
            x[i] = kept + STEP;
            let above = value(&x);
            x[i] = kept - STEP;
            let below = value(&x);
            x[i] = kept;
            (above - below) / (2.0 * STEP)
        })
        .collect()
}

pub fn rms_norm(x: &[f64], weight: &[f64], eps: f64) -> Vec<f64> {
    let row = |x: &[f64]| {
        let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        let root = 1.0 / (mean + eps).sqrt();
        x.iter().zip(weight).map(move |(x, w)| x * root * w).collect::<Vec<_>>()
    };
    x.chunks(weight.len()).flat_map(row).collect()
}

pub fn softmax(x: &[f64]) -> Vec<f64> {
    let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let e: Vec<f64> = x.iter().map(|x| (x - most).exp()).collect();
    let sum: f64 = e.iter().sum();
    e.iter().map(|e| e / sum).collect()
}

pub fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

pub fn gelu_tanh(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
}

/// `[m, k] [k, n]`.
pub fn matmul(a: &[f64], b: &[f64], m: usize, k: usize, n: usize) -> Vec<f64> {
    (0..m * n)
        .map(|at| (0..k).map(|i| a[at / n * k + i] * b[i * n + at % n]).sum())
        .collect()
}

pub fn transpose(x: &[f64], rows: usize, cols: usize) -> Vec<f64> {
    (0..rows * cols).map(|at| x[at % rows * cols + at / rows]).collect()
}

/// The shape of an attention layer.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub heads: usize,
    pub kv_heads: usize,
    pub dim: usize,
    pub scale: f64,
    pub window: Option<usize>,
}

/// Attention of rows of Q, K and V: token `t` sees those from `starts[t]` to itself, within the window.
pub fn attend(qkv: &[f64], shape: Shape, starts: &[u32]) -> Vec<f64> {
    let Shape {
        heads, kv_heads, dim, ..
    } = shape;
    let width = (heads + 2 * kv_heads) * dim;
    let part = |token: usize, head: usize| &qkv[token * width + head * dim..][..dim];
    let mut out = Vec::new();
    for (token, start) in starts.iter().enumerate() {
        let first = (*start as usize).max(shape.window.map_or(0, |window| (token + 1).saturating_sub(window)));
        for head in 0..heads {
            let kv = head / (heads / kv_heads);
            let score = |key: usize| {
                let products = part(token, head).iter().zip(part(key, heads + kv)).map(|(a, b)| a * b);
                shape.scale * products.sum::<f64>()
            };
            let p = softmax(&(first..=token).map(score).collect::<Vec<_>>());
            out.extend((0..dim).map(|i| {
                (first..=token)
                    .zip(&p)
                    .map(|(key, p)| p * part(key, heads + kv_heads + kv)[i])
                    .sum::<f64>()
            }));
        }
    }
    out
}

//! Gated units: `activation(gate) * up`, and their gradient. <https://arxiv.org/abs/2002.05202>

use crate::bf16_slices::SavedElement;
use crate::isa::Isa;
use crate::lanes::{Lanes, WIDTH, on_lanes, sigmoid, tanh};
use crate::shape::{self, ShapeError};
use crate::team;

/// Activation of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x * sigmoid(x)`: SwiGLU.
    Silu,
    /// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`: GeGLU, as in Gemma.
    GeluTanh,
}

/// `sqrt(2 / pi)`.
const ROOT_2_PI: f32 = 0.797_884_6;
/// The cubic term of the tanh form of GELU.
const CUBIC: f32 = 0.044_715;
/// Elements of a work chunk.
pub(crate) const WORK_CHUNK: usize = 4096;

/// The activation of 16 gates and its derivative.
#[inline(always)]
fn value_and_derivative<L: Lanes>(l: L, activation: Activation, x: L::Floats) -> (L::Floats, L::Floats) {
    let one = l.splat(1.0);
    match activation {
        Activation::Silu => {
            let s = sigmoid(l, x);
            // (x s)' = s + x s (1 - s)
            (l.mul(x, s), l.fma(l.mul(x, s), l.sub(one, s), s))
        }
        Activation::GeluTanh => {
            let square = l.mul(x, x);
            let inner = l.mul(l.mul(x, l.splat(ROOT_2_PI)), l.fma(square, l.splat(CUBIC), one));
            let t = tanh(l, inner);
            let half = l.mul(l.splat(0.5), l.add(one, t));
            let inner_derivative = l.mul(l.splat(ROOT_2_PI), l.fma(square, l.splat(3.0 * CUBIC), one));
            // (x half)' = half + x / 2 (1 - t^2) inner'
            let tanh_term = l.mul(l.mul(l.mul(l.splat(0.5), x), l.sub(one, l.mul(t, t))), inner_derivative);
            (l.mul(x, half), l.add(half, tanh_term))
        }
    }
}

/// Runs `step` on whole vectors, and once on the remainder, zero-padded.
macro_rules! over_vectors {
    ([$($x:ident),*] [$($y:ident),*] $step:expr) => {
        $(
            let ($x, x_rest) = $x.as_chunks::<WIDTH>();
            let mut padded = [0.0; WIDTH];
            padded[..x_rest.len()].copy_from_slice(x_rest);
            let $x = ($x, padded);
        )*
        $(let ($y, rest) = $y.as_chunks_mut::<WIDTH>(); let $y = ($y, rest);)*
        over_vectors!(@whole [$($x),*] [$($y),*] $step);
        over_vectors!(@rest [$($x),*] [$($y),*] $step);
    };
    (@whole [$($x:ident),*] [$first:ident $(, $y:ident)*] $step:expr) => {
        for i in 0..$first.0.len() {
            ($step)($(&$x.0[i],)* &mut $first.0[i] $(, &mut $y.0[i])*);
        }
    };
    (@rest [$($x:ident),*] [$($y:ident),*] $step:expr) => {{
        $(let mut out = [0.0; WIDTH]; out[..$y.1.len()].copy_from_slice($y.1); let mut $y = (out, $y.1);)*
        ($step)($(&$x.1,)* $(&mut $y.0),*);
        $({ let n = $y.1.len(); $y.1.copy_from_slice(&$y.0[..n]); })*
    }};
}

on_lanes! {
    fn forward<L>(l; activation: Activation, gate: &[f32], up: &mut [f32]) {
        over_vectors!([gate] [up] |gate: &[f32; WIDTH], up: &mut [f32; WIDTH]| {
            let (value, _) = value_and_derivative(l, activation, l.load(gate));
            l.store(l.mul(value, l.load(up)), up);
        });
    }
}

on_lanes! {
    fn backward<L>(l; activation: Activation, dh: &[f32], gate: &mut [f32], up: &mut [f32]) {
        over_vectors!([dh] [gate, up] |dh: &[f32; WIDTH], gate: &mut [f32; WIDTH], up: &mut [f32; WIDTH]| {
            let (value, derivative) = value_and_derivative(l, activation, l.load(gate));
            let dh = l.load(dh);
            l.store(l.mul(l.mul(dh, l.load(up)), derivative), gate);
            l.store(l.mul(dh, value), up);
        });
    }
}

/// [`glu_in_place`] on this thread alone.
pub(crate) fn glu_in_place_serial(isa: Isa, activation: Activation, gate: &[f32], up: &mut [f32]) {
    forward(isa, activation, gate, up);
}

/// `activation(gate) * up`, overwriting `up`: `ggml_swiglu_split` or `ggml_geglu_split`.
///
/// # Errors
/// Returns an error if the lengths differ.
pub fn glu_in_place(activation: Activation, gate: &[f32], up: &mut [f32]) -> Result<(), ShapeError> {
    shape::length("the gate", gate.len(), Some(up.len()))?;
    let isa = Isa::best();
    team::run_over(up, WORK_CHUNK, &|work_chunk, up| {
        forward(isa, activation, &gate[work_chunk * WORK_CHUNK..][..up.len()], up)
    });
    Ok(())
}

/// The gradient of [`glu_in_place`]: from the output gradient `dh`, overwrites gate and up by their
/// gradients.
///
/// # Errors
/// Returns an error if the lengths differ.
pub fn glu_backward_in_place(
    activation: Activation,
    dh: &[f32],
    gate: &mut [f32],
    up: &mut [f32],
) -> Result<(), ShapeError> {
    shape::length("the gate", gate.len(), Some(dh.len()))?;
    shape::length("up", up.len(), Some(dh.len()))?;
    let isa = Isa::best();
    let gate = team::Scattered::new(gate);
    team::run_over(up, WORK_CHUNK, &|work_chunk, up| {
        // SAFETY: work chunks do not overlap, and each runs once.
        let gate = unsafe { gate.slice(work_chunk * WORK_CHUNK, up.len()) };
        backward(isa, activation, &dh[work_chunk * WORK_CHUNK..][..up.len()], gate, up);
    });
    Ok(())
}

/// [`glu_in_place`] of saved gate and up, written to `h`.
///
/// # Errors
/// Returns an error if the lengths differ.
pub fn glu_from_saved<K: SavedElement>(
    activation: Activation,
    [gate, up]: [&[K]; 2],
    h: &mut [f32],
) -> Result<(), ShapeError> {
    for (what, length) in [("the gate", gate.len()), ("up", up.len())] {
        shape::length(what, length, Some(h.len()))?;
    }
    let isa = Isa::best();
    team::run_over(h, WORK_CHUNK, &|work_chunk, h| {
        let (start, mut gates) = (work_chunk * WORK_CHUNK, [0.0; WORK_CHUNK]);
        let gates = &mut gates[..h.len()];
        K::load(isa, &gate[start..][..h.len()], gates);
        K::load(isa, &up[start..][..h.len()], h);
        forward(isa, activation, gates, h);
    });
    Ok(())
}

/// The gradient of [`glu_in_place`] from saved gate and up and the output gradient `dh`, written to
/// `d_gate` and `d_up`.
///
/// # Errors
/// Returns an error if the lengths differ.
pub fn glu_backward_from_saved<K: SavedElement>(
    activation: Activation,
    [gate, up]: [&[K]; 2],
    dh: &[f32],
    d_gate: &mut [f32],
    d_up: &mut [f32],
) -> Result<(), ShapeError> {
    for (what, length) in [("the gate", gate.len()), ("up", up.len())] {
        shape::length(what, length, Some(dh.len()))?;
    }
    shape::length("the gradient of the gate", d_gate.len(), Some(dh.len()))?;
    shape::length("the gradient of up", d_up.len(), Some(dh.len()))?;
    let isa = Isa::best();
    let d_gate = team::Scattered::new(d_gate);
    team::run_over(d_up, WORK_CHUNK, &|work_chunk, d_up| {
        let start = work_chunk * WORK_CHUNK;
        // SAFETY: work chunks do not overlap, and each runs once.
        let d_gate = unsafe { d_gate.slice(start, d_up.len()) };
        K::load(isa, &gate[start..][..d_up.len()], d_gate);
        K::load(isa, &up[start..][..d_up.len()], d_up);
        backward(isa, activation, &dh[start..][..d_up.len()], d_gate, d_up);
    });
    Ok(())
}

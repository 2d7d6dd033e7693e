//! The operations with a weight, and argmax.

use super::axes::Case;
use super::layout::Input;
use super::{Direction, Output, Outputs};
use crate::fixture::{blocks, quantize};
use burn::backend::Dispatch;
use burn::tensor::{Device, Tensor};
use hearth_kernels::Layout as WeightLayout;
use hearth_kernels::reference::noise;
use hearth_llm::ops::{
    Activation, Adapter, Bias, Dropout, Gated, Linear, Linears, MatrixSpec, NOT_TRAINED, Norm, OptionalNorm, argmax,
    cross_entropy, dequantize, embed, feed_forward, linear_add, norm_linears, softcap,
};

/// The rows of a weight repeat with this period. It is a prime, so that corresponding rows of
/// different tiles differ.
const PERIOD: usize = 61;

/// One run of an operation on a device.
pub struct Run<'a> {
    pub case: &'a Case,
    pub device: &'a Device,
    direction: Direction,
    /// The seed of the last input.
    seed: u64,
    /// The tensors with gradients.
    trainable: Vec<(&'static str, Tensor<2>)>,
    /// The inputs with a second owner.
    shared_inputs: Vec<Input<2>>,
}

impl<'a> Run<'a> {
    pub fn new(case: &'a Case, device: &'a Device, direction: Direction) -> Self {
        Self {
            case,
            device,
            direction,
            seed: 1,
            trainable: Vec::new(),
            shared_inputs: Vec::new(),
        }
    }

    pub fn noise(&mut self, count: usize) -> Vec<f32> {
        self.seed += 1;
        noise(self.seed, count)
    }

    /// A random input in the layout of the case, with a gradient in [`Direction::Gradients`].
    pub fn input(&mut self, name: &'static str, rows: usize, cols: usize) -> Tensor<2> {
        let values = self.noise(rows * cols);
        let input = self.case.layout.input(&values, [rows, cols], self.device);
        let tensor = match self.direction {
            Direction::Forward => input.tensor.clone(),
            Direction::Gradients => {
                let tensor = input.tensor.clone().autodiff().require_grad();
                self.trainable.push((name, tensor.clone()));
                tensor
            }
        };
        // Only shared inputs outlive the operation.
        if let Some(input) = input.if_shared() {
            self.shared_inputs.push(input);
        }
        tensor
    }

    /// A random vector near 1 without a gradient.
    pub fn vector(&mut self, length: usize) -> Tensor<1> {
        let values: Vec<f32> = self.noise(length).iter().map(|x| 1.0 + 0.5 * x).collect();
        let tensor = self.case.layout.tensor(&values, [length], self.device);
        match self.direction {
            Direction::Forward => tensor,
            Direction::Gradients => tensor.autodiff(),
        }
    }

    pub fn norm(&mut self, width: usize) -> Norm<Dispatch> {
        Norm {
            weight: self.vector(width).into_dispatch(),
            eps: 1e-5,
        }
    }

    /// A norm before linear layers, unless the case has none.
    fn norm_before(&mut self, width: usize) -> OptionalNorm<Dispatch> {
        self.optional_norm(width, !self.case.coin(7))
    }

    /// The factor of what is added to the residual.
    fn scale(&self) -> f32 {
        if self.case.coin(8) { 0.22 } else { 1.0 }
    }

    pub fn optional_norm(&mut self, width: usize, enabled: bool) -> OptionalNorm<Dispatch> {
        if enabled {
            OptionalNorm::Norm(self.norm(width).weight, 1e-5)
        } else {
            OptionalNorm::None
        }
    }

    /// A linear layer without an adapter and a bias.
    fn frozen(&mut self, rows: usize, cols: usize) -> Linear<Dispatch> {
        let quant = self.case.quant;
        // Dot products with activations are near 1, so that their softmax is not one-hot.
        let scale = (cols as f32).sqrt().recip();
        let values: Vec<f32> = self.noise(rows.min(PERIOD) * cols).iter().map(|x| x * scale).collect();
        let period = quantize(quant, &values);
        let length = quant.row_bytes(cols).expect("whole blocks") * rows;
        let bytes: Vec<u8> = period.iter().copied().cycle().take(length).collect();
        Linear {
            weight: blocks(&bytes, self.device).into_dispatch(),
            spec: MatrixSpec {
                quant,
                layout: WeightLayout::Plain,
                rows,
                cols,
                scale: if self.case.coin(1) { 0.5 } else { 1.0 },
            },
            adapter: Adapter::None,
            bias: Bias::None,
        }
    }

    /// A linear layer with an adapter and a bias if the case has them. It always has an adapter in
    /// [`Direction::Gradients`].
    fn linear(&mut self, names: [&'static str; 2], rows: usize, cols: usize) -> Linear<Dispatch> {
        let mut linear = self.frozen(rows, cols);
        if self.case.coin(2) || self.direction == Direction::Gradients {
            let dropout = (self.direction == Direction::Gradients && self.case.coin(3)).then_some(Dropout {
                rate: 0.25,
                seed: self.case.seed,
            });
            let rank = self.case.rank();
            linear.adapter = Adapter::Lora {
                a: self.input(names[0], rank, cols).into_dispatch(),
                b: self.input(names[1], rows, rank).into_dispatch(),
                scale: 0.25,
                dropout,
            };
        }
        if self.case.coin(4) {
            linear.bias = Bias::Add(self.vector(rows).into_dispatch());
        }
        linear
    }

    /// The output, or the gradients if the output has a random gradient.
    pub fn outputs(mut self, out: Tensor<2>) -> Outputs {
        let outputs = match self.direction {
            Direction::Forward => vec![Output::new("out", out)],
            Direction::Gradients => {
                let [rows, cols] = out.dims();
                let probe = self.noise(rows * cols);
                let probe = self.case.layout.tensor(&probe, [rows, cols], self.device).autodiff();
                let gradients = (out * probe).sum().backward();
                let gradient = |(name, tensor): &(&'static str, Tensor<2>)| {
                    let gradient = tensor.grad(&gradients);
                    Output::new(name, gradient.unwrap_or_else(|| panic!("{name} has no gradient")))
                };
                self.trainable.iter().map(gradient).collect()
            }
        };
        self.shared_inputs.iter().for_each(Input::check_unchanged);
        outputs
    }
}

/// [`dequantize`].
pub fn run_dequantize(case: &Case, device: &Device, direction: Direction) -> Outputs {
    let mut run = Run::new(case, device, direction);
    let linear = run.frozen(PERIOD, case.whole_columns());
    let weight = Tensor::from_dispatch(linear.weight);
    run.outputs(dequantize(weight, linear.spec))
}

/// [`embed`].
pub fn run_embed(case: &Case, device: &Device, direction: Direction) -> Outputs {
    let mut run = Run::new(case, device, direction);
    let table = run.frozen(case.vocabulary, case.whole_columns());
    let id = |token: usize| ((token * 7919 + case.vocabulary - 1) % case.vocabulary) as u32;
    let ids: Vec<u32> = (0..case.tokens).map(id).collect();
    run.outputs(embed(&table, ids.into(), 1.5))
}

/// [`norm_linears`] with Q, K and V.
pub fn run_norm_linears(case: &Case, device: &Device, direction: Direction) -> Outputs {
    let (mut run, width) = (Run::new(case, device, direction), case.whole_columns());
    let x = run.input("x", case.tokens, width);
    let norm = run.norm_before(width);
    // The numbers of rows are not multiples of a tile.
    let linears = Linears::Three(
        run.linear(["q.a", "q.b"], 70, width),
        run.linear(["k.a", "k.b"], 33, width),
        run.linear(["v.a", "v.b"], 33, width),
    );
    run.outputs(norm_linears(x, &norm, &linears, case.precision))
}

/// [`norm_linears`] with the output layer.
pub fn run_logits(case: &Case, device: &Device, direction: Direction) -> Outputs {
    let (mut run, width) = (Run::new(case, device, direction), case.whole_columns());
    let x = run.input("x", case.tokens, width);
    let norm = run.optional_norm(width, true);
    let output = run.frozen(case.vocabulary, width);
    run.outputs(norm_linears(x, &norm, &Linears::One(output), case.precision))
}

/// [`softcap`].
pub fn run_softcap(case: &Case, device: &Device, direction: Direction) -> Outputs {
    let mut run = Run::new(case, device, direction);
    let x = run.input("x", case.tokens, case.vocabulary);
    run.outputs(softcap(x, 0.7))
}

/// [`argmax`].
pub fn run_argmax(case: &Case, device: &Device, direction: Direction) -> Outputs {
    let mut run = Run::new(case, device, direction);
    let x = run.input("x", case.tokens, case.vocabulary);
    let columns = argmax(x).into_data().convert::<i64>().try_into_vec::<i64>();
    let values = columns
        .expect("numbers")
        .into_iter()
        .map(|column| column as f32)
        .collect();
    vec![Output {
        name: "columns",
        values,
        width: 1,
    }]
}

/// [`linear_add`].
pub fn run_linear_add(case: &Case, device: &Device, direction: Direction) -> Outputs {
    let (mut run, width) = (Run::new(case, device, direction), case.whole_columns());
    let (residual, h) = (
        run.input("residual", case.tokens, case.columns),
        run.input("h", case.tokens, width),
    );
    let linear = run.linear(["a", "b"], case.columns, width);
    let norm = run.optional_norm(case.columns, case.coin(5));
    let scale = run.scale();
    run.outputs(linear_add(residual, h, &linear, &norm, scale, case.precision))
}

/// [`feed_forward`].
pub fn run_feed_forward(case: &Case, device: &Device, direction: Direction) -> Outputs {
    let (mut run, width) = (Run::new(case, device, direction), case.whole_columns());
    let inner = 96_usize.next_multiple_of(case.quant.block_elements());
    let x = run.input("x", case.tokens, width);
    let gated = Gated {
        norm: run.norm_before(width),
        gate: run.linear(["gate.a", "gate.b"], inner, width),
        up: run.linear(["up.a", "up.b"], inner, width),
        activation: if case.coin(6) {
            Activation::Silu
        } else {
            Activation::GeluTanh
        },
    };
    let down = run.linear(["down.a", "down.b"], width, inner);
    let after = run.optional_norm(width, case.coin(5));
    let scale = run.scale();
    run.outputs(feed_forward(x, &gated, &down, &after, scale, case.precision))
}

/// [`cross_entropy`], with some rows that are not trained.
pub fn run_cross_entropy(case: &Case, device: &Device, direction: Direction) -> Outputs {
    let (mut run, width) = (Run::new(case, device, direction), case.whole_columns());
    let x = run.input("x", case.tokens, width);
    let norm = run.norm(width);
    let output = run.frozen(case.vocabulary, width);
    let target = |token: usize| match token % 5 {
        3 => NOT_TRAINED,
        _ => ((token * 7919 + case.vocabulary - 1) % case.vocabulary) as u32,
    };
    let targets: Vec<u32> = (0..case.tokens).map(target).collect();
    let loss = cross_entropy(x, &norm, &output, case.softcap, targets.into(), 0.5, case.precision);
    run.outputs(loss.reshape([1, 1]))
}

/// [`cross_entropy`] with a softcap near the size of the logits, which are near 1.
pub fn run_capped_cross_entropy(case: &Case, device: &Device, direction: Direction) -> Outputs {
    let capped = Case {
        softcap: Some(2.0),
        ..case.clone()
    };
    run_cross_entropy(&capped, device, direction)
}

//! Runs cases on a Burn device, with the ops that models use.

use super::case::{Case, EPS, Executor, LORA_SCALE, Leaf, LinearShape, Op, Output, Source, norm_weight};
use burn::backend::Dispatch;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use hearth_kernels::attention::{Heads, KvFormat, QkNormWidth};
use hearth_kernels::rope::{Pairing, Rope};
use hearth_kernels::{Layout, reference};
use hearth_llm::ops::{
    Activation, Adapter, AttentionSpec, Bias, Gated, Linear, Linears, MatrixSpec, Norm, OptionalNorm, argmax, attend,
    cross_entropy, feed_forward, linear_add, norm_linears,
};
use hearth_llm::{Batch, Cache, CacheSize, LayerGroup, Sequence};
use std::cell::RefCell;
use std::error::Error;
use std::sync::Arc;

/// RoPE base.
const ROPE_BASE: f32 = 10_000.0;
/// Seeds of tensors that are not leaves: weights and biases, norms, and the output's gradient.
const WEIGHT: u64 = 100;
const NORM: u64 = 200;
const PROBE: u64 = 300;

/// A device as an executor.
pub struct OnDevice(pub Device);

impl Executor for OnDevice {
    fn run(&self, case: &Case) -> Result<Vec<Output>, Box<dyn Error>> {
        let device = if case.backward {
            self.0.clone().autodiff()
        } else {
            self.0.clone()
        };
        let leaves = case.leaves();
        let tensors: Vec<Tensor<2>> = leaves.iter().map(|leaf| leaf_tensor(&device, leaf)).collect();
        let inputs = Inputs {
            case,
            device: &device,
            tensors: RefCell::new(tensors.iter().cloned().map(Some).collect()),
        };
        let shared = case.shared.then(|| tensors[0].clone());
        let leaf_tensors = if case.backward {
            tensors
        } else {
            // The op may overwrite inputs that have no other owner.
            drop(tensors);
            Vec::new()
        };
        let mut outputs = match &case.op {
            Op::Argmax { .. } => return Ok(vec![inputs.argmax()?]),
            Op::Attend { heads, source, .. } if !case.backward => inputs.passes(heads, source)?,
            _ => {
                let output = inputs.forward()?;
                let mut outputs = vec![read("the output", output.clone())?];
                if case.backward {
                    outputs.extend(gradients(case, &leaves, &leaf_tensors, output)?);
                }
                outputs
            }
        };
        if let (Some(shared), Op::LinearAdd { .. } | Op::FeedForward { .. }) = (shared, &case.op) {
            outputs.push(read("the shared residual", shared)?);
        }
        Ok(outputs)
    }
}

fn leaf_tensor(device: &Device, leaf: &Leaf) -> Tensor<2> {
    let tensor = Tensor::from_data(TensorData::new(leaf.values.clone(), [leaf.rows, leaf.cols]), device);
    if device.is_autodiff() {
        tensor.require_grad()
    } else {
        tensor
    }
}

fn read(name: &str, tensor: Tensor<2>) -> Result<Output, Box<dyn Error>> {
    let cols = tensor.dims()[1];
    let data = tensor.try_into_data().map_err(|error| format!("{error:?}"))?;
    Ok(Output {
        name: name.to_owned(),
        cols,
        values: data.try_into_vec::<f32>().map_err(|error| format!("{error:?}"))?,
    })
}

/// The gradients of the leaves, for a random gradient of the output.
fn gradients(
    case: &Case,
    leaves: &[Leaf],
    tensors: &[Tensor<2>],
    output: Tensor<2>,
) -> Result<Vec<Output>, Box<dyn Error>> {
    let [rows, cols] = output.dims();
    let probe = TensorData::new(probe(case, rows * cols), [rows, cols]);
    let probe = Tensor::<2>::from_data(probe, &output.device());
    let mut gradients = (output * probe).sum().backward();
    let gradient = |(leaf, tensor): (&Leaf, &Tensor<2>)| {
        let gradient = tensor.grad_remove(&mut gradients);
        let gradient = gradient.ok_or_else(|| format!("{} got no gradient", leaf.name))?;
        read(&format!("the gradient of {}", leaf.name), gradient)
    };
    leaves.iter().zip(tensors).map(gradient).collect()
}

/// The gradient of a case's output, the start of the backward pass.
pub fn probe(case: &Case, elements: usize) -> Vec<f32> {
    match case.op {
        Op::CrossEntropy { .. } => vec![1.0; elements],
        _ => reference::noise(PROBE, elements),
    }
}

/// Seed of the weight of the linear layer with this index.
pub fn weight_seed(index: usize) -> u64 {
    WEIGHT + 10 * index as u64
}

/// The weights of a norm of a case.
pub fn norm_weights(width: usize, kind: NormKind) -> Vec<f32> {
    norm_weight(width, NORM + kind as u64)
}

/// A norm of a case.
#[derive(Debug, Clone, Copy)]
pub enum NormKind {
    /// Before the linear layers.
    Before,
    /// After the last linear layer.
    After,
    /// Of each head of Q.
    Queries,
    /// Of each head of K.
    Keys,
}

/// RoPE of a case, and its frequency base.
pub fn rope(pairing: Pairing, dims: usize) -> (Rope, f64) {
    (Rope::plain(pairing, dims, ROPE_BASE), f64::from(ROPE_BASE))
}

/// A case with its inputs on a device.
struct Inputs<'a> {
    case: &'a Case,
    device: &'a Device,
    /// The leaves: inputs and factors of adapters. `None` once an op has taken it.
    tensors: RefCell<Vec<Option<Tensor<2>>>>,
}

impl Inputs<'_> {
    /// Takes the leaf with this index.
    fn take(&self, index: usize) -> Result<Tensor<2>, &'static str> {
        let tensor = self.tensors.borrow_mut().get_mut(index).and_then(Option::take);
        tensor.ok_or("an input was used twice")
    }

    /// The linear layers with their weights and adapters.
    fn linears(&self) -> Result<Vec<Linear<Dispatch>>, Box<dyn Error>> {
        let shapes = self.case.op.linears();
        let factors = 2 * shapes.iter().filter(|shape| shape.rank.is_some()).count();
        let mut next = self.tensors.borrow().len() - factors;
        let mut linear = |(index, shape): (usize, &LinearShape)| -> Result<Linear<Dispatch>, Box<dyn Error>> {
            let adapter = match shape.rank {
                None => Adapter::None,
                Some(_) => {
                    let (a, b) = (self.take(next)?, self.take(next + 1)?);
                    next += 2;
                    Adapter::Lora {
                        a: a.into_dispatch(),
                        b: b.into_dispatch(),
                        scale: LORA_SCALE,
                        dropout: None,
                    }
                }
            };
            let bias = match shape.bias(weight_seed(index)) {
                None => Bias::None,
                Some(bias) => Bias::Add(self.vector(bias).into_dispatch()),
            };
            Ok(Linear {
                weight: self.blocks(&shape.blocks(weight_seed(index))?).into_dispatch(),
                spec: MatrixSpec {
                    quant: shape.quant,
                    layout: Layout::Plain,
                    rows: shape.rows,
                    cols: shape.cols,
                    scale: shape.scale(),
                },
                adapter,
                bias,
            })
        };
        shapes.iter().enumerate().map(&mut linear).collect()
    }

    fn vector(&self, values: Vec<f32>) -> Tensor<1> {
        let length = values.len();
        Tensor::from_data(TensorData::new(values, [length]), self.device)
    }

    /// Blocks in the device's layout: bytes on the CPU, words on a GPU.
    fn blocks(&self, bytes: &[u8]) -> Tensor<1, Int> {
        if self.device.clone().without_autodiff() == Device::flex() {
            let data = TensorData::new(bytes.to_vec(), [bytes.len()]);
            return Tensor::from_data(data, (self.device, DType::U8));
        }
        let word = |bytes: &[u8]| {
            let mut word = [0; 4];
            word[..bytes.len()].copy_from_slice(bytes);
            u32::from_le_bytes(word)
        };
        let words: Vec<u32> = bytes.chunks(4).map(word).collect();
        let length = words.len();
        Tensor::from_data(TensorData::new(words, [length]), (self.device, DType::U32))
    }

    fn norm(&self, width: usize, kind: NormKind) -> Norm<Dispatch> {
        Norm {
            weight: self.vector(norm_weights(width, kind)).into_dispatch(),
            eps: EPS,
        }
    }

    fn optional_norm(&self, has_norm: bool, width: usize, kind: NormKind) -> OptionalNorm<Dispatch> {
        if has_norm {
            OptionalNorm::Norm(self.norm(width, kind).weight, EPS)
        } else {
            OptionalNorm::None
        }
    }

    fn forward(&self) -> Result<Tensor<2>, Box<dyn Error>> {
        let precision = self.case.precision;
        Ok(match &self.case.op {
            Op::NormLinears(shapes) => {
                let linears = parallel_linears(self.linears()?)?;
                let norm = self.optional_norm(true, shapes[0].cols, NormKind::Before);
                norm_linears(self.take(0)?, &norm, &linears, precision)
            }
            Op::LinearAdd { linear, norm, scale } => {
                let norm = self.optional_norm(*norm, linear.rows, NormKind::After);
                let linears = self.linears()?;
                linear_add(self.take(0)?, self.take(1)?, &linears[0], &norm, *scale, precision)
            }
            Op::FeedForward {
                down,
                activation,
                norm,
                scale,
                ..
            } => self.feed_forward(down, *activation, *norm, *scale)?,
            Op::Attend { heads, source, .. } => match source {
                Source::Batch(lengths) => self.attend(heads, self.take(0)?, Batch::of_lengths(lengths))?,
                Source::Cache { .. } => return Err("a cache has no backward".into()),
            },
            Op::CrossEntropy { output, softcap } => {
                let norm = self.norm(output.cols, NormKind::Before);
                let targets = self.case.targets(output.rows).into();
                let scale = 1.0 / self.case.tokens as f32;
                let linears = self.linears()?;
                let x = self.take(0)?;
                cross_entropy(x, &norm, &linears[0], *softcap, targets, scale, precision).reshape([1, 1])
            }
            Op::Argmax { .. } => return Err("argmax has no float output".into()),
        })
    }

    fn feed_forward(
        &self,
        down: &LinearShape,
        activation: Activation,
        norm: bool,
        scale: f32,
    ) -> Result<Tensor<2>, Box<dyn Error>> {
        let linears: [Linear<Dispatch>; 3] = self
            .linears()?
            .try_into()
            .map_err(|_| "a feed-forward has three linears")?;
        let [gate, up, down_linear] = linears;
        let gated = Gated {
            norm: self.optional_norm(true, gate.spec.cols, NormKind::Before),
            gate,
            up,
            activation,
        };
        let norm = self.optional_norm(norm, down.rows, NormKind::After);
        Ok(feed_forward(
            self.take(0)?,
            &gated,
            &down_linear,
            &norm,
            scale,
            self.case.precision,
        ))
    }

    fn attend(&self, heads: &Heads, qkv: Tensor<2>, batch: Batch) -> Result<Tensor<2>, Box<dyn Error>> {
        let Op::Attend { pairing, norms, .. } = self.case.op else {
            return Err("no attention".into());
        };
        let spec = Arc::new(AttentionSpec {
            heads: *heads,
            norm_width: QkNormWidth::Head,
            rope: Some(rope(pairing, heads.head_dim).0.into()),
            temperature: None,
        });
        let norm = |kind| self.optional_norm(norms, heads.head_dim, kind);
        Ok(attend(
            qkv,
            &norm(NormKind::Queries),
            &norm(NormKind::Keys),
            &spec,
            &Arc::new(batch),
            0,
        ))
    }

    /// Computes attention pass by pass over a KV cache that each pass extends.
    fn passes(&self, heads: &Heads, source: &Source) -> Result<Vec<Output>, Box<dyn Error>> {
        let Source::Cache {
            format,
            passes,
            scattered,
        } = source
        else {
            return Ok(vec![read("the output", self.forward()?)?]);
        };
        let (qkv, context) = (self.take(0)?, self.case.tokens);
        let mut sequence = sequence(heads, *format, context, *scattered)?;
        let mut outputs = Vec::new();
        let mut start = 0;
        for &tokens in passes {
            let end = start + tokens;
            sequence.append(&vec![0; tokens])?;
            let batch = Batch::of_sequences(&[(&sequence, tokens)])?;
            let part = qkv.clone().slice_dim(0, start..end);
            let output = self.attend(heads, part, batch)?;
            outputs.push(read(&format!("the output of {tokens} tokens after {start}"), output)?);
            start = end;
        }
        Ok(outputs)
    }

    fn argmax(&self) -> Result<Output, Box<dyn Error>> {
        let columns = argmax(self.take(0)?);
        let data = columns.try_into_data().map_err(|error| format!("{error:?}"))?;
        let columns = data.try_into_vec::<u32>().map_err(|error| format!("{error:?}"))?;
        Ok(Output {
            name: "the column of each row".to_owned(),
            cols: 1,
            values: columns.into_iter().map(|column| column as f32).collect(),
        })
    }
}

fn parallel_linears(linears: Vec<Linear<Dispatch>>) -> Result<Linears<Dispatch>, &'static str> {
    let mut linears = linears.into_iter();
    Ok(match (linears.next(), linears.next(), linears.next()) {
        (Some(first), None, None) => Linears::One(first),
        (Some(first), Some(second), None) => Linears::Two(first, second),
        (Some(first), Some(second), Some(third)) => Linears::Three(first, second, third),
        _ => return Err("no linears"),
    })
}

/// An empty sequence in a cache of one layer. With `scattered`, its pages will not be in order.
fn sequence(heads: &Heads, format: KvFormat, context: usize, scattered: bool) -> Result<Sequence, Box<dyn Error>> {
    let group = LayerGroup {
        layers: vec![0],
        kv_heads: heads.kv_heads,
        head_dim: heads.head_dim,
        window: None,
    };
    let size = CacheSize {
        context,
        sequences: 2,
        snapshots: 0,
        step: context,
        drafts: 0,
    };
    let cache = Cache::new(&[group], format, size);
    if scattered {
        // A sequence takes the page that was released last.
        let mut others = [Sequence::new(&cache), Sequence::new(&cache)];
        others.iter_mut().try_for_each(|other| other.append(&[0]))?;
    }
    Ok(Sequence::new(&cache))
}

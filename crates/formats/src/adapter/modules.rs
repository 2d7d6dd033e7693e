//! The matrices of an adapter by module, as files have them. Fused linears have one A, and the
//! rows of their Bs are one B.

use super::{AdapterFile, AdapterProblem, BaseShape, LoraTensors, ModuleName, TargetName};
use crate::shape::{FusedLinear, LayerShape, Module};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Matrices by module.
pub(super) type Modules<'a> = BTreeMap<ModuleName, Cow<'a, LoraTensors>>;

impl AdapterFile {
    /// The matrices by the modules that transformers and llama.cpp have for the architecture. A
    /// fused linear has all its parts: the B of a part that is no target is zero.
    ///
    /// # Errors
    /// If the architecture or a target's shape differs from this base's, or the rank of a fused
    /// linear is too high.
    pub(super) fn by_module(&self, base: &BaseShape) -> Result<Modules<'_>, AdapterProblem> {
        if let Some(mismatch) = base.architecture_mismatch(&self.architecture) {
            return Err(AdapterProblem::OtherModel(mismatch));
        }
        let architecture = base.known_architecture()?;
        // All of them first: a fused linear has the matrices of several targets.
        for (&target, lora) in &self.tensors {
            base.check_module(target.into(), lora.inputs, lora.outputs)?;
        }
        let mut modules = Modules::new();
        for (&target, lora) in &self.tensors {
            let name = ModuleName {
                layer: target.layer,
                module: architecture.module_with(target.linear),
            };
            if modules.contains_key(&name) {
                continue;
            }
            let lora = match (name.module, base.layers.get(target.layer)) {
                (Module::Fused(fused), Some(shape)) => match self.fuse(target.layer, fused, shape) {
                    Some(lora) => Cow::Owned(lora),
                    None => return Err(AdapterProblem::OtherModel(base.no_such_target(name))),
                },
                _ => Cow::Borrowed(lora),
            };
            if let Some(problem) = LoraTensors::shape_problem(lora.rank, lora.inputs, lora.outputs) {
                return Err(AdapterProblem::target(name, problem));
            }
            modules.insert(name, lora);
        }
        Ok(modules)
    }

    /// The matrices of fused linears of a layer. Parts with equal As, as a file of them has, retain
    /// this A. Otherwise the ranks are concatenated, and B is block-diagonal. `None` if the layer
    /// has no such linears, or no part is a target.
    fn fuse(&self, layer: usize, fused: FusedLinear, shape: &LayerShape) -> Option<LoraTensors> {
        let [outputs, inputs] = fused.shape(shape)?;
        let part = |linear| {
            let target = TargetName { layer, linear };
            let [outputs, _] = shape.linear(linear)?;
            Some(Part {
                lora: self.tensors.get(&target),
                scale: self.scale(target).unwrap_or(0.0),
                outputs,
            })
        };
        let parts = fused.parts().iter().map(|linear| part(*linear));
        let parts: Vec<Part> = parts.collect::<Option<_>>()?;
        let targets: Vec<&LoraTensors> = parts.iter().filter_map(|part| part.lora).collect();
        let first = *targets.first()?;
        let has_first_a = |lora: &&LoraTensors| {
            (lora.rank, lora.alpha.to_bits()) == (first.rank, first.alpha.to_bits()) && lora.a == first.a
        };
        if targets.iter().all(has_first_a) {
            return Some(LoraTensors {
                a: first.a.clone(),
                b: concatenated_rows(&parts, first.rank),
                rank: first.rank,
                inputs,
                outputs,
                alpha: first.alpha,
            });
        }
        let rank = targets.iter().map(|lora| lora.rank).sum();
        Some(LoraTensors {
            a: targets.iter().flat_map(|lora| lora.a.iter().copied()).collect(),
            b: block_diagonal(&parts, outputs, rank),
            rank,
            inputs,
            outputs,
            // A scale of 1, since the scales are in B.
            alpha: if self.rslora { (rank as f32).sqrt() } else { rank as f32 },
        })
    }
}

/// A linear of fused ones.
struct Part<'a> {
    /// Its matrices; `None` if it is no target.
    lora: Option<&'a LoraTensors>,
    scale: f32,
    outputs: usize,
}

/// The rows of each B; zeros for a part that is no target.
fn concatenated_rows(parts: &[Part], rank: usize) -> Vec<f32> {
    let mut b = Vec::new();
    for part in parts {
        match part.lora {
            Some(lora) => b.extend_from_slice(&lora.b),
            None => b.resize(b.len() + part.outputs * rank, 0.0),
        }
    }
    b
}

/// The matrix `[outputs, rank]` with each B times its scale on the diagonal.
fn block_diagonal(parts: &[Part], outputs: usize, rank: usize) -> Vec<f32> {
    let mut b = vec![0.0; outputs * rank];
    let (mut first_row, mut column) = (0, 0);
    for part in parts {
        if let Some(lora) = part.lora {
            for (row, values) in lora.b.chunks_exact(lora.rank.max(1)).enumerate() {
                let start = (first_row + row) * rank + column;
                for (out, value) in b[start..start + lora.rank].iter_mut().zip(values) {
                    *out = part.scale * value;
                }
            }
            column += lora.rank;
        }
        first_row += part.outputs;
    }
    b
}

/// Adds the matrices of a module, checked for this base: each of its linears gets A, and its rows
/// of B. `lora` has no values if they were only checked.
///
/// # Errors
/// If a linear of it was already added.
pub(super) fn add(
    tensors: &mut BTreeMap<TargetName, LoraTensors>,
    name: ModuleName,
    lora: LoraTensors,
    base: &BaseShape,
) -> Result<(), AdapterProblem> {
    if let Module::Linear(linear) = name.module {
        let target = TargetName {
            layer: name.layer,
            linear,
        };
        return add_linear(tensors, target, lora);
    }
    let no_such_target = || AdapterProblem::OtherModel(base.no_such_target(name));
    let shape = base.layers.get(name.layer).ok_or_else(no_such_target)?;
    for target in name.targets() {
        let rows = name.module.rows(shape, target.linear).ok_or_else(no_such_target)?;
        let values = rows.start * lora.rank..rows.end * lora.rank;
        let part = LoraTensors {
            a: lora.a.clone(),
            b: lora.b.get(values).unwrap_or_default().to_vec(),
            outputs: rows.len(),
            ..lora
        };
        add_linear(tensors, target, part)?;
    }
    Ok(())
}

/// Adds the matrices of a linear.
///
/// # Errors
/// If it was already added, alone or as a part of fused linears.
pub(super) fn add_linear(
    tensors: &mut BTreeMap<TargetName, LoraTensors>,
    target: TargetName,
    lora: LoraTensors,
) -> Result<(), AdapterProblem> {
    match tensors.insert(target, lora) {
        Some(_) => Err(AdapterProblem::target(target, "it is present twice")),
        None => Ok(()),
    }
}

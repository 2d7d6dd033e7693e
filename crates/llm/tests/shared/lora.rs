//! LoRA adapters for tests.

use hearth_formats::adapter::LinearName;
use hearth_llm::{LoraPart, Model};

/// An adapter of this rank on every linear layer.
pub fn lora(model: &Model, rank: usize, scale: f32) -> Vec<LoraPart> {
    let noise = |count: usize, seed: usize| {
        (0..count)
            .map(|i| ((i * 37 + seed) % 101) as f32 / 500.0 - 0.1)
            .collect()
    };
    let mut parts = Vec::new();
    for linear in LinearName::ALL.iter().copied() {
        let [outputs, inputs] = model.config().linear(linear);
        parts.extend((0..model.config().n_layers).map(|layer| LoraPart {
            layer,
            linear,
            rank,
            a: noise(rank * inputs, layer + rank),
            b: noise(outputs * rank, layer + 2 * rank),
            scale,
        }));
    }
    parts
}

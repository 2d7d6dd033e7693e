//! LoRA adapters for tests.

use hearth_llm::{LoraPart, Model};

/// An adapter of this rank on every linear layer.
pub fn lora(model: &Model, rank: usize, scale: f32) -> Vec<LoraPart> {
    let noise = |count: usize, seed: usize| {
        (0..count)
            .map(|i| ((i * 37 + seed) % 101) as f32 / 500.0 - 0.1)
            .collect()
    };
    let mut parts = Vec::new();
    for (layer, shape) in model.config().layer_shapes.iter().enumerate() {
        parts.extend(shape.linears().map(|(linear, [outputs, inputs])| LoraPart {
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

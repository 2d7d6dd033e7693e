"""Shapes of the random models: the tensors of each layer and the keys of each architecture. Imports no package."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

# Name, format, rows and columns of a tensor; a vector is a row in F32.
Tensor = tuple[str, str, int, int]


@dataclass(frozen=True)
class Recipe:
    """The format of each matrix."""

    main: str
    output: str
    # For the half of attn_v and ffn_down that matters more.
    more: str = ""
    # For attn_qkv, where Q, K and V are one matrix.
    fused: str = ""


@dataclass(frozen=True)
class Shape:
    """A Llama model with tied embeddings. All row lengths are multiples of 256, so that every format fits."""

    layers: int
    width: int
    ffn: int
    heads: int
    kv_heads: int
    # 0: the width divided by the heads.
    head_width: int = 0
    # 0: the vocabulary of the default model.
    vocab: int = 0
    context: int = 8192
    rope_base: float = 100000.0
    architecture = "llama"

    @property
    def head(self) -> int:
        return self.head_width or self.width // self.heads

    def keys(self) -> dict[str, int | float | str]:
        """The keys of the architecture, without its name."""
        return {
            "context_length": self.context,
            "block_count": self.layers,
            "embedding_length": self.width,
            "feed_forward_length": self.ffn,
            "attention.head_count": self.heads,
            "attention.head_count_kv": self.kv_heads,
            "rope.dimension_count": self.head,
            "rope.freq_base": self.rope_base,
            "attention.layer_norm_rms_epsilon": 1e-5,
        }

    def tensors(self, recipe: Recipe, vocab: int) -> Iterator[Tensor]:
        yield "token_embd.weight", recipe.output, vocab, self.width
        yield "output_norm.weight", "F32", 1, self.width
        for layer in range(self.layers):
            more = recipe.more if recipe.more and self.has_more_bits(layer) else recipe.main
            for name, kind, rows, cols in self.layer(recipe, more):
                yield f"blk.{layer}.{name}.weight", kind, rows, cols

    def has_more_bits(self, layer: int) -> bool:
        """Q4_K_M gives more bits to the first and the last eighth, and to each third layer between."""
        eighth = self.layers // 8
        return not eighth <= layer < self.layers - eighth or (layer - eighth) % 3 == 2

    def layer(self, recipe: Recipe, more: str) -> Iterator[Tensor]:
        q, kv = self.head * self.heads, self.head * self.kv_heads
        yield "attn_norm", "F32", 1, self.width
        yield "attn_q", recipe.main, q, self.width
        yield "attn_k", recipe.main, kv, self.width
        yield "attn_v", more, kv, self.width
        yield "attn_output", recipe.main, self.width, q
        yield "ffn_norm", "F32", 1, self.width
        yield "ffn_gate", recipe.main, self.ffn, self.width
        yield "ffn_up", recipe.main, self.ffn, self.width
        yield "ffn_down", more, self.width, self.ffn


class Published(Shape):
    """The shape of a published model, with exactly its formats."""

    def has_more_bits(self, layer: int) -> bool:
        # llama.cpp's rule: the last eighth is longer if the layers are not a multiple of eight.
        return layer < self.layers // 8 or layer >= 7 * self.layers // 8 or (layer - self.layers // 8) % 3 == 2


class Mistral3(Published):
    """Ministral 3, with YaRN and an attention temperature: the values of transformers' `Ministral3Config`."""

    architecture = "mistral3"

    def keys(self) -> dict[str, int | float | str]:
        return super().keys() | {
            "attention.key_length": self.head,
            "attention.value_length": self.head,
            "attention.temperature_scale": 0.1,
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 16.0,
            "rope.scaling.original_context_length": 16384,
            "rope.scaling.yarn_beta_fast": 32.0,
            "rope.scaling.yarn_beta_slow": 1.0,
            "rope.scaling.yarn_log_multiplier": 1.0,
        }


class Phi3(Published):
    """Phi-4-mini: fused matrices, RoPE of three quarters of each head, and longrope."""

    architecture = "phi3"
    original_context = 4096

    @property
    def rotated(self) -> int:
        # `partial_rotary_factor` in pytorch/executorch, examples/models/phi_4_mini/config/config.json.
        return self.head * 3 // 4

    def keys(self) -> dict[str, int | float | str]:
        # The magnitude as in llama.cpp's conversion/phi.py; the window of Phi-4-mini is longer than its context.
        magnitude = math.sqrt(1 + math.log(self.context / self.original_context) / math.log(self.original_context))
        return super().keys() | {
            "attention.sliding_window": 262144,
            "rope.dimension_count": self.rotated,
            "rope.scaling.original_context_length": self.original_context,
            "rope.scaling.attn_factor": magnitude,
        }

    def tensors(self, recipe: Recipe, vocab: int) -> Iterator[Tensor]:
        yield from super().tensors(recipe, vocab)
        # Divisors of the frequencies, here ones.
        yield "rope_factors_long.weight", "F32", 1, self.rotated // 2
        yield "rope_factors_short.weight", "F32", 1, self.rotated // 2

    def layer(self, recipe: Recipe, more: str) -> Iterator[Tensor]:
        yield "attn_norm", "F32", 1, self.width
        yield "attn_qkv", recipe.fused or recipe.main, self.head * (self.heads + 2 * self.kv_heads), self.width
        yield "attn_output", recipe.main, self.width, self.width
        yield "ffn_norm", "F32", 1, self.width
        yield "ffn_up", recipe.main, 2 * self.ffn, self.width
        yield "ffn_down", more, self.width, self.ffn


# Shapes of published models. With the recipe Q4_K_M the tensors have the size of those in the published files, which have 8.4 and
# 8.3 MB more (a tokenizer): 2,147,023,008 bytes (mistralai/Ministral-3-3B-Instruct-2512-GGUF) and 2,491,874,272 bytes
# (unsloth/Phi-4-mini-instruct-GGUF).
PUBLISHED: dict[str, Shape] = {
    # https://apxml.com/models/ministral-3-3b, and NVIDIA's page of Ministral 3 in the documentation of Megatron Bridge.
    "ministral-3b": Mistral3(
        layers=26, width=3072, ffn=9216, heads=32, kv_heads=8, head_width=128, vocab=131072, context=262144, rope_base=1e6
    ),
    # pytorch/executorch, examples/models/phi_4_mini/config/config.json; the context of transformers' `Phi4MultimodalConfig`.
    "phi-4-mini": Phi3(layers=32, width=3072, ffn=8192, heads=24, kv_heads=8, vocab=200064, context=131072, rope_base=10000.0),
}
SHAPES: dict[str, Shape] = {
    "0.1B": Shape(layers=12, width=768, ffn=2048, heads=12, kv_heads=4),
    "0.5B": Shape(layers=28, width=1024, ffn=4096, heads=16, kv_heads=4),
    "1B": Shape(layers=16, width=2048, ffn=8192, heads=32, kv_heads=8),
    "3B": Shape(layers=28, width=3072, ffn=8192, heads=24, kv_heads=8),
    "8B": Shape(layers=32, width=4096, ffn=14336, heads=32, kv_heads=8),
    **PUBLISHED,
}

"""Names of the random models: shapes times quantization recipes. Imports no package."""

from collections.abc import Iterator
from dataclasses import dataclass

DEFAULT = "SmolLM2-135M Q4_1"


@dataclass(frozen=True)
class Recipe:
    """The format of each matrix."""

    main: str
    output: str
    # For the half of attn_v and ffn_down that matters more.
    more: str = ""


@dataclass(frozen=True)
class Shape:
    """A Llama model with tied embeddings. All row lengths are multiples of 256, so that every format fits."""

    layers: int
    width: int
    ffn: int
    heads: int
    kv_heads: int

    def tensors(self, recipe: Recipe, vocab: int) -> Iterator[tuple[str, str, int, int]]:
        """Name, format, rows and columns of each tensor; a norm is a row in F32."""
        kv = self.width // self.heads * self.kv_heads
        yield "token_embd.weight", recipe.output, vocab, self.width
        yield "output_norm.weight", "F32", 1, self.width
        for layer in range(self.layers):
            # Q4_K_M gives more bits to the first and the last eighth, and to each third layer between.
            eighth = self.layers // 8
            matters = not eighth <= layer < self.layers - eighth or (layer - eighth) % 3 == 2
            more = recipe.more if recipe.more and matters else recipe.main
            yield f"blk.{layer}.attn_norm.weight", "F32", 1, self.width
            yield f"blk.{layer}.attn_q.weight", recipe.main, self.width, self.width
            yield f"blk.{layer}.attn_k.weight", recipe.main, kv, self.width
            yield f"blk.{layer}.attn_v.weight", more, kv, self.width
            yield f"blk.{layer}.attn_output.weight", recipe.main, self.width, self.width
            yield f"blk.{layer}.ffn_norm.weight", "F32", 1, self.width
            yield f"blk.{layer}.ffn_gate.weight", recipe.main, self.ffn, self.width
            yield f"blk.{layer}.ffn_up.weight", recipe.main, self.ffn, self.width
            yield f"blk.{layer}.ffn_down.weight", more, self.width, self.ffn


SHAPES = {
    "0.1B": Shape(layers=12, width=768, ffn=2048, heads=12, kv_heads=4),
    "0.5B": Shape(layers=28, width=1024, ffn=4096, heads=16, kv_heads=4),
    "1B": Shape(layers=16, width=2048, ffn=8192, heads=32, kv_heads=8),
    "3B": Shape(layers=28, width=3072, ffn=8192, heads=24, kv_heads=8),
    "8B": Shape(layers=32, width=4096, ffn=14336, heads=32, kv_heads=8),
}
RECIPES = {
    "Q4_K_M": Recipe("Q4_K", "Q6_K", more="Q6_K"),
    "Q5_K_M": Recipe("Q5_K", "Q6_K", more="Q6_K"),
    # The formats of a "Q4_K_M" file whose row lengths are not multiples of 256.
    "Q5_0+Q8_0": Recipe("Q5_0", "Q8_0", more="Q8_0"),
    "Q5_0": Recipe("Q5_0", "Q8_0"),
    "Q8_0": Recipe("Q8_0", "Q8_0"),
    "F16": Recipe("F16", "F16"),
    "BF16": Recipe("BF16", "BF16"),
    "Q4_0": Recipe("Q4_0", "Q8_0"),
    "Q4_1": Recipe("Q4_1", "Q8_0"),
    "Q6_K": Recipe("Q6_K", "Q6_K"),
    "IQ4_NL": Recipe("IQ4_NL", "Q6_K"),
    "IQ4_XS": Recipe("IQ4_XS", "Q6_K"),
    "MXFP4": Recipe("MXFP4", "Q8_0"),
    "NVFP4": Recipe("NVFP4", "Q8_0"),
}
NAMES = [DEFAULT, *(f"{shape} {recipe}" for shape in SHAPES for recipe in RECIPES)]
# The models of the page: each common format, and one larger model.
USUAL = [DEFAULT, "0.5B Q4_K_M", "0.5B Q4_0", "0.5B Q5_0", "0.5B Q8_0", "0.5B F16", "1B Q4_K_M"]

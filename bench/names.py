"""Names of the random models: shapes times quantization recipes. Imports no package."""

from shapes import SHAPES, Recipe

DEFAULT = "SmolLM2-135M Q4_1"
RECIPES = {
    # attn_qkv as in the published Q4_K_M file of Phi-4-mini; llama.cpp's present rule is the one of attn_v.
    "Q4_K_M": Recipe("Q4_K", "Q6_K", more="Q6_K", fused="Q5_K"),
    "Q5_K_M": Recipe("Q5_K", "Q6_K", more="Q6_K", fused="Q6_K"),
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

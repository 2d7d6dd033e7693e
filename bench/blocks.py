"""Random blocks in the formats of GGUF, in the layouts of gguf's tables and of llama.cpp's headers.

Codes are random bytes. Scales are chosen so that weights are finite and about as large as in a
trained model. No scale is a subnormal f16, since those could be slow and distort the comparison.
"""

from collections.abc import Callable

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

Bytes = np.ndarray  # of uint8, one block per row
# Fills blocks of random bytes, so that weights have about this standard deviation.
Fill = Callable[[Bytes, float], None]

# Standard deviations of uniformly random codes of n bits: about 2**n / sqrt(12).
DEVIATION4, DEVIATION5, DEVIATION6, DEVIATION8 = 4.6, 9.2, 18.5, 74.0
# Standard deviation of the 16 values of IQ4_NL, 67.2, rounded up. The rounding stays, since another
# constant would change all generated models.
DEVIATION_IQ4 = 68.0
# Standard deviation of the 16 values of FP4 (E2M1).
DEVIATION_FP4 = 2.9
# Mean of the unsigned scales of 6 bits, 0 to 63, and so their typical magnitude. Signed scales have
# a mean of about zero; their magnitude is the standard deviation.
MEAN_SCALE6 = 31.5
MIN_NORMAL_F16 = 2.0**-14


def random_rows(rng: np.random.Generator, name: str, rows: int, cols: int, relative_magnitude: float = 1.0) -> Bytes:
    """A random matrix in the format `name`, as rows of bytes.

    `relative_magnitude` is the ratio to the magnitude of trained weights.
    """
    block_elements, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    if cols % block_elements:
        raise ValueError(f"Rows of {cols} cannot be stored as {name}, whose blocks hold {block_elements}.")
    blocks = rng.integers(0, 256, (rows * cols // block_elements, block_bytes), dtype=np.uint8)
    # So that products with normalized activations have about the activations' magnitude.
    FILL[name](blocks, relative_magnitude / np.sqrt(cols))
    return blocks.reshape(rows, -1)


def put_f16(blocks: Bytes, offset: int, value: float) -> None:
    """Writes one f16 into each block, with at least the magnitude of the smallest normal f16."""
    normal = np.copysign(max(abs(value), MIN_NORMAL_F16), value)
    blocks[:, offset : offset + 2] = np.array([normal], dtype="<f2").view(np.uint8)


def with_scale(offset: int, deviation: float) -> Fill:
    """Symmetric formats, with an f16 scale; `deviation` is the weights' before scaling."""
    return lambda blocks, magnitude: put_f16(blocks, offset, magnitude / deviation)


def with_scale_and_minimum(deviation: float, mean_code: float, minimum_sign: int) -> Fill:
    """Formats with an f16 scale and an f16 minimum, which shifts the mean of the codes to zero."""

    def fill(blocks: Bytes, magnitude: float) -> None:
        scale = max(magnitude / deviation, MIN_NORMAL_F16)
        put_f16(blocks, 0, scale)
        put_f16(blocks, 2, minimum_sign * mean_code * scale)

    return fill


def float16s(exponent_bits: int) -> Fill:
    """16-bit floats: random sign and mantissa, and an exponent that gives the magnitude."""
    bias, mantissa_bits = 2 ** (exponent_bits - 1) - 1, 15 - exponent_bits

    def fill(blocks: Bytes, magnitude: float) -> None:
        exponent = (int(np.floor(np.log2(magnitude))) + bias) << mantissa_bits
        floats = blocks.view("<u2")
        floats &= np.uint16(0x8000 | ((1 << mantissa_bits) - 1))
        floats |= np.uint16(exponent)

    return fill


def e8m0_scale(blocks: Bytes, magnitude: float) -> None:
    """MXFP4: a power of two, whose biased exponent is the first byte."""
    blocks[:, 0] = round(np.log2(magnitude / DEVIATION_FP4)) + 127


def e4m3_scales(blocks: Bytes, magnitude: float) -> None:
    """NVFP4: four E4M3 scales. Codes 1 to 15 are multiples of 2**-9, the smallest one."""
    blocks[:, :4] = np.clip(round(512 * magnitude / DEVIATION_FP4), 1, 15)


FILL: dict[str, Fill] = {
    "F16": float16s(5),
    "BF16": float16s(8),
    "Q4_0": with_scale(0, DEVIATION4),
    "Q4_1": with_scale_and_minimum(DEVIATION4, 7.5, -1),
    "Q5_0": with_scale(0, DEVIATION5),
    "Q5_1": with_scale_and_minimum(DEVIATION5, 15.5, -1),
    "Q8_0": with_scale(0, DEVIATION8),
    "IQ4_NL": with_scale(0, DEVIATION_IQ4),
    # The K formats subtract their minimum, and their blocks scale it like the codes.
    "Q4_K": with_scale_and_minimum(DEVIATION4 * MEAN_SCALE6, 7.5, 1),
    "Q5_K": with_scale_and_minimum(DEVIATION5 * MEAN_SCALE6, 15.5, 1),
    "Q6_K": with_scale(208, DEVIATION6 * DEVIATION8),
    "IQ4_XS": with_scale(0, DEVIATION_IQ4 * DEVIATION6),
    "MXFP4": e8m0_scale,
    "NVFP4": e4m3_scales,
}

"""Random blocks in the formats of GGUF, in the layouts that gguf's own tables and llama.cpp's headers describe.

Codes are random bytes. Scales are chosen so that weights are finite and about as large as in a trained model, and no scale is a
subnormal f16, which could be slow and distort the comparison.
"""

from collections.abc import Callable

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

Bytes = np.ndarray  # of uint8, one block a row
# Standard deviation of the values of random codes, and of random scales, before scaling.
UNIFORM4, UNIFORM5, UNIFORM6, UNIFORM8, NONLINEAR4 = 4.6, 9.2, 18.5, 74.0, 68.0
FP4 = 2.9
SCALES6 = 31.5
SMALLEST_F16 = 2.0**-14


def random_rows(rng: np.random.Generator, name: str, rows: int, cols: int, magnitude: float = 1.0) -> Bytes:
    """A random matrix in the format `name`, as rows of bytes; `magnitude` is relative to trained weights."""
    elements, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    if cols % elements:
        raise ValueError(f"Rows of {cols} cannot be stored as {name}, whose blocks hold {elements}.")
    blocks = rng.integers(0, 256, (rows * cols // elements, size), dtype=np.uint8)
    # So that products with normalized activations have about their magnitude.
    FILL[name](blocks, magnitude / np.sqrt(cols))
    return blocks.reshape(rows, -1)


def put_f16(blocks: Bytes, at: int, value: float) -> None:
    """Writes one f16 into each block, with at least the magnitude of the smallest normal f16."""
    sized = np.copysign(max(abs(value), SMALLEST_F16), value)
    blocks[:, at : at + 2] = np.array([sized], dtype="<f2").view(np.uint8)


def scaled(at: int, spread: float) -> Callable[[Bytes, float], None]:
    """Symmetric formats, with one scale."""
    return lambda blocks, size: put_f16(blocks, at, size / spread)


def scaled_with_minimum(spread: float, middle: float, minimum_sign: int) -> Callable[[Bytes, float], None]:
    """Formats with a scale and a minimum, which shifts the codes' `middle` to zero."""

    def fill(blocks: Bytes, size: float) -> None:
        scale = max(size / spread, SMALLEST_F16)
        put_f16(blocks, 0, scale)
        put_f16(blocks, 2, minimum_sign * middle * scale)

    return fill


def floats(exponent_bits: int) -> Callable[[Bytes, float], None]:
    """16-bit floats: random sign and mantissa, and an exponent that gives the requested magnitude."""
    bias, shift = 2 ** (exponent_bits - 1) - 1, 15 - exponent_bits

    def fill(blocks: Bytes, size: float) -> None:
        exponent = (int(np.floor(np.log2(size))) + bias) << shift
        halves = blocks.view("<u2")
        halves &= np.uint16(0x8000 | ((1 << shift) - 1))
        halves |= np.uint16(exponent)

    return fill


def power_of_two(blocks: Bytes, size: float) -> None:
    """MXFP4: an exponent in the first byte."""
    blocks[:, 0] = round(np.log2(size / FP4)) + 127


def small_floats(blocks: Bytes, size: float) -> None:
    """NVFP4: four E4M3 scales, here multiples of the smallest."""
    blocks[:, :4] = np.clip(round(512 * size / FP4), 1, 15)


FILL: dict[str, Callable[[Bytes, float], None]] = {
    "F16": floats(5),
    "BF16": floats(8),
    "Q4_0": scaled(0, UNIFORM4),
    "Q4_1": scaled_with_minimum(UNIFORM4, 7.5, -1),
    "Q5_0": scaled(0, UNIFORM5),
    "Q5_1": scaled_with_minimum(UNIFORM5, 15.5, -1),
    "Q8_0": scaled(0, UNIFORM8),
    "IQ4_NL": scaled(0, NONLINEAR4),
    # The K formats subtract their minimum, and scale it like the codes.
    "Q4_K": scaled_with_minimum(UNIFORM4 * SCALES6, 7.5, 1),
    "Q5_K": scaled_with_minimum(UNIFORM5 * SCALES6, 15.5, 1),
    "Q6_K": scaled(208, UNIFORM6 * UNIFORM8),
    "IQ4_XS": scaled(0, NONLINEAR4 * UNIFORM6),
    "MXFP4": power_of_two,
    "NVFP4": small_floats,
}

"""Model files: the default model, and random weights in common shapes and formats.

    python models.py NAME...

prints a line of JSON for each: `Facts`. A NAME is one of `NAMES`, or a GGUF file. Random weights are written once, to bench/cache: neither
time nor memory depends on the values of weights. The tokenizer is the default model's, filled up with unused tokens.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from names import DEFAULT, RECIPES
from shapes import SHAPES

HERE = Path(__file__).parent
DEFAULT_FILE = HERE.parent / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"


@dataclass(frozen=True)
class Facts:
    """Cost of a token, computed from the file."""

    name: str
    path: str
    file_bytes: int
    weight_bytes: int  # weights read once per token
    kv_bytes: int  # keys and values of one position, in f16
    macs: int  # multiply-adds with weights per prompt token, without the output layer
    floats: bool  # weights are not quantized


def find(name: str) -> Path:
    """Path of a model; writes random models if needed."""
    if not DEFAULT_FILE.is_file():
        sys.exit("The default model is missing. Download it with `cargo xtask setup`.")
    if name == DEFAULT:
        return DEFAULT_FILE
    shape, _, recipe = name.partition(" ")
    if shape in SHAPES and recipe in RECIPES:
        path = HERE / "cache" / f"random-{shape}-{recipe}.gguf"
        if not path.is_file():
            print(f"writing {path.name}", file=sys.stderr)
            path.parent.mkdir(exist_ok=True)
            write(path, shape, recipe)
        return path
    if Path(name).is_file():
        return Path(name)
    sys.exit(f"No model called {name}: it is neither a GGUF file nor a name that --help lists.")


def write(path: Path, shape_name: str, recipe_name: str) -> None:
    """Writes a model with random weights, reproducibly, one tensor in memory at a time."""
    import gguf
    import numpy as np
    from blocks import random_rows

    shape, recipe = SHAPES[shape_name], RECIPES[recipe_name]
    half_written = path.with_suffix(".part")
    writer = gguf.GGUFWriter(half_written, shape.architecture)
    writer.add_name(f"Random {shape_name} {recipe_name}")
    # OpenVINO GenAI reads no file without it.
    if file_type := gguf.LlamaFileType.__members__.get(f"MOSTLY_{recipe_name}"):
        writer.add_file_type(file_type)
    kinds = {int: gguf.GGUFValueType.UINT32, float: gguf.GGUFValueType.FLOAT32, str: gguf.GGUFValueType.STRING}
    for key, value in shape.keys().items():
        writer.add_key_value(f"{shape.architecture}.{key}", value, kinds[type(value)])
    vocab = add_tokenizer(writer, shape.vocab)
    writer.add_vocab_size(vocab)

    rng = np.random.default_rng(1)
    tensors = [*shape.tensors(recipe, vocab)]
    for name, kind, rows, cols in tensors:
        if kind == "F32":
            writer.add_tensor_info(name, [cols], np.dtype(np.float32), cols * 4)
        else:
            quant = gguf.GGMLQuantizationType[kind]
            elements, size = gguf.GGML_QUANT_SIZES[quant]
            writer.add_tensor_info(name, [rows, cols // elements * size], np.dtype(np.uint8), rows * cols // elements * size, quant)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for _, kind, rows, cols in tensors:
        writer.write_tensor_data(np.ones(cols, np.float32) if kind == "F32" else random_rows(rng, kind, rows, cols))
    writer.close()
    half_written.rename(path)


def add_tokenizer(writer: Any, vocab: int) -> int:
    """Adds the default model's tokenizer, with as many unused tokens as the vocabulary needs; 0 needs none. Returns the size."""
    import gguf

    default = gguf.GGUFReader(DEFAULT_FILE)
    size = len(default.fields["tokenizer.ggml.tokens"].data)
    unused = range(size, vocab)
    more = {
        # The names and the type that llama.cpp's converter gives to the rest of a vocabulary.
        "tokenizer.ggml.tokens": [f"[PAD{token}]" for token in unused],
        "tokenizer.ggml.token_type": [int(gguf.TokenType.UNUSED)] * len(unused),
    }
    for field in default.fields.values():
        if field.name.startswith("tokenizer."):
            values = field.contents() + more[field.name] if field.name in more else field.contents()
            writer.add_key_value(field.name, values, field.types[0], field.types[-1] if len(field.types) > 1 else None)
    return max(size, vocab)


def facts(name: str, path: Path) -> Facts:
    import gguf

    reader = gguf.GGUFReader(path)

    def number(key: str, otherwise: int = 0) -> int:
        field = reader.fields.get(f"{architecture}.{key}")
        return int(field.contents()) if field else otherwise

    architecture = reader.fields["general.architecture"].contents()
    heads = number("attention.head_count")
    head = number("attention.key_length", number("embedding_length") // heads)
    tied = not any(tensor.name == "output.weight" for tensor in reader.tensors)
    matrices = [tensor for tensor in reader.tensors if len(tensor.shape) > 1]
    return Facts(
        name=name,
        path=str(path),
        file_bytes=path.stat().st_size,
        weight_bytes=sum(int(tensor.n_bytes) for tensor in reader.tensors if tied or tensor.name != "token_embd.weight"),
        kv_bytes=number("block_count") * number("attention.head_count_kv", heads) * head * 2 * 2,
        macs=sum(int(tensor.n_elements) for tensor in matrices if tensor.name.startswith("blk.")),
        floats=all(tensor.tensor_type.name in ["F32", "F16", "BF16"] for tensor in matrices),
    )


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(json.dumps(vars(facts(name, find(name)))), flush=True)

"""Model files: the default model, and random weights in common shapes and formats.

    python models.py NAME...

prints a line of JSON for each: `Facts`. A NAME is one of `NAMES`, or a GGUF file. Random weights are written once, to bench/cache: neither
time nor memory depends on the values of weights. The tokenizer is the default model's.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from names import DEFAULT, RECIPES, SHAPES

HERE = Path(__file__).parent
DEFAULT_FILE = HERE.parent / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
CONTEXT = 8192


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
    """Writes a Llama model with random weights, reproducibly, one tensor in memory at a time."""
    import gguf
    import numpy as np
    from blocks import random_rows

    shape, recipe = SHAPES[shape_name], RECIPES[recipe_name]
    half_written = path.with_suffix(".part")
    writer = gguf.GGUFWriter(half_written, "llama")
    writer.add_name(f"Random {shape_name} {recipe_name}")
    # OpenVINO GenAI reads no file without it.
    if file_type := gguf.LlamaFileType.__members__.get(f"MOSTLY_{recipe_name}"):
        writer.add_file_type(file_type)
    writer.add_context_length(CONTEXT)
    writer.add_block_count(shape.layers)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.ffn)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_rope_dimension_count(shape.width // shape.heads)
    writer.add_rope_freq_base(100000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    default = gguf.GGUFReader(DEFAULT_FILE)
    for field in default.fields.values():
        if field.name.startswith("tokenizer."):
            writer.add_key_value(field.name, field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None)
    vocab = len(default.fields["tokenizer.ggml.tokens"].data)
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

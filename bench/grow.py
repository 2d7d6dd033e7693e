"""Grows a model: appends layers that cost time and do not change what it says, as a target for drafts.

    python grow.py OUT.gguf [--model MODEL.gguf] [--times N] [--noise X]

The appended layers have random weights in the formats of the original ones, except for the two projections that write to the residual
stream, attn_output and ffn_down. These are zero, so that logits stay the same to the last bit: the original file is a draft whose tokens
are all accepted, and so are the first layers of the file itself. With --noise X they are random, X times the default magnitude, and
some drafted tokens are rejected.
"""

import argparse
import re
import sys
from pathlib import Path

from models import DEFAULT_FILE

# With its output projections zero, a layer adds nothing.
OUTPUTS = ["attn_output.weight", "ffn_down.weight"]


def find(cache: Path, times: int, noise: float = 0.0) -> Path:
    """Path of the default model grown to `times` its layers; writes it if needed."""
    if not DEFAULT_FILE.is_file():
        sys.exit("The default model is missing. Download it with `cargo xtask setup`.")
    path = cache / f"grown-{times}{f'-noise-{noise:g}' if noise else ''}.gguf"
    if not path.is_file():
        print(f"writing {path.name}", file=sys.stderr)
        cache.mkdir(exist_ok=True)
        grow(DEFAULT_FILE, path, times, noise)
    return path


def grow(model: Path, path: Path, times: int, noise: float = 0.0) -> None:
    """Writes `model` with `times` as many layers, reproducibly, one tensor in memory at a time."""
    import gguf
    import numpy as np

    reader = gguf.GGUFReader(model)
    architecture = reader.fields["general.architecture"].contents()
    layers = int(reader.fields[f"{architecture}.block_count"].contents())
    half_written = path.with_suffix(".part")
    writer = gguf.GGUFWriter(half_written, architecture)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ["general.architecture", f"{architecture}.block_count", "general.name"]:
            continue
        writer.add_key_value(field.name, field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None)
    writer.add_block_count(layers * times)
    writer.add_name(f"{model.stem} grown {times} times")

    last = [tensor for tensor in reader.tensors if tensor.name.startswith(f"blk.{layers - 1}.")]
    tensors = [(tensor.name, tensor, True) for tensor in reader.tensors]
    for layer in range(layers, layers * times):
        tensors += [(re.sub(r"^blk\.\d+", f"blk.{layer}", tensor.name), tensor, False) for tensor in last]
    for name, like, _ in tensors:
        writer.add_tensor_info(name, list(like.data.shape), like.data.dtype, like.data.nbytes, like.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    rng = np.random.default_rng(1)
    for _, like, original in tensors:
        writer.write_tensor_data(like.data if original else appended(rng, like, noise))
    writer.close()
    half_written.rename(path)


def appended(rng, like, noise: float):
    """The values of a tensor of an appended layer, in the shape and format of `like`, a tensor of the last original layer."""
    import numpy as np
    from blocks import FILL, random_rows

    kind = like.name.split(".", 2)[2]
    if len(like.shape) == 1:
        return np.ones_like(like.data) if "norm" in kind else np.zeros_like(like.data)
    if kind in OUTPUTS and not noise:
        return np.zeros_like(like.data)
    if like.tensor_type.name not in FILL:
        sys.exit(f"{like.name} is {like.tensor_type.name}, for which there are no random blocks.")
    cols, rows = map(int, like.shape)
    blocks = random_rows(rng, like.tensor_type.name, rows, cols, noise if kind in OUTPUTS else 1.0)
    return blocks.view(like.data.dtype).reshape(like.data.shape)


def main() -> None:
    parser = argparse.ArgumentParser(description="Append layers to a model that do not change its logits, or change them little.")
    parser.add_argument("out", type=Path, metavar="OUT.gguf")
    parser.add_argument("--model", type=Path, default=DEFAULT_FILE, metavar="MODEL.gguf", help="default: SmolLM2-135M")
    parser.add_argument("--times", type=int, default=4, metavar="N", help="layers of the result, as a multiple (default: 4)")
    parser.add_argument("--noise", type=float, default=0.0, metavar="X", help="magnitude of what the layers add (default: 0, nothing)")
    args = parser.parse_args()
    if not args.model.is_file():
        parser.error(f"{args.model} is not a file")
    if args.times < 2:
        parser.error("--times must be at least 2")
    if args.noise < 0:
        parser.error("--noise must not be negative")
    grow(args.model, args.out, args.times, args.noise)


if __name__ == "__main__":
    main()

"""Writes a LoRA adapter of random weights for a GGUF model, once, and prints its path.

    python adapter.py MODEL.gguf

It has rank 16 on the seven linear layers of each block, in f32, like one that `hearth train` makes by default.
"""

import sys
from pathlib import Path

from train import RANK

CACHE = Path(__file__).parent / "cache"
LINEAR_LAYERS = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]


def find(model: Path) -> Path:
    path = CACHE / f"adapter-{model.stem}-{model.stat().st_size}.gguf"
    if not path.is_file():
        write(path, model)
    return path


def write(path: Path, model: Path) -> None:
    import gguf
    import numpy as np

    reader = gguf.GGUFReader(model)
    half_written = path.with_suffix(".part")
    writer = gguf.GGUFWriter(half_written, reader.fields["general.architecture"].contents())
    writer.add_string("general.type", "adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", 2.0 * RANK)
    rng = np.random.default_rng(1)
    for tensor in reader.tensors:
        if tensor.name.split(".")[-2] in LINEAR_LAYERS:
            inputs, outputs = map(int, tensor.shape)
            for part, shape in [("a", (RANK, inputs)), ("b", (outputs, RANK))]:
                writer.add_tensor(f"{tensor.name}.lora_{part}", rng.normal(0, 1e-3, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    half_written.rename(path)


if __name__ == "__main__":
    print(find(Path(sys.argv[1])))

#!/usr/bin/env python3
"""Measures llama.cpp on a Vulkan GPU as `llama-bench` does, with its options and its JSON lines, through PyPI's cyllama-vulkan 0.7.0: a prebuilt
llama.cpp, for machines where none can be built. `cargo xtask gpu` runs it in the place of `llama-bench` if HEARTH_LLAMA_BENCH names it. It has run
on a CPU only so far, which it reports as its backend.

    python llama_vulkan.py -m MODEL.gguf [-ngl 99] [-p 512] [-n 128] [-r 5]
"""

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version

from cyllama.llama import llama_cpp


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure llama.cpp on a Vulkan GPU.")
    parser.add_argument("-m", dest="model", required=True)
    parser.add_argument("-ngl", type=int, default=99, help="layers on the GPU")
    parser.add_argument("-p", dest="prompt", type=int, default=512, help="tokens of the prompt")
    parser.add_argument("-n", dest="generated", type=int, default=128, help="generated tokens")
    parser.add_argument("-r", dest="repetitions", type=int, default=5)
    parser.add_argument("-o", dest="output", choices=["jsonl"], default="jsonl")
    args = parser.parse_args()
    llama_cpp.ggml_backend_load_all()
    bench = Bench(args)
    about = {"build_commit": f"cyllama-vulkan {version('cyllama-vulkan')}", **devices()}
    tests = [(args.prompt, 0, bench.prefill), (0, args.generated, bench.decode)]
    for prompt, generated, run in tests:
        speeds = bench.speeds(run, prompt + generated)
        fields = {"n_prompt": prompt, "n_gen": generated, "n_threads": bench.threads, "avg_ts": statistics.mean(speeds), "samples_ts": speeds}
        print(json.dumps(about | fields), flush=True)


class Bench:
    def __init__(self, args: argparse.Namespace) -> None:
        model = llama_cpp.LlamaModelParams()
        model.n_gpu_layers = args.ngl
        self.model = llama_cpp.LlamaModel(args.model, model, False)
        context = llama_cpp.LlamaContextParams()
        context.n_ctx = args.prompt + args.generated
        context.n_batch = context.n_ubatch = max(args.prompt, 1)
        self.context = llama_cpp.LlamaContext(self.model, context, False)
        self.threads, self.repetitions = context.n_threads, args.repetitions

    def speeds(self, run: Callable[[int], None], tokens: int) -> list[float]:
        """Tokens per second of each repetition, after one that warms up."""
        speeds = []
        for _ in range(self.repetitions + 1):
            self.context.kv_cache_clear()
            start = time.perf_counter()
            run(tokens)
            self.context.synchronize()
            speeds.append(tokens / (time.perf_counter() - start))
        return speeds[1:]

    def prefill(self, tokens: int) -> None:
        self.step([token() for _ in range(tokens)], 0)

    def decode(self, tokens: int) -> None:
        for position in range(tokens):
            self.step([token()], position)
            self.context.synchronize()

    def step(self, tokens: list[int], position: int) -> None:
        """Processes tokens, with the logits of the last."""
        batch = llama_cpp.LlamaBatch(n_tokens=len(tokens), embd=0, n_seq_max=1)
        batch.set_batch(tokens, position, False)
        self.context.decode(batch)


def token() -> int:
    # Any token does; small ones exist in every vocabulary.
    return random.randrange(100, 400)


def devices() -> dict[str, str]:
    gpus = [device for device in llama_cpp.ggml_backend_dev_info() if "CPU" not in device["type"]]
    names = [str(gpu.get("description") or gpu["name"]) for gpu in gpus]
    return {"backends": "Vulkan" if gpus else "CPU", "gpu_info": ", ".join(names)}


if __name__ == "__main__":
    main()

"""Measures prefill and decode with OpenVINO GenAI as llama-bench does: with its options, and its JSON lines.

    python openvino_bench.py -m MODEL.gguf [-p N,N] [-n N] [-pg N,N] [-d N] [-r N] [-t N,N] [--attention PA|SDPA] [--precision f32|bf16] [--no-warmup]

OpenVINO GenAI reads GGUF files itself, and converts them, here once, to bench/cache. -d applies to -n. -ngl, -o, -ctk and -ctv are ignored: the KV
cache has its default type, u8. Its default precision on CPUs with AVX512_BF16 is bf16; here that is used with AMX only, and f32 without.
"""

import argparse
import itertools
import json
import os
import shutil
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import machine
import numpy as np
import openvino as ov
import openvino_genai as genai
from openvino_peer import PACKAGE

CACHE = Path(__file__).parent / "cache" / "openvino"
# Random tokens are below the vocabulary size of all measured models.
VOCABULARY = 30000
# Of the prompt that warms up.
MAX_WARM_UP = 512


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", type=Path, required=True)
    for option, default in [("-p", "512"), ("-n", "128"), ("-pg", ""), ("-t", "1")]:
        parser.add_argument(option, type=numbers, default=numbers(default))
    parser.add_argument("-d", type=int, default=0)
    parser.add_argument("-r", type=int, default=5)
    parser.add_argument("--attention", choices=["PA", "SDPA"], default="PA")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="bf16" if "amx_int8" in machine.instructions() else "f32")
    parser.add_argument("--no-warmup", action="store_true")
    for ignored in ["-ngl", "-o", "-ctk", "-ctv"]:
        parser.add_argument(ignored)
    args = parser.parse_args()
    if args.d and (any(args.p) or args.pg):
        parser.error("-d applies to -n only")
    if len(args.pg) not in [0, 2]:
        parser.error("-pg needs two numbers")
    return args


def converted(model: Path) -> Path:
    """The folder of the converted model; converts it if needed."""
    stat = model.stat()
    folder = CACHE / f"{model.stem}-{stat.st_size}-{stat.st_mtime_ns}-{version(PACKAGE)}"
    if not folder.is_dir():
        half_converted = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(half_converted, ignore_errors=True)
        half_converted.mkdir(parents=True)
        copy = half_converted / model.name
        try:
            os.link(model, copy)
        except OSError:
            shutil.copy(model, copy)
        # It writes the files beside the model.
        genai.LLMPipeline(str(copy), "CPU", enable_save_ov_model=True)
        copy.unlink()
        half_converted.rename(folder)
    return folder


class Arrivals(genai.StreamerBase):
    """The times at which tokens arrive."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def write(self, token: int | list[int]) -> genai.StreamingStatus:
        count = len(token) if isinstance(token, list) else 1
        self.times += [time.perf_counter()] * count
        return genai.StreamingStatus.RUNNING

    def end(self) -> None:
        pass


class Pipeline:
    """A loaded model."""

    def __init__(self, args: argparse.Namespace, threads: int) -> None:
        properties: dict[str, Any] = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": args.precision,
            "ATTENTION_BACKEND": args.attention,
            # Of compiled models, so that later starts are faster.
            "CACHE_DIR": str(CACHE / "compiled"),
        }
        if args.attention == "PA":
            # A prompt in one pass, and none that is known already.
            scheduler = genai.SchedulerConfig()
            scheduler.enable_prefix_caching = False
            scheduler.max_num_batched_tokens = 2**31 - 1
            properties["scheduler_config"] = scheduler
        self.pipeline = genai.LLMPipeline(str(converted(args.m)), "CPU", **properties)
        self.random = np.random.default_rng(1)

    def run(self, prompt: int, generated: int) -> list[float]:
        """Prefills random tokens and generates others; the seconds that each of these took."""
        tokens = self.random.integers(3, VOCABULARY, (1, prompt), dtype=np.int64)
        config = genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample, config.apply_chat_template = generated, True, False, False
        arrivals = Arrivals()
        start = time.perf_counter()
        inputs = genai.TokenizedInputs(ov.Tensor(tokens), ov.Tensor(np.ones_like(tokens)))
        self.pipeline.generate(inputs, config, arrivals)
        if len(arrivals.times) != generated:
            sys.exit(f"openvino_bench: {len(arrivals.times)} tokens were generated instead of {generated}")
        return [now - before for before, now in itertools.pairwise([start, *arrivals.times])]


def measure(pipeline: Pipeline, args: argparse.Namespace, threads: int, prompt: int, generated: int) -> None:
    context = prompt or max(args.d, 1)
    if not args.no_warmup:
        # Twice, because the second run was still slower than the third.
        for _ in range(2):
            pipeline.run(min(context, MAX_WARM_UP), 2)

    def speed() -> float:
        # The prompt gives the first token, so one more is generated than is timed.
        seconds = pipeline.run(context, generated + 1)
        return (prompt + generated) / sum(seconds if prompt else seconds[1:])

    # A context takes long to process.
    speeds = [speed() for _ in range(1 if args.d else args.r)]
    about = {"build_commit": "", "backends": "CPU", "gpu_info": "", "n_threads": threads}
    print(json.dumps(about | {"n_prompt": prompt, "n_gen": generated, "avg_ts": sum(speeds) / len(speeds), "samples_ts": speeds}), flush=True)


def main() -> None:
    args = arguments()
    tests = [(prompt, 0) for prompt in args.p if prompt] + [(0, count) for count in args.n if count]
    if args.pg:
        tests.append((args.pg[0], args.pg[1]))
    for threads in args.t:
        pipeline = Pipeline(args, threads)
        for prompt, generated in tests:
            measure(pipeline, args, threads, prompt, generated)


if __name__ == "__main__":
    main()

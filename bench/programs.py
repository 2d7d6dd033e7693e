"""The tests, and the programs that are compared; `cargo xtask measure` runs them."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llama
from shapes import PUBLISHED
from train import WORDS

DEPTH = 4096
# As many tokens for llama-bench as words for Hearth.
START_PROMPT, START_WORDS = 32, " ".join(WORDS[:32])
HEARTH = "Hearth"
LLAMA, IK, OPENVINO = "llama.cpp", "ik_llama.cpp", "OpenVINO GenAI"
# Variants of each peer: all are measured, and the better one counts. By name, the option that chooses it.
REPACK = {"stored": ("--repack", "0"), "repacked": ("--repack", "1")}
VARIANTS = {LLAMA: REPACK, IK: REPACK, OPENVINO: {"PA": ("--attention", "PA"), "SDPA": ("--attention", "SDPA")}}
NATIVE, AVX2 = "native", "avx2"


@dataclass(frozen=True)
class Test:
    """One cell of the table, for each model and number of threads."""

    name: str
    group: str
    prefill: int = 0
    decode: int = 0
    depth: int = 0
    kv: str = "f16"
    # With a LoRA adapter.
    adapter: bool = False
    # Processes thousands of tokens.
    long: bool = False

    def bounds(self, floats: bool) -> list[str]:
        """The peak rates of machine.ceilings that bound the speed, the highest of them: multiply-adds in prefill, for a model of floats or of
        quantized weights, and memory bandwidth in decode."""
        if self.prefill:
            return ["bf16_gmac_s", "f32_gmac_s"] if floats else ["int8_gmac_s"]
        return ["read_gb_s"] if self.decode else []


START = Test("start", "start")
MEMORY = "memory"
ADAPTER = "decode with adapter"
# The recipes of names.py that OpenVINO GenAI reads.
OPENVINO_RECIPES = ["Q4_0", "Q4_1", "Q4_K_M", "Q6_K", "Q8_0", "F16"]
TESTS = [
    START,
    *(Test(f"prefill {tokens}", "prefill", prefill=tokens) for tokens in [32, 64, 200, 512]),
    Test("prefill 2048", "prefill", prefill=2048, long=True),
    Test("decode", "decode", decode=32),
    Test(ADAPTER, "adapter", decode=32, adapter=True),
    Test(f"decode at {DEPTH}", "depth", decode=32, depth=DEPTH, long=True),
    Test(f"decode at {DEPTH} q8_0", "kv", decode=32, depth=DEPTH, kv="q8_0", long=True),
]
NAMED = {test.name: test for test in TESTS}
GROUPS = list(dict.fromkeys(test.group for test in TESTS))
# Groups that are measured with the first model only.
FIRST_MODEL_GROUPS = ["kv", "adapter"]
# Groups that are measured with each instruction set.
ISA_GROUPS = {NATIVE: GROUPS, AVX2: ["prefill", "decode"]}


@dataclass(frozen=True)
class Sample:
    """One measurement: tokens per second; seconds for `start`; megabytes for `memory`."""

    test: str
    threads: int
    value: float


@dataclass(frozen=True)
class Program:
    """A program limited to an instruction set, and for a peer one of its variants."""

    name: str
    path: Path
    isa: str = NATIVE
    # A key of VARIANTS[name]; empty for Hearth.
    variant: str = ""
    # Of `cargo xtask measure`, and additional environment variables.
    options: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def title(self) -> str:
        return " ".join(part for part in [self.name, self.variant, self.isa] if part)

    def measure(self, test: Test, model: str, threads: list[int], adapter: str = "") -> list[Sample]:
        """Measures a test, with this adapter if it needs one."""
        options = [*self.options, "--threads", ",".join(map(str, threads))]
        if test is START:
            options += ["--start", START_WORDS]
        else:
            options += ["--prefill", str(test.prefill)] if test.prefill else ["--decode", str(test.decode)]
        if test.depth or test.kv != "f16":
            options += ["--depth", str(test.depth), "--kv", test.kv]
        # ik_bench and openvino_bench.py have the options and the output of llama-bench.
        kind, path = "hearth" if self.name == HEARTH else "llama.cpp", self.path
        if test.adapter:
            options += ["--adapter", adapter]
            if self.name == LLAMA:
                # llama-bench applies none.
                kind, path = llama.COMPLETION, path.with_stem(llama.COMPLETION)
        # xtask runs openvino_bench.py with this Python, which has its packages.
        environment = os.environ | {"HEARTH_PYTHON": sys.executable} | dict(self.environment)
        lines = measured(environment, kind, path.resolve(), model, *options)
        return [Sample(test.name if line["what"] == "speed" else line["what"], line["threads"], line["value"]) for line in lines]


def hearth(path: Path, cache: Path, isa: str = NATIVE) -> Program:
    # Keeps the caches of random models out of the user's data folder. An empty variable counts as unset: the user's do not count.
    folder = cache / ("hearth" if isa == NATIVE else f"hearth-{isa}")
    environment = (("HEARTH_DATA", str(folder)), ("HEARTH_CACHE", ""), ("HEARTH_ISA", "" if isa == NATIVE else isa))
    return Program(HEARTH, path, isa, environment=environment)


def peer(name: str, path: Path, isa: str = NATIVE) -> list[Program]:
    """A peer's contenders: one for each of its variants."""
    return [Program(name, path, isa, variant, options) for variant, options in VARIANTS[name].items()]


def can_run(name: str, model: str, test: str, isa: str) -> bool:
    """Whether a program can run a test of a model."""
    if name == IK:
        return "NVFP4" not in model
    if name == OPENVINO:
        # Its reader knows the architectures llama, qwen2 and qwen3. Limited to AVX2 it refuses its default of 8-bit activations; it reads no GGUF
        # adapter.
        can_read = any(recipe in model.split() for recipe in OPENVINO_RECIPES) and model.split()[0] not in PUBLISHED
        return can_read and isa != AVX2 and test != ADAPTER
    return True


def measured(environment: dict[str, str], *arguments: object) -> list[dict[str, Any]]:
    """The JSON lines of `cargo xtask measure`; exits if it fails."""
    command = ["cargo", "xtask", "measure", *map(str, arguments)]
    result = subprocess.run(command, cwd=Path(__file__).parent, env=environment, capture_output=True, text=True)
    if result.returncode:
        sys.exit(result.stderr.strip()[-2000:])
    return [json.loads(line) for line in result.stdout.splitlines()]

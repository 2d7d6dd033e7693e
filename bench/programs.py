"""The tests, which `cargo xtask measure` runs."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from train import WORDS

DEPTH = 4096
# As many tokens for llama-bench as words for Hearth.
START_PROMPT, START_WORDS = 32, " ".join(WORDS[:32])


@dataclass(frozen=True)
class Test:
    """One cell of the table, for each model and number of threads."""

    name: str
    group: str
    prefill: int = 0
    decode: int = 0
    depth: int = 0
    kv: str = "f16"
    # Processes thousands of tokens.
    long: bool = False


START = Test("start", "start")
MEMORY = "memory"
TESTS = [
    START,
    Test("prefill 32", "prefill", prefill=32),
    Test("prefill 512", "prefill", prefill=512),
    Test("prefill 2048", "prefill", prefill=2048, long=True),
    Test("decode", "decode", decode=32),
    Test(f"decode at {DEPTH}", "depth", decode=32, depth=DEPTH, long=True),
    Test(f"decode at {DEPTH} q8_0", "kv", decode=32, depth=DEPTH, kv="q8_0", long=True),
]
GROUPS = list(dict.fromkeys(test.group for test in TESTS))


@dataclass(frozen=True)
class Sample:
    """One measurement: tokens per second; seconds for `start`; megabytes for `memory`."""

    test: str
    threads: int
    value: float


class Program:
    """A program that `cargo xtask measure` knows by the name in `kind`."""

    def __init__(self, name: str, kind: str, program: Path, environment: dict[str, str] | None = None) -> None:
        self.name, self.kind, self.program = name, kind, program.resolve()
        self.environment = os.environ | (environment or {})

    def measure(self, test: Test, model: str, threads: list[int]) -> list[Sample]:
        options = ["--threads", ",".join(map(str, threads))]
        if test is START:
            options += ["--start", START_WORDS]
        else:
            options += ["--prefill", test.prefill] if test.prefill else ["--decode", test.decode]
            options += ["--depth", test.depth, "--kv", test.kv]
        lines = measured(self.environment, self.kind, self.program, model, *options)
        return [Sample(test.name if found["what"] == "speed" else found["what"], found["threads"], found["value"]) for found in lines]


def hearth(program: Path, data: Path) -> Program:
    # Keeps the caches of random models out of the user's data folder.
    return Program("Hearth", "hearth", program, {"HEARTH_DATA": str(data)})


def llama_cpp(program: Path) -> Program:
    return Program("llama.cpp", "llama.cpp", program)


def measured(environment: dict[str, str], *arguments: object) -> list[dict[str, Any]]:
    """The JSON lines of `cargo xtask measure`; exits if it fails."""
    command = ["cargo", "xtask", "measure", *map(str, arguments)]
    done = subprocess.run(command, cwd=Path(__file__).parent, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr.strip()[-2000:])
    return [json.loads(line) for line in done.stdout.splitlines()]

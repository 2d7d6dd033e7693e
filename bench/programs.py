"""The tests, and how each program runs them."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from train import WORDS

DEPTH = 4096
WARM_UP = 32
# As many tokens for llama-bench as words for Hearth, in a context no larger than the smallest of llama-bench.
CONTEXT = 256
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


class Hearth:
    name = "Hearth"

    def __init__(self, program: Path, data: Path) -> None:
        self.program = program.resolve()
        # Keeps the caches of random models out of the user's data folder.
        self.environment = os.environ | {"HEARTH_DATA": str(data)}

    def measure(self, test: Test, model: str, threads: list[int]) -> list[Sample]:
        return [sample for count in threads for sample in self.one(test, model, count)]

    def one(self, test: Test, model: str, threads: int) -> list[Sample]:
        where = ["--device", "cpu", "--threads", threads]
        if test is START:
            return started(run([self.program, "run", model, START_WORDS, "-n", 1, "--raw", "--ctx", CONTEXT, *where], self.environment), threads)
        done = run([
            self.program, "bench", model, *where, "-p", test.prefill, "-n", test.decode, "--depth", test.depth, "--kv", test.kv,
            "-r", 3 if test.decode and not test.depth else 1, "--json",
        ], self.environment)  # fmt: skip
        report = json.loads(done.lines[-1])
        return [Sample(test.name, threads, report["prompt_tok_s" if test.prefill else "gen_tok_s"])]


class LlamaCpp:
    name = "llama.cpp"

    def __init__(self, program: Path) -> None:
        self.program = program.resolve()

    def measure(self, test: Test, model: str, threads: list[int]) -> list[Sample]:
        command = [self.program, "-m", model, "-o", "jsonl", "-ngl", 0, "-t", ",".join(map(str, threads))]
        if test is START:
            return started(run([*command, "-p", 0, "-n", 0, "-pg", f"{START_PROMPT},1", "-r", 1, "--no-warmup"]), threads[0])
        # Its own warm-up would process the whole prompt. A short one is enough; its result is ignored.
        prompts = f"{WARM_UP},{test.prefill}" if test.prefill else 0
        done = run([
            *command, "-p", prompts, "-n", test.decode, "-d", test.depth, "-ctk", test.kv, "-ctv", test.kv,
            "-r", 3 if test.decode else 1, *(["--no-warmup"] if test.prefill else []),
        ])  # fmt: skip
        results = {result["n_threads"]: statistics.median(result["samples_ts"]) for result in map(json.loads, done.lines)}
        return [Sample(test.name, count, speed) for count, speed in results.items()]


@dataclass(frozen=True)
class Done:
    lines: list[str]
    seconds: float
    # Maximum resident set size; None if the system does not report it.
    peak_mb: float | None


def run(command: list[object], environment: dict[str, str] | None = None) -> Done:
    """Runs a program. Shows its stderr only if it fails."""
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        assert process.stdout
        output = process.stdout.read()
        if sys.platform == "win32":
            code, peak = process.wait(), None
        else:
            # A child's peak includes that of this process at the fork, so this process must stay small.
            _, status, usage = os.wait4(process.pid, 0)
            code = process.returncode = os.waitstatus_to_exitcode(status)
            peak = usage.ru_maxrss / 1e6 if sys.platform == "darwin" else usage.ru_maxrss * 1024 / 1e6
        seconds = time.perf_counter() - began
        if code != 0:
            errors.seek(0)
            sys.exit(f"{Path(str(command[0])).name} failed with exit code {code}:\n{errors.read().strip()[-2000:]}")
    return Done(output.strip().splitlines(), seconds, peak)


def started(done: Done, threads: int) -> list[Sample]:
    memory = [Sample(MEMORY, threads, done.peak_mb)] if done.peak_mb else []
    return [Sample(START.name, threads, done.seconds), *memory]

"""What is measured, and how each program is asked to measure it."""

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
# As many tokens for the one as words for the other, in a context no larger than the smallest that llama-bench makes.
CONTEXT = 256
START_PROMPT, START_WORDS = 32, " ".join(WORDS[:32])


@dataclass(frozen=True)
class Test:
    """One cell of the table, for each model and number of threads."""

    name: str
    group: str
    read: int = 0
    write: int = 0
    depth: int = 0
    kv: str = "f16"
    # Reads so many tokens that it takes long.
    long: bool = False


START = Test("start", "start")
MEMORY = "memory"
TESTS = [
    START,
    Test("read 32", "read", read=32),
    Test("read 512", "read", read=512),
    Test("read 2048", "read", read=2048, long=True),
    Test("write", "write", write=32),
    Test(f"write at {DEPTH}", "depth", write=32, depth=DEPTH, long=True),
    Test(f"write at {DEPTH} q8_0", "kv", write=32, depth=DEPTH, kv="q8_0", long=True),
]
GROUPS = list(dict.fromkeys(test.group for test in TESTS))


@dataclass(frozen=True)
class Sample:
    """One figure: tokens a second, or for the start seconds, or for memory megabytes."""

    test: str
    threads: int
    value: float


class Hearth:
    name = "Hearth"

    def __init__(self, program: Path, data: Path) -> None:
        self.program = program.resolve()
        # What it keeps of random models is not to lie among the user's own.
        self.environment = os.environ | {"HEARTH_DATA": str(data)}

    def measure(self, test: Test, model: str, threads: list[int]) -> list[Sample]:
        return [sample for count in threads for sample in self.one(test, model, count)]

    def one(self, test: Test, model: str, threads: int) -> list[Sample]:
        where = ["--device", "cpu", "--threads", threads]
        if test is START:
            return started(run([self.program, "run", model, START_WORDS, "-n", 1, "--raw", "--ctx", CONTEXT, *where], self.environment), threads)
        done = run([
            self.program, "bench", model, *where, "-p", test.read, "-n", test.write, "--depth", test.depth, "--kv", test.kv,
            "-r", 3 if test.write and not test.depth else 1, "--json",
        ], self.environment)  # fmt: skip
        report = json.loads(done.lines[-1])
        return [Sample(test.name, threads, report["prompt_tok_s" if test.read else "gen_tok_s"])]


class LlamaCpp:
    name = "llama.cpp"

    def __init__(self, program: Path) -> None:
        self.program = program.resolve()

    def measure(self, test: Test, model: str, threads: list[int]) -> list[Sample]:
        command = [self.program, "-m", model, "-o", "jsonl", "-ngl", 0, "-t", ",".join(map(str, threads))]
        if test is START:
            return started(run([*command, "-p", 0, "-n", 0, "-pg", f"{START_PROMPT},1", "-r", 1, "--no-warmup"]), threads[0])
        # Its own warming up would read the whole prompt. A short one does as much; its figure is left out.
        prompts = f"{WARM_UP},{test.read}" if test.read else 0
        done = run([
            *command, "-p", prompts, "-n", test.write, "-d", test.depth, "-ctk", test.kv, "-ctv", test.kv,
            "-r", 3 if test.write else 1, *(["--no-warmup"] if test.read else []),
        ])  # fmt: skip
        results = {result["n_threads"]: statistics.median(result["samples_ts"]) for result in map(json.loads, done.lines)}
        return [Sample(test.name, count, speed) for count, speed in results.items()]


@dataclass(frozen=True)
class Done:
    lines: list[str]
    seconds: float
    # The most memory that the process held; None where the system does not say.
    peak_mb: float | None


def run(command: list[object], environment: dict[str, str] | None = None) -> Done:
    """Runs a program to its end. What it wrote to stderr is shown only if it fails."""
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        assert process.stdout
        output = process.stdout.read()
        if sys.platform == "win32":
            code, peak = process.wait(), None
        else:
            # Of a child that was started from this process, so this one has to stay small.
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

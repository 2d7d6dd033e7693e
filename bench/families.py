"""Compares Hearth with llama.cpp and ik_llama.cpp in the shapes of published models: speed, and peak memory.

    python families.py HEARTH [--models NAME...] [--rounds N] [--minutes N] [--json FILE]

HEARTH is a release build of `hearth`. Prints a table per model, and exits with 1 if a limit is missed. See README.md.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ik
import llama
import machine
from compare import CACHE, printed_by, read_once
from programs import HEARTH, IK, LLAMA, NATIVE, VARIANTS
from promise import idle
from shapes import PUBLISHED
from tables import markdown, number, times

PREFILLS, DECODE = [64, 512], 64
TESTS = [*(f"prefill {tokens}" for tokens in PREFILLS), "decode"]
MEMORY, PLAN = "peak memory, MiB", "plan, MiB"
# Least ratios to the best peer, and the largest relative error of the plan.
FASTER = {"prefill": 1.4, "decode": 1.1}
PLAN_ERROR = 0.05
MIB = 1 << 20


@dataclass
class Contender:
    """A program with a variant, and its measurements by model and test."""

    name: str
    path: Path
    variant: str = ""
    options: tuple[str, ...] = ()
    values: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.name} {self.variant}".strip()

    def add(self, model: str, test: str, value: float) -> None:
        self.values.setdefault((model, test), []).append(value)

    def median(self, model: str, test: str) -> float | None:
        values = self.values.get((model, test))
        return statistics.median(values) if values else None


def measure(contender: Contender, model: str, path: str, threads: int) -> None:
    """One round of a contender: all tests in one process, so that its peak memory includes them."""
    if contender.name == HEARTH:
        # The last has the longest prompt, and so the largest peak.
        for tokens, decode in zip(PREFILLS, [0, DECODE], strict=True):
            report, peak = run(hearth_bench(contender.path, path, threads, tokens, decode))
            contender.add(model, f"prefill {tokens}", report[-1]["prompt_tok_s"])
        contender.add(model, "decode", report[-1]["gen_tok_s"])
    else:
        lengths = ",".join(map(str, PREFILLS))
        command = [contender.path, "-m", path, "-p", lengths, "-n", DECODE, "-r", 1, "-t", threads, "-ngl", 0, "-o", "jsonl", *contender.options]
        report, peak = run(command)
        for line in report:
            contender.add(model, f"prefill {line['n_prompt']}" if line["n_prompt"] else "decode", line["avg_ts"])
    contender.add(model, MEMORY, peak)


def hearth_bench(hearth: Path, path: str, threads: int, prompt: int, decode: int) -> list[object]:
    return [hearth, "bench", path, "--device", "cpu", "--threads", threads, "-p", prompt, "-n", decode, "-r", 1, "--json"]


def run(command: list[object]) -> tuple[list[dict[str, Any]], float]:
    """The JSON lines that a program prints, and its maximum resident set size in MiB; exits if it fails."""
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout
    with process.stdout:
        lines = process.stdout.read().splitlines()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"`{' '.join(map(str, command))}` failed with exit code {process.returncode}.")
    # In KiB, except on macOS.
    return [json.loads(line) for line in lines if line.startswith("{")], usage.ru_maxrss / (MIB if sys.platform == "darwin" else 1024)


def planned(hearth: Path, path: str, threads: int) -> float:
    """Planned memory for the longest prompt, plus the memory of the program without a model, in MiB."""
    context = ["--ctx", max(PREFILLS), "--threads", threads]
    [plan], _ = run([hearth, "plan", path, "--device", "cpu", *context, "--json"])
    return sum(plan["devices"][0][part] for part in ["weights", "kv", "compute"]) / MIB + idle(str(hearth))


def best(peers: list[Contender], model: str, test: str) -> tuple[float, str] | None:
    """The best median of the peers, and its contender; `None` until all are measured."""
    medians = [(peer.median(model, test), peer.title) for peer in peers]
    known = [(median, title) for median, title in medians if median is not None]
    if len(known) < len(peers) or not known:
        return None
    return (min if test == MEMORY else max)(known)


def table(contenders: list[Contender], model: str, plan: float) -> tuple[str, list[str]]:
    """The table of a model, and the limits that it misses."""
    hearth, *peers = contenders
    lines, missed = [], []
    for test in [*TESTS, MEMORY]:
        ours, theirs = hearth.median(model, test), best(peers, model, test)
        if ours is None or theirs is None:
            continue
        ratio, limit = ours / theirs[0], FASTER.get(test.split()[0], 1.0)
        medians = [number(contender.median(model, test)) for contender in contenders]
        lines.append([test, *medians, theirs[1], times(ratio), f"{'at most' if test == MEMORY else 'at least'} {limit}"])
        if ratio > limit if test == MEMORY else ratio < limit:
            missed.append(f"{model}, {test}: {times(ratio)} of {theirs[1]}")
    if peak := hearth.median(model, MEMORY):
        error = plan / peak - 1
        lines.append([PLAN, number(plan), *[""] * len(peers), "Hearth's peak", times(1 + error), f"within {PLAN_ERROR:.0%}"])
        if abs(error) > PLAN_ERROR:
            missed.append(f"{model}: the plan is off by {error:+.1%}")
    head = [model, *(contender.title for contender in contenders), "compared with", "ratio", "limit"]
    return markdown(head, lines), missed


def arguments() -> argparse.Namespace:
    models = [f"{shape} Q4_K_M" for shape in PUBLISHED]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hearth", type=Path)
    parser.add_argument("--models", nargs="+", default=models, metavar="NAME", help=f"default: {'; '.join(models)}")
    parser.add_argument("--threads", type=int, default=machine.cores())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=1e9, help="start no round that would end later")
    parser.add_argument("--json", type=Path, default=CACHE / "families.json", metavar="FILE", help="where the measurements are saved")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    # Keeps the caches of random models out of the user's data folder.
    os.environ |= {"HEARTH_DATA": str(CACHE / "hearth"), "HEARTH_CACHE": "", "HEARTH_ISA": ""}
    hearth = args.hearth.resolve()
    found = {LLAMA: llama.find(CACHE), IK: ik.find(CACHE)}
    peers = [Contender(name, found[name], variant, options) for name in found for variant, options in VARIANTS[name].items()]
    contenders = [Contender(HEARTH, hearth), *peers]
    chosen = {facts["name"]: facts["path"] for facts in map(json.loads, printed_by("models.py", *args.models))}
    plans = {model: planned(hearth, path, args.threads) for model, path in chosen.items()}
    about = machine.about(hearth) | {"peers": [llama.TITLE, ik.TITLE]}
    for path in chosen.values():
        # The first load of a model packs its weights, which is not compared.
        run(hearth_bench(hearth, path, args.threads, 8, 0))
    start, rates = time.monotonic(), []
    for turn in range(args.rounds):
        if turn and (time.monotonic() - start) * (turn + 1) / turn > args.minutes * 60:
            break
        for model, path in chosen.items():
            read_once(path)
            rates.append(machine.ceilings(CACHE, args.threads, NATIVE, "read_gb_s"))
            for contender in contenders[:: -1 if turn % 2 else 1]:
                measure(contender, model, path, args.threads)
                medians = {test: values[-1] for (of, test), values in contender.values.items() if of == model}
                print(f"{time.monotonic() - start:5.0f} s  round {turn + 1}, {model}, {contender.title}: {medians}", file=sys.stderr, flush=True)
            values = {contender.title: [[*key, values] for key, values in contender.values.items()] for contender in contenders}
            args.json.write_text(json.dumps({"about": about, "plans": plans, "rates": rates, "values": values}, indent=1))
    tables, missed = zip(*(table(contenders, model, plans[model]) for model in chosen), strict=True)
    print("\n\n".join(tables))
    print(f"\n{about['processor']}, {about['hearth']} (commit {about['commit']}), load before: {about['load']}.")
    for line in (misses := sum(missed, [])):
        print(f"Missed: {line}")
    sys.exit(bool(misses))


if __name__ == "__main__":
    main()

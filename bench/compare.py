"""Hearth beside llama.cpp, and with --train beside PEFT and PyTorch too: measured in turns, printed, and written as a page.

    python compare.py HEARTH [--quick] [--only GROUP...] [--models NAME...] [--train] [--write docs/PERFORMANCE.md]

HEARTH is a release build of `hearth`. Every figure is kept in a file, so a run can be broken off, gone on with, or shown again with
--show. README.md says more.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import llama
import machine
import page
from names import DEFAULT, NAMES, USUAL
from programs import GROUPS, START, TESTS, Hearth, LlamaCpp, Test
from results import Results

HERE = Path(__file__).parent
CACHE = HERE / "cache"
TRAIN = "train"


def main() -> None:
    args = arguments()
    if args.fresh:
        args.json.unlink(missing_ok=True)
    results = Results(args.json)
    if not args.show:
        began = time.monotonic()
        before = results.seconds
        llama_bench = args.llama_bench or llama.find(CACHE)
        carried = f"llama.cpp of {llama.PACKAGE} {llama.VERSION} (commit {llama.COMMIT})"
        results.join(machine.about(args.hearth, args.llama_name or carried))
        for measured in measure(args, results, [Hearth(args.hearth, CACHE / "hearth"), LlamaCpp(llama_bench)]):
            results.seconds = before + time.monotonic() - began
            results.save()
            print(f"{results.seconds:5.0f} s  {measured}", file=sys.stderr, flush=True)
    print(page.page(results))
    if args.write:
        page.write(results, args.write)


def arguments() -> argparse.Namespace:
    cores = machine.cores()
    parser = argparse.ArgumentParser(description="Hearth beside llama.cpp, PEFT and PyTorch.", epilog=f"Models: {'; '.join(NAMES)}; or a GGUF file.")
    parser.add_argument("hearth", type=Path, help="a release build of hearth")
    parser.add_argument(
        "--only", nargs="+", choices=[*GROUPS, TRAIN], default=GROUPS, metavar="GROUP", help=f"what to measure, of {', '.join([*GROUPS, TRAIN])}"
    )
    parser.add_argument("--models", nargs="+", default=USUAL, metavar="NAME", help=f"by default {'; '.join(USUAL)}")
    parser.add_argument("--threads", type=lambda text: [int(part) for part in text.split(",")], default=sorted({1, cores}), metavar="N,N")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--long-rounds", type=int, default=1, metavar="ROUNDS", help="of what reads thousands of tokens")
    parser.add_argument("--quick", action="store_true", help="the default model alone, one round, nothing long: about a minute")
    parser.add_argument("--train", action="store_true", help="measure fine-tuning too, which needs requirements-train.txt")
    parser.add_argument("--llama-bench", type=Path, metavar="PATH", help="use this one, and build none")
    parser.add_argument("--llama-name", metavar="TEXT", help="what the page calls it, if it is not of the package that is built otherwise")
    parser.add_argument("--json", type=Path, default=CACHE / "results.json", metavar="FILE", help="where figures are kept; new ones join them")
    parser.add_argument("--fresh", action="store_true", help="forget the figures that are kept")
    parser.add_argument("--show", action="store_true", help="measure nothing, show what is kept")
    parser.add_argument("--write", type=Path, metavar="PAGE.md", help=f"write the page, and {page.CHART} beside it")
    args = parser.parse_args()
    for path in [args.hearth, args.llama_bench]:
        if path and not path.is_file():
            parser.error(f"{path} is not a file")
    if args.quick:
        args.models, args.rounds, args.long_rounds = [DEFAULT], 1, 0
    args.train |= TRAIN in args.only
    return args


def measure(args: argparse.Namespace, results: Results, programs: list[Hearth | LlamaCpp]) -> Iterator[str]:
    """Adds to the results, and says after each step what was done."""
    tests = [test for test in TESTS if test.group in args.only]
    # In a process of its own, since what this one holds would count as its children's memory.
    made = subprocess.run([sys.executable, HERE / "models.py", *args.models], stdout=subprocess.PIPE, text=True)
    if made.returncode:
        sys.exit(made.returncode)
    chosen = [json.loads(line) for line in made.stdout.splitlines()]
    results.models |= {facts["name"]: {key: value for key, value in facts.items() if key != "path"} for facts in chosen}
    for turn in range(max(args.rounds, args.long_rounds) if tests else 0):
        for facts in chosen:
            read_once(facts["path"])
            for threads in args.threads:
                could = machine.ceilings(CACHE, threads)
                results.ceilings.append({"model": facts["name"], "threads": threads, **could})
                yield f"round {turn + 1}, {facts['name']}, ceilings, threads {threads}: {could}"
            for test in tests:
                # Quantised keys and values are shown on one model alone.
                if turn >= (args.long_rounds if test.long else args.rounds) or (test.group == "kv" and facts is not chosen[0]):
                    continue
                if test is START and turn == 0:
                    # The first start of a model packs its weights; that is not what is compared.
                    for program in programs:
                        program.measure(test, facts["path"], [max(args.threads)])
                for threads in groups(test, args.threads):
                    for program in programs[:: -1 if turn % 2 else 1]:
                        samples = program.measure(test, facts["path"], threads)
                        results.add(program.name, facts["name"], samples)
                        figures = ", ".join(f"{sample.value:.2f}" for sample in samples)
                        yield f"round {turn + 1}, {facts['name']}, {test.name}, threads {threads}, {program.name}: {figures}"
    if args.train:
        trained(args, results)
        yield "fine-tuning"


def read_once(path: str) -> None:
    """Brings a file into the system's cache, so that whoever comes first does not wait for the disk alone."""
    with open(path, "rb") as file:
        while file.read(1 << 24):
            pass


def groups(test: Test, threads: list[int]) -> list[list[int]]:
    """Numbers of threads that a program is asked for at once: all where llama-bench then reads what comes before but once."""
    if test is START:
        return [[max(threads)]]
    if test.depth:
        return [sorted(threads, reverse=True)]
    return [[count] for count in threads]


def trained(args: argparse.Namespace, results: Results) -> None:
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "train.json"
        model = HERE.parent / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
        command = [sys.executable, HERE / "train.py", args.hearth, model, "--rounds", args.rounds, "--threads", max(args.threads), "--json", kept]
        if code := subprocess.run([str(part) for part in command], stdout=subprocess.DEVNULL).returncode:
            sys.exit(code)
        results.train = json.loads(kept.read_text())


if __name__ == "__main__":
    main()

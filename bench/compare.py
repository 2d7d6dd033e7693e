"""Compares Hearth with llama.cpp, ik_llama.cpp and OpenVINO GenAI, and with --train also with PEFT and PyTorch: measures in interleaved runs,
prints, and writes a page.

    python compare.py HEARTH [--quick] [--isa native,avx2] [--only GROUP...] [--models NAME...] [--train] [--write docs/PERFORMANCE.md]

HEARTH is a release build of `hearth`. Results are saved in a file, so a run can be interrupted, continued, or shown again with
--show. See README.md.
"""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ik
import llama
import machine
import openvino_peer
import page
from names import DEFAULT, NAMES, USUAL
from programs import AVX2, FIRST_MODEL_GROUPS, GROUPS, IK, ISA_GROUPS, LLAMA, NATIVE, OPENVINO, START, TESTS, VARIANTS, Program, Test, can_run, hearth, peer
from results import Cell, Results

HERE = Path(__file__).parent
CACHE = HERE / "cache"
TRAIN = "train"


def main() -> None:
    args = arguments()
    if args.fresh:
        args.json.unlink(missing_ok=True)
    results = Results(args.json)
    if not args.show:
        start = time.monotonic()
        before = results.seconds
        titles = {LLAMA: lambda: args.llama_name or llama.TITLE, IK: lambda: ik.TITLE, OPENVINO: openvino_peer.title}
        about = machine.about(args.hearth) | {"peers": {name: titles[name]() for name in args.peers}}
        programs = [program for isa in args.isa for program in contenders(args, isa)]
        results.join(about)
        for measured in measure(args, results, programs):
            results.seconds = before + time.monotonic() - start
            results.save()
            print(f"{results.seconds:5.0f} s  {measured}", file=sys.stderr, flush=True)
        results.save()
    if not (results.samples or results.train):
        sys.exit(f"There are no results in {args.json}. Measure without --show first.")
    print(page.page(results))
    if args.write:
        page.write(results, args.write)


def contenders(args: argparse.Namespace, isa: str) -> list[Program]:
    """Hearth, and each variant of each peer; builds the peers if needed."""
    programs = [hearth(args.hearth, CACHE, isa)]
    if LLAMA in args.peers:
        programs += peer(LLAMA, args.llama_bench or llama.find(CACHE, isa=isa), isa)
        if "adapter" in args.only and "adapter" in ISA_GROUPS[isa] and not args.llama_bench:
            # Beside llama-bench, where the test looks for it.
            llama.find(CACHE, llama.COMPLETION, isa)
    if IK in args.peers:
        programs += peer(IK, ik.find(CACHE, isa), isa)
    if OPENVINO in args.peers:
        programs += peer(OPENVINO, openvino_peer.BENCH, isa)
    return programs


def arguments() -> argparse.Namespace:
    cores = machine.cores()
    parser = argparse.ArgumentParser(description="Compare Hearth with llama.cpp, ik_llama.cpp, OpenVINO GenAI, PEFT and PyTorch.", epilog=f"Models: {'; '.join(NAMES)}; or a GGUF file.")
    parser.add_argument("hearth", type=Path, help="a release build of hearth")
    parser.add_argument(
        "--only", nargs="+", choices=[*GROUPS, TRAIN], default=GROUPS, metavar="GROUP", help=f"groups to measure: {', '.join([*GROUPS, TRAIN])}"
    )
    parser.add_argument("--models", nargs="+", default=USUAL, metavar="NAME", help=f"default: {'; '.join(USUAL)}")
    parser.add_argument("--threads", type=lambda text: [int(part) for part in text.split(",")], default=sorted({1, cores}), metavar="N,N")
    parser.add_argument(
        "--isa", type=instruction_sets, default=[NATIVE], metavar="ISA,ISA", help=f"{NATIVE}, {AVX2} or both: AVX2 is measured in all programs"
    )
    parser.add_argument("--peers", nargs="+", choices=list(VARIANTS), default=list(VARIANTS), metavar="PEER", help="default: " + " ".join(f'"{name}"' for name in VARIANTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--long-rounds", type=int, default=1, metavar="ROUNDS", help="rounds of tests with thousands of tokens")
    parser.add_argument("--quick", action="store_true", help="default model only, one round, no long tests: a few minutes")
    parser.add_argument("--train", action="store_true", help="also compare fine-tuning; needs requirements-train.txt")
    parser.add_argument("--llama-bench", type=Path, metavar="PATH", help="use this llama-bench instead of building one")
    parser.add_argument("--llama-name", metavar="TEXT", help="name of that llama-bench on the page")
    parser.add_argument("--json", type=Path, default=CACHE / "results.json", metavar="FILE", help="results file; new results are added")
    parser.add_argument("--fresh", action="store_true", help="delete saved results first")
    parser.add_argument("--show", action="store_true", help="show saved results without measuring")
    parser.add_argument("--write", type=Path, metavar="PAGE.md", help="write the page, and its chart beside it")
    args = parser.parse_args()
    for path in [args.hearth, args.llama_bench]:
        if path and not path.is_file():
            parser.error(f"{path} is not a file")
    if args.llama_bench and args.isa != [NATIVE]:
        parser.error("--llama-bench has one instruction set: use it with --isa native")
    if args.llama_bench and not args.llama_name:
        parser.error("--llama-bench needs --llama-name, the name on the page")
    # Only Linux lists them.
    if AVX2 in args.isa and machine.instructions() and AVX2 not in machine.instructions():
        parser.error("this machine has no AVX2")
    if args.quick:
        args.models, args.rounds, args.long_rounds = [DEFAULT], 1, 0
    args.train |= TRAIN in args.only
    return args


def instruction_sets(text: str) -> list[str]:
    isas = text.split(",")
    if unknown := [isa for isa in isas if isa not in ISA_GROUPS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]} is neither {' nor '.join(ISA_GROUPS)}")
    return isas


def measure(args: argparse.Namespace, results: Results, programs: list[Program]) -> Iterator[str]:
    """Adds to the results; yields a line of progress after each step."""
    # A llama-bench of the user's has no program that applies an adapter beside it.
    tests = [test for test in TESTS if test.group in args.only and not (test.adapter and args.llama_bench)]
    chosen = [json.loads(line) for line in printed_by("models.py", *args.models)]
    [adapter] = printed_by("adapter.py", chosen[0]["path"]) if any(test.adapter for test in tests) else [""]
    results.models |= {facts["name"]: {key: value for key, value in facts.items() if key != "path"} for facts in chosen}
    for turn in range(max(args.rounds, args.long_rounds) if tests else 0):
        for facts in chosen:
            read_once(facts["path"])
            for test in tests:
                is_left_out = test.group in FIRST_MODEL_GROUPS and facts is not chosen[0]
                if turn >= (args.long_rounds if test.long else args.rounds) or is_left_out:
                    continue
                for isa, threads in itertools.product(args.isa, groups(test, args.threads)):
                    if test.group not in ISA_GROUPS[isa]:
                        continue
                    measured = [program for program in programs if program.isa == isa and can_run(program.name, facts["name"], test.name, isa)]
                    if test is START and turn == 0:
                        # The first start of a model packs its weights, which is not compared.
                        for program in measured:
                            program.measure(test, facts["path"], threads)
                    peaks(results, test, facts, threads, isa)
                    for program in measured[:: -1 if turn % 2 else 1]:
                        samples = program.measure(test, facts["path"], threads, adapter)
                        results.add(program, facts["name"], samples)
                        figures = ", ".join(f"{sample.value:.2f}" for sample in samples)
                        yield f"round {turn + 1}, {facts['name']}, {test.name}, threads {threads}, {program.title}: {figures}"
                    peaks(results, test, facts, threads, isa)
    if args.train:
        trained(args, results)
        yield "fine-tuning"


def printed_by(script: str, *arguments: str) -> list[str]:
    """Lines of a script that writes files: a separate process, because this one's memory would count as its children's peak."""
    result = subprocess.run([sys.executable, HERE / script, *arguments], stdout=subprocess.PIPE, text=True)
    if result.returncode:
        sys.exit(result.returncode)
    return result.stdout.splitlines()


def peaks(results: Results, test: Test, facts: dict[str, Any], threads: list[int], isa: str) -> None:
    """Measures the machine's peak rates that bound a test."""
    bounds = test.bounds(facts["floats"])
    for count in threads if bounds else []:
        cell = Cell(facts["name"], test.name, count, isa)
        results.ceilings.append(vars(cell) | machine.ceilings(CACHE, count, isa, *bounds))


def read_once(path: str) -> None:
    """Reads a file into the page cache, so that the first program does not wait for the disk."""
    with open(path, "rb") as file:
        while file.read(1 << 24):
            pass


def groups(test: Test, threads: list[int]) -> list[list[int]]:
    """Thread counts per call of a program: all at once for tests with depth, so that llama-bench processes the context only once."""
    if test is START:
        return [[max(threads)]]
    if test.depth:
        return [sorted(threads, reverse=True)]
    return [[count] for count in threads]


def trained(args: argparse.Namespace, results: Results) -> None:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "train.json"
        model = HERE.parent / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
        command = [sys.executable, HERE / "train.py", args.hearth, model, "--rounds", args.rounds, "--threads", max(args.threads), "--json", output]
        if code := subprocess.run([str(part) for part in command], stdout=subprocess.DEVNULL).returncode:
            sys.exit(code)
        results.train = json.loads(output.read_text())


if __name__ == "__main__":
    main()

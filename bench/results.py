"""Measured results, saved in a file, so that runs can be joined and the page written again without measuring."""

import json
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from programs import HEARTH, MEMORY, NAMED, NATIVE, START, VARIANTS, Program, Sample, can_run

# Of the results file. Form 1, which had no number, had one peer and one instruction set. Form 2 had peak rates of each model
# instead of each test. Form 3 called a variant a layout.
FORM = 4


@dataclass(frozen=True)
class Cell:
    """One comparison: one test of one model."""

    model: str
    test: str
    threads: int
    isa: str = NATIVE


@dataclass(frozen=True)
class Best:
    """The better variant of a peer, or the best of all peers, and its median."""

    program: str
    variant: str
    value: float


class Results:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.form = FORM
        # The machine and the programs; results are joined only if these match.
        self.about: dict[str, Any] = {}
        # Peak rates just before and after each turn of a test, because they drift: the fields of the test's Cell, and machine.ceilings.
        self.ceilings: list[dict[str, Any]] = []
        # `models.Facts`, by name.
        self.models: dict[str, dict[str, Any]] = {}
        self.samples: list[dict[str, Any]] = []
        # Results of train.py, by contender.
        self.train: dict[str, list[dict[str, Any]]] = {}
        self.seconds = 0.0
        if path.is_file():
            saved = json.loads(path.read_text())
            if saved.get("form") != FORM:
                sys.exit(
                    f"{path.name} was written by another version of this comparison, whose results cannot be compared with these. "
                    "Delete them with --fresh, or write to another file with --json."
                )
            vars(self).update(saved)

    def save(self) -> None:
        saved = {key: value for key, value in vars(self).items() if key != "path"}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(saved, indent=1) + "\n")

    def join(self, about: dict[str, Any]) -> None:
        """Continues with the saved results if they are of the same machine and programs; exits otherwise."""
        peers = self.about.get("peers", {})
        differences = [(key, self.about.get(key), about[key]) for key in ["processor", "cores", "hearth", "hearth_sha256"] if self.about]
        differences += [(name, peers[name], now) for name, now in about["peers"].items() if name in peers]
        for key, saved, now in differences:
            if saved != now:
                sys.exit(
                    f"{self.path.name} has results of a different {key} ({saved}, now {now}). "
                    "Delete them with --fresh, or write to another file with --json."
                )
        self.about = about | {"peers": peers | about["peers"]}

    def add(self, program: Program, model: str, samples: list[Sample]) -> None:
        contender = {"program": program.name, "variant": program.variant, "isa": program.isa}
        self.samples += [{**contender, "model": model, **vars(sample)} for sample in samples]

    def peaks(self, kind: str, **fields: object) -> list[float]:
        """All measurements of one ceiling, of one cell or of all with some of its fields."""
        return [rate for ceiling in self.ceilings if fields.items() <= ceiling.items() and (rate := ceiling.get(kind))]

    def values(self, program: str, variant: str, cell: Cell) -> list[float]:
        fields = {"program": program, "variant": variant, **vars(cell)}
        return [sample["value"] for sample in self.samples if fields.items() <= sample.items()]

    def median(self, program: str, variant: str, cell: Cell) -> float | None:
        values = self.values(program, variant, cell)
        return statistics.median(values) if values else None

    def hearth(self, cell: Cell) -> float | None:
        return self.median(HEARTH, "", cell)

    def peer(self, name: str, cell: Cell) -> Best | None:
        """The peer's median with its better variant; `None` until all variants are measured."""
        return better(cell, [(name, variant, self.median(name, variant, cell)) for variant in VARIANTS[name]])

    def best(self, cell: Cell) -> Best | None:
        """The best of all peers that can run a test; `None` until all of them are measured."""
        bests = {name: self.peer(name, cell) for name in self.peers() if can_run(name, cell.model, cell.test, cell.isa)}
        return better(cell, [(name, peer.variant if peer else "", peer.value if peer else None) for name, peer in bests.items()])

    def ratio(self, cell: Cell) -> float | None:
        """Hearth's median as a multiple of the best peer's."""
        best = self.best(cell)
        return quotient(self.hearth(cell), best.value if best else None)

    def ratios(self, isa: str) -> list[tuple[float, Cell]]:
        """The ratios of all speeds, worst first."""
        cells = [cell for cell in self.cells() if cell.isa == isa and cell.test not in [START.name, MEMORY]]
        return sorted(((ratio, cell) for cell in cells if (ratio := self.ratio(cell))), key=lambda pair: pair[0])

    def peers(self) -> list[str]:
        return list(self.about["peers"])

    def threads(self) -> list[int]:
        return sorted({sample["threads"] for sample in self.samples})

    def isas(self) -> list[str]:
        return list(dict.fromkeys(sample["isa"] for sample in self.samples))

    def tests(self, kind: str) -> list[str]:
        """The measured tests whose name begins with `kind`; prompts by length."""
        tests = dict.fromkeys(sample["test"] for sample in self.samples if sample["test"].startswith(kind))
        return sorted(tests, key=lambda test: int(test.split()[1])) if kind == "prefill" else list(tests)

    def rounds(self) -> tuple[int, int]:
        """Minimum and maximum number of samples per median."""
        contenders = dict.fromkeys((sample["program"], sample["variant"]) for sample in self.samples)
        counts = [count for cell in self.cells() for contender in contenders if (count := len(self.values(*contender, cell)))]
        return min(counts, default=0), max(counts, default=0)

    def cells(self) -> Iterator[Cell]:
        yield from dict.fromkeys(Cell(s["model"], s["test"], s["threads"], s["isa"]) for s in self.samples)

    def ceiling(self, cell: Cell) -> float | None:
        """Upper bound of tokens per second: prefill is bound by multiply-adds, decode by memory bandwidth."""
        facts, test = self.models[cell.model], NAMED[cell.test]
        best = max((statistics.median(self.peaks(kind, **vars(cell)) or [0.0]) for kind in test.bounds(facts["floats"])), default=0.0)
        # q8_0 stores 32 values in 34 bytes, f16 in 64.
        cached = test.depth * facts["kv_bytes"] * (34 / 64 if test.kv == "q8_0" else 1)
        needed = facts["macs"] if test.prefill else facts["weight_bytes"] + cached
        return best * 1e9 / needed if best else None


def better(cell: Cell, medians: list[tuple[str, str, float | None]]) -> Best | None:
    """The best of some programs and variants: the highest speed, or the least time or memory. `None` if any is missing."""
    candidates = [Best(program, variant, value) for program, variant, value in medians if value is not None]
    if not candidates or len(candidates) < len(medians):
        return None
    return (min if cell.test in [START.name, MEMORY] else max)(candidates, key=lambda best: best.value)


def quotient(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None

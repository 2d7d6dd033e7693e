"""Measured results, saved in a file, so that runs can be joined and the page written again without measuring."""

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from programs import Sample


class Results:
    def __init__(self, path: Path) -> None:
        self.path = path
        # The machine and the programs; results are joined only if these match.
        self.about: dict[str, Any] = {}
        # Peak rates just before each model's turn, because they drift: the model, the number of threads, and machine.ceilings.
        self.ceilings: list[dict[str, Any]] = []
        # `models.Facts`, by name.
        self.models: dict[str, dict[str, Any]] = {}
        self.samples: list[dict[str, Any]] = []
        # Results of train.py, by contender.
        self.train: dict[str, list[dict[str, Any]]] = {}
        self.seconds = 0.0
        if path.is_file():
            vars(self).update(json.loads(path.read_text()))
        # Earlier versions named the tests `read N` and `write ...`.
        for sample in self.samples:
            words = sample["test"].split(" ", 1)
            words[0] = {"read": "prefill", "write": "decode"}.get(words[0], words[0])
            sample["test"] = " ".join(words)

    def save(self) -> None:
        saved = {key: value for key, value in vars(self).items() if key != "path"}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(saved, indent=1) + "\n")

    def join(self, about: dict[str, Any]) -> None:
        """Continues with the saved results if they are of the same machine and programs; exits otherwise."""
        for key in ["processor", "cores", "hearth", "hearth_sha256", "llama"]:
            if self.about and self.about.get(key) != about[key]:
                sys.exit(
                    f"{self.path.name} has results of a different {key} ({self.about.get(key)}, now {about[key]}). "
                    "Delete them with --fresh, or write to another file with --json."
                )
        self.about = about

    def add(self, program: str, model: str, samples: list[Sample]) -> None:
        self.samples += [{"program": program, "model": model, **vars(sample)} for sample in samples]

    def peaks(self, kind: str, threads: int, model: str | None = None) -> list[float]:
        """All measurements of one ceiling, for one model or for all."""
        wanted = {"threads": threads} | ({"model": model} if model else {})
        return [found[kind] for found in self.ceilings if wanted.items() <= found.items() and found[kind]]

    def values(self, program: str, model: str, test: str, threads: int) -> list[float]:
        wanted = {"program": program, "model": model, "test": test, "threads": threads}
        return [sample["value"] for sample in self.samples if wanted.items() <= sample.items()]

    def median(self, program: str, model: str, test: str, threads: int) -> float | None:
        values = self.values(program, model, test, threads)
        return statistics.median(values) if values else None

    def ratio(self, model: str, test: str, threads: int) -> float | None:
        """Hearth's median as a multiple of llama.cpp's."""
        return quotient(self.median("Hearth", model, test, threads), self.median("llama.cpp", model, test, threads))

    def threads(self) -> list[int]:
        return sorted({sample["threads"] for sample in self.samples})

    def tests(self) -> list[str]:
        return list(dict.fromkeys(sample["test"] for sample in self.samples))

    def rounds(self) -> tuple[int, int]:
        """Minimum and maximum number of samples per median."""
        counts = [len(self.values(*cell)) for cell in self.cells()]
        return min(counts, default=0), max(counts, default=0)

    def cells(self) -> Iterator[tuple[str, str, str, int]]:
        yield from dict.fromkeys((s["program"], s["model"], s["test"], s["threads"]) for s in self.samples)

    def ceiling(self, model: str, test: str, threads: int) -> float | None:
        """Upper bound of tokens per second: prefill is bound by multiply-adds, decode by memory bandwidth."""
        facts = self.models[model]

        def median(kind: str) -> float:
            return statistics.median(self.peaks(kind, threads, model) or [0.0])

        if test.startswith("prefill"):
            kinds = ["bf16_gmac_s", "f32_gmac_s"] if facts["floats"] else ["int8_gmac_s"]
            best = max(map(median, kinds))
            return best * 1e9 / facts["macs"] if best else None
        _, _, depth = test.partition(" at ")
        cells, _, kv = depth.partition(" ")
        # q8_0 stores 32 values in 34 bytes, f16 in 64.
        cached = int(cells or 0) * facts["kv_bytes"] * (34 / 64 if kv == "q8_0" else 1)
        bandwidth = median("read_gb_s")
        return bandwidth * 1e9 / (facts["weight_bytes"] + cached) if bandwidth else None


def quotient(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None

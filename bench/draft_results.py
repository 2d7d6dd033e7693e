"""Measured pairs of decodes, with and without a draft, saved in a file; and their statistics."""

import json
import math
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class DraftResults:
    def __init__(self, path: Path) -> None:
        self.path = path
        # The machine, the programs and the settings; results are joined only if these match.
        self.about: dict[str, Any] = {}
        # File sizes, by name.
        self.models: dict[str, int] = {}
        self.pairs: list[dict[str, Any]] = []
        # Where tokens with a draft differed from those without: errors.
        self.differences: list[str] = []
        self.seconds = 0.0
        if path.is_file():
            vars(self).update(json.loads(path.read_text()))

    def save(self) -> None:
        saved = {key: value for key, value in vars(self).items() if key != "path"}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(saved, indent=1) + "\n")

    def join(self, about: dict[str, Any]) -> None:
        """Continues with the saved results if they are of the same machine, programs and settings; exits otherwise."""
        for key in ["processor", "cores", "hearth_sha256", "llama", "threads", "tokens", "llama_draft"]:
            if self.about and self.about.get(key) != about[key]:
                sys.exit(
                    f"{self.path.name} has results of a different {key} ({self.about.get(key)}, now {about[key]}). "
                    "Delete them with --fresh, or write to another file with --json."
                )
        self.about = about

    def add(self, program: str, model: str, kind: str, task: str, draft: str, plain: Any, drafted: Any) -> None:
        """Adds a pair of `draft.Answer`."""
        self.pairs.append({
            "program": program, "model": model, "kind": kind, "task": task, "draft": draft, "plain": plain.tok_s, "tok_s": drafted.tok_s,
            "tokens": drafted.tokens, "prompt_tokens": drafted.prompt_tokens, "drafted": drafted.drafted, "accepted": drafted.accepted,
            "gain": drafted.gain, "used": drafted.used, "stopped": drafted.stopped,
        })  # fmt: skip

    def of(self, **fields: str) -> list[dict[str, Any]]:
        """The pairs with these fields."""
        return [pair for pair in self.pairs if fields.items() <= pair.items()]

    def rows(self, *keys: str) -> Iterator[dict[str, str]]:
        """Each combination of the values of `keys` that was measured, in order."""
        yield from ({**dict(zip(keys, values))} for values in dict.fromkeys(tuple(pair[key] for key in keys) for pair in self.pairs))


def ratios(pairs: list[dict[str, Any]]) -> list[float]:
    """Speed with a draft as a multiple of the speed without, of each pair."""
    return [pair["tok_s"] / pair["plain"] for pair in pairs]


def interval(values: list[float]) -> tuple[float, float]:
    """Minimum and maximum; or, if there are enough values, the narrower interval that contains the median with at least 95 %.

    It lies between the k-th lowest and the k-th highest value: each value is above or below the true median like a tossed coin, so
    the interval misses with twice the probability of fewer than k heads.
    """
    ordered = sorted(values)
    count, missed, k = len(ordered), 0.0, 0
    while k < count // 2 and missed + 2 * math.comb(count, k) / 2**count <= 0.05:
        missed += 2 * math.comb(count, k) / 2**count
        k += 1
    k = max(k, 1)
    return ordered[k - 1], ordered[-k]


def middle(pairs: list[dict[str, Any]], key: str) -> float | None:
    """Median of a figure; `None` if it was not reported."""
    values = [pair[key] for pair in pairs if pair[key] is not None]
    return statistics.median(values) if values else None


def acceptance(pairs: list[dict[str, Any]]) -> float | None:
    """Accepted tokens over drafted ones; `None` if nothing was drafted."""
    drafted = sum(pair["drafted"] for pair in pairs)
    return sum(pair["accepted"] for pair in pairs) / drafted if drafted else None


def worst(results: DraftResults, program: str) -> tuple[float, dict[str, str]] | None:
    """The lowest median ratio of a prompt, and its model, prompt and draft; `None` if the program was not measured."""
    medians = []
    for row in results.rows("model", "task", "draft"):
        if pairs := results.of(program=program, **row):
            medians.append((statistics.median(ratios(pairs)), row))
    return min(medians, key=lambda pair: pair[0], default=None)

"""Measures decode with and without a draft, alternately on the same model and prompts, and checks that the tokens are the same.

    python draft.py HEARTH [--llama] [--rounds N] [--models NAME...] [--drafts DRAFT...] [--json FILE] [--write docs/DRAFTS.md]

HEARTH is a release build of `hearth`. Exits with 1 if any tokens differ. See README.md.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import draft_page
import grow
import llama
import machine
from draft_results import DraftResults
from models import DEFAULT_FILE
from names import DEFAULT

HERE = Path(__file__).parent
CACHE = HERE / "cache"
# Of the grown model whose drafts are sometimes rejected. In drafts of 4 tokens of copied code, llama.cpp accepts 64 % of the tokens.
NOISE = 1.4
# Maximum tokens in a draft of llama.cpp: its default.
LLAMA_DRAFT = 3
# The default system prompt of SmolLM2's chat template.
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


@dataclass(frozen=True)
class Model:
    """A target, and the drafts that are measured with it; the draft `model` is the default model's file."""

    path: Callable[[], Path]
    drafts: list[str]


MODELS = {
    DEFAULT: Model(lambda: DEFAULT_FILE, ["ngram", "auto"]),
    "grown": Model(lambda: grow.find(CACHE, 4), ["ngram", "model", "self:30", "auto"]),
    "noisy": Model(lambda: grow.find(CACHE, 4, NOISE), ["ngram", "model", "self:30", "auto"]),
}


@dataclass(frozen=True)
class Task:
    """A prompt; the name of its file begins with the kind. Prose is asked for in a chat, because raw prose repeats itself when decoded greedily."""

    name: str
    prompt: str

    @property
    def kind(self) -> str:
        return self.name.split("-")[0]

    @property
    def chat(self) -> bool:
        return self.kind == "prose"

    def chatml(self) -> str:
        """The prompt as SmolLM2's chat template renders it."""
        if not self.chat:
            return self.prompt
        return f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n{self.prompt}<|im_end|>\n<|im_start|>assistant\n"


@dataclass(frozen=True)
class Answer:
    """A program's report of one decode. Of the `drafted` tokens, the target agreed with `accepted`."""

    tok_s: float
    tokens: int
    prompt_tokens: int
    ids: list[int] | None = None
    drafted: int = 0
    accepted: int = 0
    # Speed relative to plain steps of the same decode, as Hearth measures it.
    gain: float | None = None
    # Share of the steps that verified a draft.
    used: float | None = None
    stopped: bool = False


def tasks(folder: Path = HERE / "drafts") -> list[Task]:
    # Programs differ in what they do with a newline at the end of a prompt, so there is none.
    return [Task(path.stem, path.read_text(encoding="utf-8").rstrip()) for path in sorted(folder.glob("*.txt"))]


class Hearth:
    name = "Hearth"

    def __init__(self, program: Path, threads: int, tokens: int) -> None:
        self.program, self.threads, self.tokens = program.resolve(), threads, tokens

    def decode(self, model: Path, task: Task, draft: str | None) -> Answer:
        command = [self.program, "run", model, task.prompt, "-n", self.tokens, "--temp", 0, *([] if task.chat else ["--raw"])]
        command += ["--threads", self.threads, "--draft", draft_path(draft) if draft else "none", "--json"]
        # Keeps the caches of grown models out of the user's data folder.
        return hearth_answer(output(command, {"HEARTH_DATA": str(CACHE / "hearth")}).stdout)


class Llama:
    """llama.cpp: `llama-lookup` for n-grams, which without a draft is the plain speed; `llama-speculative-simple` for a draft model."""

    name = "llama.cpp"

    def __init__(self, lookup: Path, speculative: Path, threads: int, tokens: int) -> None:
        self.lookup, self.speculative, self.threads, self.tokens = lookup, speculative, threads, tokens

    def decode(self, model: Path, task: Task, draft: str | None) -> Answer | None:
        """`None` if llama.cpp has no such draft."""
        options = ["-m", model, "-p", task.chatml(), "--no-escape", "-n", self.tokens, "--temp", 0, "-t", self.threads, "-c", 2048, "-b", 2048]
        length = ["--spec-draft-n-max", LLAMA_DRAFT if draft else 0]
        if draft in [None, "ngram"]:
            command = [self.lookup, *options, *length]
        elif draft == "model":
            command = [self.speculative, *options, *length, "--spec-type", "draft-simple", "-md", DEFAULT_FILE, "-td", self.threads]
        else:
            return None
        return llama_answer(output(command, {}).stderr)


def draft_path(draft: str) -> str:
    return str(DEFAULT_FILE) if draft == "model" else draft


def output(command: list[Any], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a program; exits if it fails."""
    result = subprocess.run(
        [str(part) for part in command],
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    if result.returncode:
        sys.exit(f"{Path(command[0]).name} failed with exit code {result.returncode}:\n{result.stderr.strip()[-2000:]}")
    return result


def hearth_answer(text: str) -> Answer:
    """The JSON in the last line of `hearth run --json`; figures of the draft may be missing."""
    lines = text.strip().splitlines()
    try:
        report = json.loads(lines[-1])
        return Answer(
            tok_s=report["tok_s"],
            tokens=report["tokens"],
            prompt_tokens=report["prompt_tokens"],
            ids=report["ids"],
            drafted=report.get("drafted") or 0,
            accepted=report.get("accepted") or 0,
            gain=report.get("draft_gain"),
            used=report.get("draft_used"),
            stopped=bool(report.get("draft_stopped")),
        )
    except (IndexError, KeyError, TypeError, json.JSONDecodeError) as error:
        sys.exit(f"The last line of hearth's output is not the expected JSON ({error!r}): {lines[-1] if lines else 'no output'}"[:2000])


def llama_answer(text: str) -> Answer:
    """The report of `llama-lookup` or `llama-speculative-simple` on stderr, whose lines may begin with a time and a level."""

    def count(name: str) -> int:
        match = re.search(rf"\b{name}\s*=\s*(\d+)", text)
        return int(match[1]) if match else 0

    def pace(word: str) -> tuple[int, float]:
        match = re.search(rf"\b{word}\s+(\d+) tokens in\s+[\d.]+ seconds, speed:\s+([\d.]+) t/s", text)
        if not match:
            sys.exit(f"llama.cpp did not report how fast it {word}:\n{text.strip()[-2000:]}")
        return int(match[1]), float(match[2])

    (prompt, _), (tokens, speed) = pace("encoded"), pace("decoded")
    return Answer(tok_s=speed, tokens=tokens, prompt_tokens=prompt, drafted=count("n_drafted"), accepted=count("n_accept"))


def difference(plain: list[int] | None, drafted: list[int] | None) -> int | None:
    """Index of the first token that differs; `None` if all are the same."""
    plain, drafted = plain or [], drafted or []
    if plain == drafted:
        return None
    shorter = min(len(plain), len(drafted))
    return next((index for index in range(shorter) if plain[index] != drafted[index]), shorter)


def measure(args: argparse.Namespace, results: DraftResults, programs: list[Any]) -> None:
    for turn in range(args.rounds):
        for name in args.models:
            model = MODELS.get(name) or Model(lambda path=Path(name): path, ["ngram", "auto"])
            path = model.path()
            results.models[name] = path.stat().st_size
            for task in args.tasks:
                for draft in args.drafts or model.drafts:
                    for program in programs[:: -1 if turn % 2 else 1]:
                        pair = both(program, path, task, draft, drafted_first=turn % 2 == 1)
                        if not pair:
                            continue
                        plain, drafted = pair
                        results.add(program.name, name, task.kind, task.name, draft, plain, drafted)
                        at = difference(plain.ids, drafted.ids)
                        if at is not None:
                            results.differences.append(f"{name}, {task.name}, {draft}: token {at} differs from the one without a draft")
                        results.save()
                        speeds = f"{plain.tok_s:.1f} to {drafted.tok_s:.1f} tokens/s, {drafted.accepted} of {drafted.drafted} accepted"
                        print(f"round {turn + 1}, {name}, {task.name}, {draft}, {program.name}: {speeds}", file=sys.stderr, flush=True)
                        if at is not None:
                            print(f"ERROR: {results.differences[-1]}", file=sys.stderr, flush=True)


def both(program: Any, model: Path, task: Task, draft: str, drafted_first: bool) -> tuple[Answer, Answer] | None:
    """The answers without and with the draft, one directly after the other; `None` if the program has no such draft."""
    answers: dict[str | None, Answer] = {}
    for choice in [draft, None] if drafted_first else [None, draft]:
        if program.name == "llama.cpp" and draft not in ["ngram", "model"]:
            return None
        answers[choice] = program.decode(model, task, choice)
    return answers[None], answers[draft]


def arguments() -> argparse.Namespace:
    everything = tasks()
    kinds = list(dict.fromkeys(task.kind for task in everything))
    parser = argparse.ArgumentParser(description="Measure decode with and without a draft.", epilog=f"Models: {'; '.join(MODELS)}; or a GGUF file.")
    parser.add_argument("hearth", type=Path, help="a release build of hearth")
    parser.add_argument("--llama", action="store_true", help="also measure llama.cpp, which is built if needed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=[*MODELS], metavar="NAME", help="default: all")
    parser.add_argument("--drafts", nargs="+", metavar="DRAFT", help="ngram, model (SmolLM2-135M), self, self:LAYERS, auto, or a GGUF file")
    parser.add_argument("--tasks", nargs="+", choices=kinds, default=kinds, help="kinds of prompts; default: all")
    parser.add_argument("--threads", type=int, default=machine.cores())
    parser.add_argument("-n", "--tokens", type=int, default=192, help="tokens to decode (default: 192)")
    parser.add_argument("--json", type=Path, default=CACHE / "drafts.json", metavar="FILE", help="results file; new results are added")
    parser.add_argument("--fresh", action="store_true", help="delete saved results first")
    parser.add_argument("--show", action="store_true", help="show saved results without measuring")
    parser.add_argument("--write", type=Path, metavar="PAGE.md", help="write the page")
    args = parser.parse_args()
    if not args.hearth.is_file():
        parser.error(f"{args.hearth} is not a file")
    for name in args.models:
        if name not in MODELS and not Path(name).is_file():
            parser.error(f"no model called {name}")
    if args.rounds < 1:
        parser.error("--rounds must be at least 1")
    args.tasks = [task for task in everything if task.kind in args.tasks]
    return args


def main() -> None:
    args = arguments()
    if args.fresh:
        args.json.unlink(missing_ok=True)
    results = DraftResults(args.json)
    if not args.show:
        start, before = time.monotonic(), results.seconds
        programs: list[Any] = [Hearth(args.hearth, args.threads, args.tokens)]
        if args.llama:
            programs.append(Llama(llama.find(CACHE, llama.LOOKUP), llama.find(CACHE, llama.SPECULATIVE), args.threads, args.tokens))
        results.join(machine.about(args.hearth) | {"llama": llama.TITLE, "threads": args.threads, "tokens": args.tokens, "llama_draft": LLAMA_DRAFT})
        measure(args, results, programs)
        results.seconds = before + time.monotonic() - start
        results.save()
    print(draft_page.page(results))
    if args.write:
        args.write.write_text(draft_page.page(results))
    if results.differences:
        sys.exit(1)


if __name__ == "__main__":
    main()

"""Time to first token of a long chat in a new worker, with and without the prompt cache.

    python reopen.py HEARTH MODEL.gguf [--years N] [--rounds N] [--threads N]

HEARTH is a release build of `hearth`. A worker prefills a chat and saves it in the prompt cache; then workers are started alternately with
and without that cache, and each answers the next question. Prints the cached tokens, the seconds to the first token, and the ratio; checks
that the answers are equal. On Linux, also prints the bytes that a worker writes for a chat, turn by turn.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CONVERSATION = 1


class Worker:
    def __init__(self, args, cache):
        self.process = subprocess.Popen([args.hearth, "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.receive("ready")
        settings = {"context": 8192, "threads": args.threads, "device": "cpu"}
        self.send({"type": "load", "path": str(args.model.resolve()), "prompt_cache": cache and {"path": str(cache), "max_bytes": 2**40}, **settings})
        self.receive("loaded")

    def send(self, request):
        print(json.dumps(request), file=self.process.stdin, flush=True)

    def receive(self, kind):
        for line in self.process.stdout:
            event = json.loads(line)
            if event["type"] == kind:
                return event
            if event["type"].endswith("failed"):
                break
            # Anything else is progress.
        sys.exit("The worker failed.")

    def ask(self, messages):
        """Cached tokens, seconds to the first token, and the answer, after it is saved."""
        request = {"id": 1, "prompt": {"chat": messages}, "max_tokens": 8, "stop": [], "conversation": CONVERSATION}
        self.send({"type": "generate", "sampling": {"temperature": 0.0}, **request})
        cached = self.receive("started")["cached_tokens"]
        summary = self.receive("finished")["summary"]
        self.send({"type": "count", "id": 2, "messages": messages[:1]})
        self.receive("counted")
        return cached, summary["first_token_seconds"], summary["ids"]

    def written(self):
        """Bytes written so far; None if the system does not report them."""
        try:
            lines = Path(f"/proc/{self.process.pid}/io").read_text().splitlines()
        except OSError:
            return None
        return int(next(line for line in lines if line.startswith("wchar")).split()[1])

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def ask_new_worker(args, cache, messages):
    worker = Worker(args, cache)
    answer = worker.ask(messages)
    worker.end()
    return answer


def turns(args, cache, chat):
    """Prints the bytes written after each answer of a growing chat, and after an answer to an edited last question."""
    chats = [chat]
    for question in ["When did it rise most?", "And when least?", "Which years had no boats lost?"]:
        chats.append(chats[-1] + [{"role": "assistant", "content": "I do not know."}, {"role": "user", "content": question}])
    chats.append(chats[-1][:-1] + [{"role": "user", "content": "How many boats were lost in all?"}])
    worker, figures = Worker(args, cache), []
    for messages in chats:
        before = worker.written()
        worker.ask(messages)
        figures.append(before is not None and f"{(worker.written() - before) / 1e6:.1f} MB")
    worker.end()
    if all(figures):
        print("written after each turn, the last with an edited question:", ", ".join(figures))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hearth")
    parser.add_argument("model", type=Path)
    parser.add_argument("--years", type=int, default=178, help="lines of the chat, 22 tokens each")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    story = " ".join(f"In the year {1000 + n} the river rose by {n % 7} feet and {n % 13} boats were lost." for n in range(args.years))
    chat = [{"role": "user", "content": story}]
    more = [{"role": "assistant", "content": "It rose often."}, {"role": "user", "content": "When did it rise most?"}]
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder, "prompt-cache")
        ask_new_worker(args, cache, chat)
        size = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())
        print(f"prompt cache: {size / 1e6:.1f} MB")
        turns(args, Path(folder, "turns"), chat)
        ratios = []
        for number in range(args.rounds):
            # A copy, because an answer overwrites the cache.
            copy = Path(folder, str(number))
            shutil.copytree(cache, copy)
            (none, before, expected), (cached, after, answer) = (ask_new_worker(args, folder, chat + more) for folder in [None, copy])
            shutil.rmtree(copy)
            if answer != expected:
                sys.exit(f"The answers differ: {expected} and {answer}.")
            ratios.append(before / after)
            print(f"cached {none}: {before:.2f} s   cached {cached}: {after:.2f} s   ratio {ratios[-1]:.0f}")
        print(f"median ratio {statistics.median(ratios):.0f}")


if __name__ == "__main__":
    main()

"""How soon a long chat goes on in a worker that was just started, with and without what was kept of it.

    python reopen.py HEARTH MODEL.gguf [--years N] [--rounds N] [--threads N]

HEARTH is a release build of `hearth`. A worker reads a chat and keeps it; then workers are started in turns that know of it and that do
not, and each is asked the next question. Printed are tokens known, seconds to the first token, and the ratio; that the answers are the
same is checked. On Linux, also the bytes that a worker writes for a chat, turn by turn.
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
    def __init__(self, args, kept):
        self.process = subprocess.Popen([args.hearth, "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.hear("ready")
        how = {"context": 8192, "threads": args.threads, "device": "cpu"}
        self.say({"type": "load", "path": str(args.model.resolve()), "kept": kept and {"path": str(kept), "most_bytes": 2**40}, **how})
        self.hear("loaded")

    def say(self, request):
        print(json.dumps(request), file=self.process.stdin, flush=True)

    def hear(self, kind):
        for line in self.process.stdout:
            event = json.loads(line)
            if event["type"] == kind:
                return event
            if event["type"].endswith("failed"):
                break
            # Anything else is progress.
        sys.exit("The worker failed.")

    def ask(self, messages):
        """Tokens known, seconds to the first token, and the answer, once that is kept."""
        request = {"id": 1, "prompt": {"chat": messages}, "max_tokens": 8, "stop": [], "conversation": CONVERSATION}
        self.say({"type": "generate", "sampling": {"temperature": 0.0}, **request})
        known = self.hear("started")["cached_tokens"]
        summary = self.hear("finished")["summary"]
        self.say({"type": "count", "id": 2, "messages": messages[:1]})
        self.hear("counted")
        return known, summary["first_token_seconds"], summary["ids"]

    def written(self):
        """Bytes that it has written so far; none where the system does not tell."""
        try:
            lines = Path(f"/proc/{self.process.pid}/io").read_text().splitlines()
        except OSError:
            return None
        return int(next(line for line in lines if line.startswith("wchar")).split()[1])

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def asked(args, kept, messages):
    worker = Worker(args, kept)
    answer = worker.ask(messages)
    worker.end()
    return answer


def turns(args, kept, chat):
    """Prints what is written after each answer in a chat that grows, and after one to another last question."""
    chats = [chat]
    for question in ["When did it rise most?", "And when least?", "Which years had no boats lost?"]:
        chats.append(chats[-1] + [{"role": "assistant", "content": "I do not know."}, {"role": "user", "content": question}])
    chats.append(chats[-1][:-1] + [{"role": "user", "content": "How many boats were lost in all?"}])
    worker, figures = Worker(args, kept), []
    for messages in chats:
        before = worker.written()
        worker.ask(messages)
        figures.append(before is not None and f"{(worker.written() - before) / 1e6:.1f} MB")
    worker.end()
    if all(figures):
        print("written after each turn, the last with another question:", ", ".join(figures))


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
        kept = Path(folder, "kept")
        asked(args, kept, chat)
        size = sum(path.stat().st_size for path in kept.rglob("*") if path.is_file())
        print(f"kept: {size / 1e6:.1f} MB")
        turns(args, Path(folder, "turns"), chat)
        ratios = []
        for number in range(args.rounds):
            # A copy, for an answer replaces what was kept.
            copy = Path(folder, str(number))
            shutil.copytree(kept, copy)
            (none, before, expected), (known, after, answer) = asked(args, None, chat + more), asked(args, copy, chat + more)
            shutil.rmtree(copy)
            if answer != expected:
                sys.exit(f"The answers differ: {expected} and {answer}.")
            ratios.append(before / after)
            print(f"known {none}: {before:.2f} s   known {known}: {after:.2f} s   ratio {ratios[-1]:.0f}")
        print(f"median ratio {statistics.median(ratios):.0f}")


if __name__ == "__main__":
    main()

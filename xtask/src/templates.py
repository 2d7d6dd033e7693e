"""Fetches llama.cpp's chat templates, for tests: python3 -c "$(cat templates.py)" FOLDER

They are part of the source package of llama-cpp-python on PyPI (73 MiB), downloaded through pip (with its mirrors, proxies and caches).
FOLDER is created only after the checksum was verified.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

NAME, VERSION = "llama-cpp-python", "0.3.36"
ARCHIVE_SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
MEMBERS = "/vendor/llama.cpp/models/templates/"
# Checksum of all names and contents, sorted by name.
TEMPLATES_SHA256 = "aa9e6a2e2be9e7bfd95bdeba4a3ee6ffa2a6eeb1c842fde694fe00a7f27996a6"

# pip runs a source package's build backend for its metadata before it downloads the package. This stub replaces it, so
# that nothing is installed and no code of the package is run.
STUB_BACKEND = f'''
import os

def get_requires_for_build_wheel(config_settings=None):
    return []

def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    name = "llama_cpp_python-{VERSION}.dist-info"
    os.makedirs(os.path.join(metadata_directory, name))
    with open(os.path.join(metadata_directory, name, "METADATA"), "w") as file:
        file.write("Metadata-Version: 2.1\\nName: {NAME}\\nVersion: {VERSION}\\n")
    return name

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    raise NotImplementedError
'''


def digest(folder):
    whole = hashlib.sha256()
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            content = file.read()
        whole.update(f"{name} {len(content)}\n".encode() + content)
    return whole.hexdigest()


def download(folder):
    backend = os.path.join(folder, "stub", "scikit_build_core")
    os.makedirs(backend)
    open(os.path.join(backend, "__init__.py"), "w").close()
    with open(os.path.join(backend, "build.py"), "w") as file:
        file.write(STUB_BACKEND)
    requirements = os.path.join(folder, "requirements.txt")
    with open(requirements, "w") as file:
        file.write(f"{NAME}=={VERSION} --hash=sha256:{ARCHIVE_SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", NAME, "--no-build-isolation"]
    command += ["--require-hashes", "--dest", os.path.join(folder, "archive"), "-r", requirements]
    environment = dict(os.environ, PYTHONPATH=os.path.dirname(backend))
    subprocess.run(command, check=True, stdout=sys.stderr, env=environment)
    (name,) = os.listdir(os.path.join(folder, "archive"))
    return os.path.join(folder, "archive", name)


def extract(archive, folder):
    os.makedirs(folder)
    with tarfile.open(archive) as members:
        for member in members:
            _, _, name = member.name.partition(MEMBERS)
            if not member.isfile() or "/" in name or not name.endswith(".jinja"):
                continue
            with members.extractfile(member) as source, open(os.path.join(folder, name), "wb") as target:
                shutil.copyfileobj(source, target)


def fetch(path):
    print("    downloading 73 MiB")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as folder:
        templates = os.path.join(folder, "templates")
        extract(download(folder), templates)
        if digest(templates) != TEMPLATES_SHA256:
            raise ValueError("the downloaded templates have the wrong checksum")
        shutil.rmtree(path, ignore_errors=True)
        os.replace(templates, path)
    print(f"    {path}")


def main(path):
    try:
        if os.path.isdir(path) and digest(path) == TEMPLATES_SHA256:
            print(f"    {path} is up to date")
            return 0
    except OSError as error:
        print(
            f"{error.filename} cannot be read: {error.strerror}. Make it readable, or remove {path} to download it "
            "again.",
            file=sys.stderr,
        )
        return 1
    try:
        fetch(path)
    except (OSError, ValueError, subprocess.CalledProcessError, tarfile.TarError) as error:
        print(f"    {error}", file=sys.stderr)
        print(
            f"The chat templates for tests could not be fetched. Check the network and the permissions of {path}, or put the "
            f".jinja files of {MEMBERS} in {NAME} {VERSION} there manually.",
            file=sys.stderr,
        )
        return 1
    return 0


sys.exit(main(os.path.abspath(sys.argv[1])))

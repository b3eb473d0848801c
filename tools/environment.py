#!/usr/bin/env python3
"""Create or update a virtual environment: environment.py [--wheels DIRECTORY] VENV PACKAGE...

It prints each step with the elapsed seconds. pip installs uv, and uv installs the packages, which is faster than pip.
uv does not read pip's configuration, which may contain the only index that a site can reach. The script therefore
passes pip's settings to uv, as `uenvtool venv` does. If uv fails anyway, pip installs the packages. With --wheels,
packages come only from that directory.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOT_TOLD = (" + ", " - ", " ~ ", "Using Python")
"""The beginnings of the lines of uv that are not printed: those of single packages, and of the Python in use."""
STARTED = time.monotonic()


def main() -> int:
    """Create the environment, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("venv", type=Path)
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="PACKAGE", help="a requirement, as for pip")
    options = parser.parse_args()
    venv = Path(os.path.abspath(options.venv))
    source = ["--no-index", "--find-links", str(options.wheels.resolve())] if options.wheels else []
    python, uv = venv / "bin" / "python", venv / "bin" / "uv"
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", *source]
    if not python.exists():
        say(f"create a virtual environment with Python {sys.version.split()[0]}, {sys.executable}")
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    if not uv.exists():
        say("install uv with pip")
        subprocess.run([*pip, "--quiet", "uv"], check=True)
    say("install the packages with uv")
    if not placed(uv, python, source, options.words):
        say("uv failed; install the packages with pip, which takes longer")
        subprocess.run([*pip, *options.words], check=True)
    say(f"{venv} is ready")
    return 0


def placed(uv: Path, python: Path, source: list[str], words: list[str]) -> bool:
    """Install packages with uv, from the sources that pip's settings name; return whether uv succeeded."""
    sys.path.insert(0, str(ROOT))
    sys.dont_write_bytecode = True
    from uenvtool.core.errors import BadInput
    from uenvtool.venv.settings import read_settings

    try:
        settings = read_settings(os.environ)
    except BadInput as error:
        print(error, file=sys.stderr)
        return False
    limits = [word for path in settings.constraints for word in ("--constraint", path)]
    command = [uv, "pip", "install", "--python", python, "--reinstall-package", "uenvtool", *limits]
    command += source or settings.arguments
    environ = {**settings.environment, **({} if source else settings.urls)}
    running = subprocess.Popen(  # in /, because uv reads a uv.toml in any parent directory, whoever wrote it
        [*map(str, command), *words], env=environ, cwd="/", stderr=subprocess.PIPE, text=True
    )
    for line in running.stderr or ():
        if not line.startswith(NOT_TOLD):
            print(f"        {line}", end="", flush=True)
    return running.wait() == 0


def say(text: str) -> None:
    """Print a step after the elapsed seconds."""
    print(f"{time.monotonic() - STARTED:5.0f} s  {text}", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:  # it has printed its error
        sys.exit(error.returncode)

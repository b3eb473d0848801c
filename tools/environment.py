#!/usr/bin/env python3
"""Make a virtual environment, or bring it up to date: environment.py [--wheels FOLDER] VENV PACKAGE...

It says step by step what it does, with the seconds that have gone. pip gets uv, and uv places the rest: the same wheels
in a fraction of the time. uv reads no configuration of pip's, which may be a site's only way to packages: it gets what
`uenvtool venv` gives it, and if it fails all the same, pip does it. With --wheels, that folder is the only source.
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
"""How uv begins the line of each package that it placed, and of what was said before."""
STARTED = time.monotonic()


def main() -> int:
    """Make it; the exit code of the step that failed, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("venv", type=Path)
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="PACKAGE", help="as pip takes it")
    options = parser.parse_args()
    venv = Path(os.path.abspath(options.venv))
    source = ["--no-index", "--find-links", str(options.wheels.resolve())] if options.wheels else []
    python, uv = venv / "bin" / "python", venv / "bin" / "uv"
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", *source]
    if not python.exists():
        say(f"a virtual environment of Python {sys.version.split()[0]}, {sys.executable}")
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    if not uv.exists():
        say("pip gets uv")
        subprocess.run([*pip, "--quiet", "uv"], check=True)
    say("uv gets the packages and places them")
    if not placed(uv, python, source, options.words):
        say("uv could not: pip tries, which takes longer")
        subprocess.run([*pip, *options.words], check=True)
    say(f"{venv} is made")
    return 0


def placed(uv: Path, python: Path, source: list[str], words: list[str]) -> bool:
    """Let uv install, from where pip is told to look; tell if it did."""
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
    environ = dict(settings.environment)
    running = subprocess.Popen(  # in /, since uv obeys a uv.toml of any folder above, whoever wrote it
        [*map(str, command), *words], env=environ, cwd="/", stderr=subprocess.PIPE, text=True
    )
    for line in running.stderr or ():
        if not line.startswith(NOT_TOLD):
            print(f"        {line}", end="", flush=True)
    return running.wait() == 0


def say(text: str) -> None:
    """Print a step, behind the seconds that have gone."""
    print(f"{time.monotonic() - STARTED:5.0f} s  {text}", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:  # its words were shown
        sys.exit(error.returncode)

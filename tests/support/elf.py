"""What compiled files say of themselves: which libraries they need, where these are looked for (readelf)."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Elf:
    """A compiled file. needed: names of libraries. run_paths: folders where the loader looks for them."""

    path: Path
    needed: tuple[str, ...]
    run_paths: tuple[str, ...]


def elf_files(folder: Path) -> list[Elf]:
    """Every dynamically linked file below a folder; symlinks are left out."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file() or path.stat().st_size < 64:
            continue
        with path.open("rb") as stream:
            if stream.read(4) != b"\x7fELF":
                continue
        shown = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True, check=True).stdout
        needed = tuple(re.findall(r"\(NEEDED\).*\[(.+)\]", shown))
        paths = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.+)\]", shown)
        run_paths = tuple(part for text in paths for part in text.split(":"))
        if needed or run_paths:
            found.append(Elf(path=path, needed=needed, run_paths=run_paths))
    return found

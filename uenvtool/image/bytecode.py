"""Compiles the bytecode of whole trees: the same bytes in every folder and process, by several interpreters at once."""

from __future__ import annotations

import mmap
import os
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from uenvtool.core import processes
from uenvtool.core.errors import ToolFailed
from uenvtool.core.files import fill, full_disk, scratch_folder
from uenvtool.image.pseudo import header_bytes
from uenvtool.image.tree import Bundle

WORKER = Path(__file__).parent / "scripts" / "bytecode.py"
MOST_WORKERS = 32
FEWEST_FILES = 200
"""A worker costs a Python's start; fewer modules than this are not worth one more."""
LONGEST_TAG = b"implementation-version-abi-and-more"
"""At least as long as what any Python calls its bytecode (`cpython-312`)."""
Compiled = list[tuple[Path, dict[bytes, int]]]
"""Each worker's data file, and the name and length of the bytecode of each module that it did, in order."""


def compile_tree(python: Path, folder: Path, *, checked: bool, done: Collection[bytes] = ()) -> int:
    """Write the bytecode of every module below `folder` beside it; return the number of modules that it did.

    checked: Python compares it with the source's time and size at each import, as it does with its
    own. Otherwise it is `unchecked-hash` (PEP 552) and the source is never looked at: for trees that
    nobody changes. done: modules that have theirs, relative to the environment. A file that is no Python is left alone,
    as compileall does. `folder` is an environment or lies in one; `python` has the version of the one that will import
    it. Raises ToolFailed if it does not run or cannot write.
    """
    root = next((parent for parent in (folder, *folder.parents) if (parent / "pyvenv.cfg").is_file()), folder)
    with scratch_folder() as scratch:
        kind = "checked" if checked else "unchecked"
        modules = {name: size for name, size in sources(root, folder).items() if name not in done}
        compiled = _compile([python], root, modules, scratch, kind)
    return sum(1 for _, lengths in compiled for length in lengths.values() if length)


def gather(python: Sequence[str | Path], folder: Path, modules: Mapping[bytes, int], scratch: Path) -> list[Bundle]:
    """Compile the `unchecked-hash` bytecode of modules; only `scratch` is written to.

    python: the command that starts it. modules: paths relative to `folder`, with their sizes in bytes. Each bundle's
    file begins with room for the definitions of its contents. Raises ToolFailed if Python does not run.
    """
    start = header_bytes([cache_name(name, LONGEST_TAG) for name in modules])
    bundles = []
    for data, lengths in _compile(python, folder, modules, scratch, "unchecked", start=start):
        content, offset = _mapped(data), start
        contents = {}
        for name, length in lengths.items():
            if length:
                contents[name] = content[offset : offset + length]
                offset += length
        bundles.append(Bundle(data, start, contents))
    return bundles


def cache_name(name: bytes, tag: bytes) -> bytes:
    """Return where a module's bytecode belongs (PEP 3147), relative as the module's name is."""
    folder, slash, base = name.rpartition(b"/")
    return b"%b%b__pycache__/%b%b.pyc" % (folder, slash, base[:-2], tag)


def workers() -> int:
    """Return how many interpreters to start: the processors that this process may use."""
    return max(1, min(len(os.sched_getaffinity(0)), MOST_WORKERS))


def _mapped(path: Path) -> memoryview:
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        return memoryview(mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) if size else b"")


def sources(root: Path, folder: Path) -> dict[bytes, int]:
    """List the modules below `folder`, relative to `root`, with their sizes; symlinked folders are not followed."""
    found = {}
    for parent, folders, names in os.walk(os.fsencode(folder)):
        folders[:] = [name for name in folders if name != b"__pycache__"]
        for path in (os.path.join(parent, name) for name in names if name.endswith(b".py")):
            found[os.path.relpath(path, os.fsencode(root))] = os.lstat(path).st_size if os.path.lexists(path) else 0
    return dict(sorted(found.items()))


def _compile(
    python: Sequence[str | Path],
    root: Path,
    modules: Mapping[bytes, int],
    scratch: Path,
    kind: str,
    *,
    start: int | None = None,
) -> Compiled:
    """Compile modules, the large ones spread evenly over the workers.

    start: where in a data file the bytecode begins; None puts the bytecode beside its modules instead.
    """
    count = min(workers(), -(-len(modules) // FEWEST_FILES))
    by_size = sorted(modules, key=lambda name: (-modules[name], name))
    shares = [by_size[number::count] for number in range(count)]
    fill(scratch, {f"list-{number}": b"".join(name + b"\0" for name in share) for number, share in enumerate(shares)})

    def compiled(number: int) -> tuple[Path, dict[bytes, int]]:
        data = scratch / f"data-{number}"
        words: list[str | Path] = [WORKER, root, scratch / f"list-{number}", kind]
        words += [] if start is None else [data, str(start)]
        tag, *lengths = _output(python, root if start is None else scratch, *words).split()
        names = (cache_name(name, os.fsencode(tag)) for name in shares[number])
        return data, dict(zip(names, map(int, lengths), strict=True))

    with ThreadPoolExecutor(count or 1) as pool:
        return list(pool.map(compiled, range(count)))


def _output(python: Sequence[str | Path], place: Path, *words: str | Path) -> str:
    """Run a Python without what changes how it starts; sets have one order (hash seed). place: where it writes."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    completed = processes.run([*python, "-S", "-B", *words], env={**env, "PYTHONHASHSEED": "0"})
    if completed.code != 0:
        hint = "load the overlay's base, and run it again"
        failed = ToolFailed(f"{python[-1]} cannot compile: {completed.reason}", hint=hint)
        raise full_disk(place, completed.stderr) or failed
    return completed.stdout

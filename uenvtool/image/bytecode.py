"""Bytecode for whole trees: the same bytes in every folder and process, made by several interpreters at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from uenvtool.core import tools
from uenvtool.core.errors import ToolFailed
from uenvtool.core.files import fill, working_folder
from uenvtool.image.tree import Bundle

WORKER = Path(__file__).parent / "scripts" / "bytecode.py"
MOST_WORKERS = 32
LIST_BYTES = 16 << 20
FEWEST_FILES = 200
"""A worker costs a Python's start; fewer modules than this are not worth one more."""


def compile_tree(python: Path, folder: Path, *, checked: bool) -> int:
    """Write the bytecode of every module below `folder` beside it; the number of modules that have it.

    checked: Python compares it with the source's time and size at each import, as it does with its
    own. Otherwise it is `unchecked-hash` (PEP 552) and the source is never looked at: for trees that
    nobody changes. A file that is no Python is left alone, as compileall does. `folder` is an
    environment or lies in one; `python` has the version of the one that will import it. Raises
    ToolFailed if it does not run or cannot write.
    """
    root = _environment(folder)
    with working_folder(LIST_BYTES) as scratch:
        compiled = _run([python], root, sources(root, folder), scratch, checked=checked)
    return sum(1 for _, lengths in compiled for length in lengths.values() if length)


def gather(
    python: Sequence[str | Path], folder: Path, modules: Mapping[bytes, int], scratch: Path, start: int = 0
) -> list[Bundle]:
    """Return the `unchecked-hash` bytecode of modules; only `scratch` is written to.

    python: the command that starts it. modules: paths relative to `folder`, with their sizes in bytes. start:
    bytes that are kept for definitions before the contents in each bundle's file. Raises ToolFailed if Python does
    not run.
    """
    bundles = []
    for data, lengths in _run(python, folder, modules, scratch, start=start):
        content, offset = _mapped(data), start
        contents = {}
        for name, length in lengths.items():
            if length:
                contents[name] = content[offset : offset + length]
                offset += length
        bundles.append(Bundle(data, start, contents))
    return bundles


def _mapped(path: Path) -> memoryview:
    """A file's content, which is read when it is used."""
    import mmap

    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        return memoryview(mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) if size else b"")


def sources(root: Path, folder: Path) -> dict[bytes, int]:
    """The modules below `folder`, relative to `root`, with their sizes; symlinked folders are not followed."""
    start = os.fsencode(root)
    found = {}
    for parent, folders, names in os.walk(os.fsencode(folder)):
        folders[:] = [name for name in folders if name != b"__pycache__"]
        relative = os.path.relpath(parent, start)
        for name in names:
            if name.endswith(b".py"):
                found[os.path.normpath(os.path.join(relative, name))] = _size(os.path.join(parent, name))
    return dict(sorted(found.items()))


def _size(path: bytes) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def cache_name(name: bytes, tag: str) -> bytes:
    """Where a module's bytecode belongs (PEP 3147), relative as the module's name is."""
    folder, base = os.path.split(name)
    return os.path.join(folder, b"__pycache__", base[:-2] + os.fsencode(tag) + b".pyc")


def python_version(python: Path) -> str:
    """The version of a Python as folders of packages have it (`3.12`). Raises ToolFailed if it does not run."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return _output(tools.run([python, "-S", "-B", "-c", code], env=_environ()), python).strip()


def workers() -> int:
    """How many interpreters to start: the processors that this process may use."""
    return max(1, min(len(os.sched_getaffinity(0)), MOST_WORKERS))


def _run(
    python: Sequence[str | Path],
    root: Path,
    modules: Mapping[bytes, int],
    scratch: Path,
    *,
    checked: bool = False,
    start: int | None = None,
) -> list[tuple[Path, dict[bytes, int]]]:
    """Each worker's data file, and the name and length of the bytecode of each module that it did, in order.

    start: where in that file the bytecode begins; None puts the bytecode beside its modules instead.
    """
    if not modules:
        return []
    shards = list(_shards(modules))
    fill(scratch, {f"list-{number}": b"".join(name + b"\0" for name in shard) for number, shard in enumerate(shards)})

    def compiled(number: int) -> tuple[Path, dict[bytes, int]]:
        data, list_of_modules = scratch / f"data-{number}", scratch / f"list-{number}"
        words: list[str | Path] = [
            *python,
            "-S",
            "-B",
            WORKER,
            root,
            list_of_modules,
            "checked" if checked else "unchecked",
        ]
        completed = tools.run(words if start is None else [*words, data, str(start)], env=_environ())
        tag, *lengths = _output(completed, python[-1]).split()
        names_of_bytecode = (cache_name(name, tag) for name in shards[number])
        return data, dict(zip(names_of_bytecode, map(int, lengths), strict=True))

    with ThreadPoolExecutor(len(shards)) as pool:
        return list(pool.map(compiled, range(len(shards))))


def _shards(modules: Mapping[bytes, int]) -> Iterator[list[bytes]]:
    """The modules in as many shares as there are workers, the large ones spread evenly."""
    count = min(workers(), -(-len(modules) // FEWEST_FILES))
    by_size = sorted(modules, key=lambda name: (-modules[name], name))
    for number in range(count):
        yield by_size[number::count]


def _environment(folder: Path) -> Path:
    """The environment that a folder lies in; the folder itself if it lies in none."""
    return next((parent for parent in (folder, *folder.parents) if (parent / "pyvenv.cfg").is_file()), folder)


def _environ() -> dict[str, str]:
    """This process's environment without what changes how Python starts; sets have one order (hash seed)."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "PYTHONHASHSEED": "0"}


def _output(completed: tools.Completed, python: str | Path) -> str:
    if completed.code != 0:
        reason = (completed.stderr.strip() or f"it ended with exit code {completed.code}").splitlines()[-1]
        raise ToolFailed(f"{python} cannot compile: {reason}", hint="load the overlay's base, and run it again")
    return completed.stdout

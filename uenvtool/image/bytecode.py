"""Compiles Python modules to reproducible bytecode, with several interpreters in parallel."""

from __future__ import annotations

import mmap
import os
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path

from uenvtool.core import processes
from uenvtool.core.errors import ToolFailed
from uenvtool.core.files import fill, full_disk, scratch_folder

WORKER = Path(__file__).parent / "scripts" / "bytecode.py"
MOST_WORKERS = 32
FEWEST_FILES = 200
"""The minimum number of modules per worker. For fewer modules, another worker starts too slowly to save time."""


def compile_tree(python: Path, directory: Path, *, done: Collection[bytes] = ()) -> None:
    """Write the bytecode of every module below `directory` into its __pycache__.

    The bytecode is ordinary, so Python compares it with the time and size of the source at each import. Like
    compileall, the function skips a file that does not compile. Raises ToolFailed if Python does not run or cannot
    write.

    python: an interpreter of the version that will import the modules.
    directory: a virtual environment, or a directory inside it.
    done: modules that already have bytecode, relative to the virtual environment.
    """
    root = next((parent for parent in (directory, *directory.parents) if (parent / "pyvenv.cfg").is_file()), directory)
    with scratch_folder() as scratch:
        modules = {name: size for name, size in sources(root, directory).items() if name not in done}
        _compile([python], root, modules, scratch)


def gather(
    python: Sequence[str | Path], directory: Path, modules: Mapping[bytes, int], scratch: Path
) -> dict[bytes, memoryview]:
    """Compile modules to `unchecked-hash` bytecode in files in `scratch`, and return it by name, see `cache_name`.

    Python never compares this bytecode with its source (PEP 552), so it is for files that do not change. Raises
    ToolFailed if Python does not run.

    python: the command that starts Python.
    modules: paths relative to `directory`, with their sizes in bytes.
    """
    return _compile(python, directory, modules, scratch, is_gathered=True)


def cache_name(name: bytes, tag: bytes) -> bytes:
    """Return the path of a module's bytecode (PEP 3147), relative to the same directory as `name`."""
    directory, slash, base = name.rpartition(b"/")
    return b"%b%b__pycache__/%b%b.pyc" % (directory, slash, base[:-2], tag)


def sources(root: Path, directory: Path) -> dict[bytes, int]:
    """Return the modules below `directory`, relative to `root`, with their sizes. Symlinked directories are skipped."""
    sizes = {}
    for parent, directories, names in os.walk(os.fsencode(directory)):
        directories[:] = [name for name in directories if name != b"__pycache__"]
        for path in (os.path.join(parent, name) for name in names if name.endswith(b".py")):
            sizes[os.path.relpath(path, os.fsencode(root))] = os.lstat(path).st_size if os.path.lexists(path) else 0
    return dict(sorted(sizes.items()))


def _compile(
    python: Sequence[str | Path], root: Path, modules: Mapping[bytes, int], scratch: Path, *, is_gathered: bool = False
) -> dict[bytes, memoryview]:
    """Write ordinary bytecode into __pycache__ or, with `is_gathered`, return `unchecked-hash` bytecode by name."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env["PYTHONHASHSEED"] = "0"  # a fixed order of sets, so that the bytecode is reproducible
    count = min(len(os.sched_getaffinity(0)), MOST_WORKERS, -(-len(modules) // FEWEST_FILES))
    by_size = sorted(modules, key=lambda name: (-modules[name], name))
    shares = [by_size[number::count] for number in range(count)]  # with equal numbers of large modules
    fill(scratch, {f"list-{number}": b"".join(name + b"\0" for name in share) for number, share in enumerate(shares)})

    def compiled(number: int) -> dict[bytes, memoryview]:
        data = scratch / f"data-{number}"
        arguments: list[str | Path] = [WORKER, root, scratch / f"list-{number}"]
        arguments += [data] if is_gathered else []
        completed = processes.run([*python, "-S", "-B", *arguments], env=env)
        if completed.code != 0:
            hint = "load the overlay's base, and run the command again"
            failed = ToolFailed(f"{python[-1]} cannot compile the bytecode: {completed.reason}", hint=hint)
            raise full_disk(scratch if is_gathered else root, completed.stderr) or failed
        tag, *lengths = completed.stdout.split()
        if not data.is_file() or data.stat().st_size == 0:
            return {}
        with open(data, "rb") as stream:
            content = memoryview(mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ))
        sizes = [int(length) for length in lengths]
        return {
            cache_name(name, os.fsencode(tag)): content[end - size : end]
            for name, size, end in zip(shares[number], sizes, accumulate(sizes), strict=True)
            if size
        }

    with ThreadPoolExecutor(count or 1) as pool:
        return {name: code for codes in pool.map(compiled, range(count)) for name, code in codes.items()}

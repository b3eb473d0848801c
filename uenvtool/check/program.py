"""Reads a Python program with the modules that it imports, and determines how its ranks share the work."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from pathlib import PurePath

from uenvtool.core.errors import BadInput
from uenvtool.knowledge.launcher import all_launchers

MOST_FILES = 200
MOST_CHARACTERS = 500_000
"""The maximum number of files of a program, and of characters in them. Reading this many takes a second."""
_READS_RANK = re.compile(
    r"RANK\b|SLURM_(?:PROCID|LOCALID|NODEID|NTASKS)\b|WORLD_SIZE|\b(?:\w+_)?(?:get_rank|get_world_size|world_size|process_index)\b"
    r"|\b(?:local|global|world|node|dist|ddp|dp|tp|mpi|data_parallel)_rank\b|['\"]--?(?:local[-_])?rank\b"
    r"|init_process_group|init_device_mesh|\w*Trainer\(|TrainingArguments|\bdistribut(?:e|ed)\.|\bsubmitit\b"
)
"""Code that reads the number of a process, or calls a library that does."""
_FIRST_GPU = re.compile(r"\.cuda\(\s*\)|['\"]cuda(?::0)?['\"](?!\s*[,+]\s*\w*(?:rank|idx|index|id)\b)")
_SELECTS_GPU = re.compile(
    r"(?i)local_?rank|set_device|set_default_device\(f|device_count|device_id|_LOCALID|init_device_mesh|VISIBLE_DEVICES"
    r"|cuda:\{|cuda:['\"]\s*\+|cuda:%|\.cuda\(\s*[\w(]"
)
_NCCL = re.compile(r"init_process_group\((?!.*gloo)")
_Parsed = tuple[str, list[tuple[str, int]], int]
_SELECTING = {"accelerate", "deepspeed", "lightning", "pytorch_lightning", "horovod", "transformers.Trainer"}
"""The packages and classes that select the GPU of a rank."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """A description of a Python program and its own modules.

    reads_rank: whether it reads the number of its process, or imports a package that does; true if the program imports
    nothing, cannot be parsed, or is too large. first_gpu: the line that puts all ranks of a node on its first GPU, as
    FILE:LINE, or "" without such a line.
    """

    reads_rank: bool
    first_gpu: str


def read_program(file: str, text: str, folder: str, read: Callable[[str], str]) -> Program:
    """Return the description of a program with the modules next to it, which are read until the result is known.

    text: the source of the program. folder: the directory in which the program runs. read: returns the text of a file,
    which is empty if the file is missing, or raises BadInput.
    """
    lines = enumerate(text.splitlines(), start=1)
    line = next((number for number, line in lines if _FIRST_GPU.search(line.partition("#")[0])), 0)
    has_imports = reads_rank = selects_gpu = uses_nccl = False
    characters = 0
    for code, imports, length in _sources(file, text, folder, read):
        characters += length
        if characters > MOST_CHARACTERS:
            return Program(reads_rank=True, first_gpu="")
        has_imports = has_imports or bool(imports)
        reads_rank = reads_rank or bool(_READS_RANK.search(code)) or _imports_launcher(imports)
        selects_gpu = selects_gpu or bool(_SELECTS_GPU.search(code) or _SELECTING & imports)
        uses_nccl = uses_nccl or bool(_NCCL.search(code))
        if reads_rank and (selects_gpu or not line):
            break
    is_first = line and uses_nccl and not selects_gpu
    return Program(reads_rank=reads_rank or not has_imports, first_gpu=f"{file}:{line}" if is_first else "")


def _imports_launcher(imports: Set[str]) -> bool:
    packages = {package for launcher in all_launchers().values() for package in launcher.imports}
    return any(name == package or name.startswith(f"{package}.") for name in imports for package in packages)


def _sources(
    file: str, text: str, folder: str, read: Callable[[str], str]
) -> Iterator[tuple[str, frozenset[str], int]]:
    """Yield the program and each of its own modules: the source without comments, the imported names, and the length.

    The source is empty if it contains nothing about ranks, because the removal of comments takes as long as parsing.
    """
    waiting, seen, count = [file], set[str](), 0
    while waiting and count < MOST_FILES:
        path = waiting.pop()
        parsed = None if path in seen else _parsed(text) if path == file else _parsed_file(path, read)
        seen.add(path)
        if parsed is None:
            continue
        code, imported, length = parsed
        count += 1
        yield code, frozenset(name for name, level in imported if not level), length
        for name, level in imported:
            waiting += _files(name, level, PurePath(path).parent, (PurePath(file).parent, PurePath(folder)))


def _parsed_file(path: str, read: Callable[[str], str]) -> _Parsed | None:
    try:
        return _parsed(read(path))
    except BadInput:  # a module that is too large or not readable
        return None


def _parsed(text: str) -> _Parsed | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the warnings of Python about the user's source
            tree = ast.parse(text)
        is_about_ranks = any(pattern.search(text) for pattern in (_READS_RANK, _SELECTS_GPU, _NCCL))
        return (ast.unparse(tree) if is_about_ranks else "", list(_imported(tree)), len(text)) if text else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _imported(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield each imported module, and each name that is imported from one, with the level of a relative import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            yield module, node.level
            yield from ((f"{module}.{alias.name}".lstrip("."), node.level) for alias in node.names)


def _files(name: str, level: int, here: PurePath, folders: tuple[PurePath, ...]) -> Iterator[str]:
    if level:
        folders = (here.joinpath(*[".."] * (level - 1)),)
    parts = name.split(".") if name else []
    for folder in folders:
        for base in (folder, folder / "src") if not level else (folder,):
            for length in range(1, len(parts) + 1):
                path = base.joinpath(*parts[:length])
                yield from (f"{path}.py", str(path / "__init__.py"))

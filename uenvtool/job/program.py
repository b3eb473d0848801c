"""Reads the program of a job with the modules that it imports, and determines how its ranks share the work."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath

from uenvtool.knowledge.launcher import all_launchers

MOST_FILES = 200
"""The number of files of a program that are read."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """A Python program.

    file: its path. text: its source. code: the source of the program and of its own modules, without comments. imports:
    the modules and names that it imports; a program without imports is not judged.
    """

    file: str
    text: str
    code: str
    imports: frozenset[str]

    @property
    def reads_rank(self) -> bool:
        """Return whether the program reads the number of its process, or imports a package that does."""
        if not self.imports or _READS_RANK.search(self.code):
            return True
        packages = {package for launcher in all_launchers().values() for package in launcher.imports}
        return any(name == package or name.startswith(f"{package}.") for name in self.imports for package in packages)

    @property
    def place_of_first_gpu(self) -> str:
        """Return the line that puts all ranks of a node on its first GPU, as FILE:LINE, or "" without such a line."""
        packages = {"accelerate", "deepspeed", "lightning", "pytorch_lightning", "horovod", "transformers.Trainer"}
        if not _NCCL.search(self.code) or _SELECTS_GPU.search(self.code) or packages & self.imports:
            return ""
        lines = enumerate(self.text.splitlines(), start=1)
        number = next((number for number, line in lines if _FIRST_GPU.search(line.partition("#")[0])), 0)
        return f"{self.file}:{number}" if number else ""


def read_program(file: str, folder: str, read: Callable[[str], str]) -> Program | None:
    """Return a program with the modules next to it, or None if the file is missing or its syntax is wrong.

    folder: the directory in which the program runs. read: returns the text of a file, which is empty if it is missing.
    """
    text = read(file)
    trees: dict[str, ast.Module] = {}
    imports: set[str] = set()
    waiting = [file]
    while waiting and len(trees) < MOST_FILES:
        path = waiting.pop()
        tree = _parsed(text if path == file else read(path)) if path not in trees else None
        if tree is None:
            continue
        trees[path] = tree
        for name, level in _imported(tree):
            if not level:
                imports.add(name)
            waiting += _files(name, level, PurePath(path).parent, (PurePath(file).parent, PurePath(folder)))
    if file not in trees:
        return None
    code = "\n".join(map(ast.unparse, trees.values()))
    return Program(file=file, text=text, code=code, imports=frozenset(imports))


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text) if text else None
    except (SyntaxError, ValueError, RecursionError):
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

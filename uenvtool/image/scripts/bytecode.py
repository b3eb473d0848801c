"""Gives the bytecode of many modules; runs in the base's Python, whose bytecode it is.

    python bytecode.py ROOT LIST checked|unchecked [DATA START]

LIST holds paths relative to ROOT; a NUL ends each. Without DATA every module's bytecode is written
beside it; with DATA all of it is written there, from the byte START on. Prints what this Python calls
its bytecode, and the length of each module's (0: none). Bytecode that this script wrote before is used
again if it is still that of its source.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import sys
import types
import warnings

NAMED_AT = "/user-tools/"
"""The folder that every module's bytecode names. Python puts the true one in when it loads a module, but not if
an image is mounted here; and bytecode that has this name was written by this script."""
CHARACTERS = [sys.intern(chr(code)) for code in range(256)]
"""Python has one object for each of these, and marshal writes whether it is interned: now all of them are."""


def main(root: str, list_path: str, kind: str, data: str = "", start: str = "0") -> None:
    """Go through the list."""
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 5000))
    with open(list_path, "rb") as stream:
        names = stream.read().split(b"\0")[:-1]
    lengths = []
    with open(data or os.devnull, "wb") as gathered:
        gathered.seek(int(start))
        for name in names:
            path = os.path.join(os.fsencode(root), name)
            cached = cache_path(path)
            content = bytecode(path, os.fsdecode(name), kind == "checked")
            lengths.append(len(content))
            if data:
                gathered.write(content)
            elif content:
                put(cached, content)
    sys.stdout.write(" ".join([str(sys.implementation.cache_tag), *map(str, lengths)]) + "\n")


def cache_path(path: bytes) -> bytes:
    """Return where Python looks for the bytecode of a module."""
    folder, name = os.path.split(path)
    tag = os.fsencode(f".{sys.implementation.cache_tag}.pyc")
    return os.path.join(folder, b"__pycache__", name[: -len(b".py")] + tag)


def bytecode(path: bytes, name: str, checked: bool) -> bytes:
    """Return the bytecode of a module; nothing if it is no Python: as compileall, this leaves such files alone."""
    try:
        source, stamp, digest = read(path)
        body = reusable(cache_path(path), NAMED_AT + name, {stamp, *hashed(digest)})
        if body is None:
            code = compile(source, NAMED_AT + name, "exec", dont_inherit=True, optimize=0)
            body = marshalled(code)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return b""
    return importlib.util.MAGIC_NUMBER + (stamp if checked else b"\1\0\0\0" + digest) + body


def read(path: bytes) -> tuple[bytes, bytes, bytes]:
    """Return a source, what its bytecode begins with if Python compares times, and its hash."""
    with open(path, "rb", buffering=0) as stream:
        source = stream.read()
        status = os.fstat(stream.fileno())
    times = (int(status.st_mtime) & 0xFFFFFFFF).to_bytes(4, "little")
    stamp = b"\0\0\0\0" + times + (len(source) & 0xFFFFFFFF).to_bytes(4, "little")
    return source, stamp, importlib.util.source_hash(source)


def hashed(digest: bytes) -> set[bytes]:
    """Return what bytecode begins with that names the source by its hash: not compared at an import, or compared."""
    return {b"\1\0\0\0" + digest, b"\3\0\0\0" + digest}


def reusable(cached: bytes, name: str, stamps: set[bytes]) -> bytes | None:
    """Return the code in a file that this script wrote for this very source, else None."""
    try:
        with open(cached, "rb", buffering=0) as stream:
            content = stream.read()
    except OSError:
        return None
    if content[:4] != importlib.util.MAGIC_NUMBER or content[4:16] not in stamps:
        return None
    raw = name.encode("utf-8", "surrogatepass")
    length = bytes([len(raw)]) if len(raw) < 256 and raw.isascii() else len(raw).to_bytes(4, "little")
    return content[16:] if length + raw in content else None


def marshalled(code: types.CodeType) -> bytes:
    """Return the code as bytes that are the same in every process.

    marshal marks an object for later reference where more than one reference to it is alive, and the
    names in code are shared with whatever the process holds. Held here once more, all are marked.
    """
    code = with_equal_sets_shared(code, {})
    held: list[object] = []
    hold(code, held)
    return marshal.dumps(code)


def with_equal_sets_shared(code: types.CodeType, known: dict[str, frozenset[object]]) -> types.CodeType:
    """Return the code with equal frozensets as one object.

    The compiler shares equal constants, but makes a set anew where a string in it was interned by
    earlier work of the process (Objects/codeobject.c, intern_constants).
    """
    consts: list[object] = []
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            consts.append(with_equal_sets_shared(const, known))
        elif isinstance(const, frozenset):
            items = sorted(const, key=lambda item: (type(item).__name__, repr(item)))
            key = repr([(type(item).__name__, item) for item in items])
            consts.append(known.setdefault(key, frozenset(items)))
        else:
            consts.append(const)
    same = all(new is old for new, old in zip(consts, code.co_consts, strict=True))
    return code if same else code.replace(co_consts=tuple(consts))


def hold(const: object, held: list[object]) -> None:
    """Add every name and constant of code, also those of code within it."""
    if isinstance(const, types.CodeType):
        held += (const.co_filename, const.co_name, getattr(const, "co_qualname", None))
        for names in (const.co_names, const.co_varnames, const.co_freevars, const.co_cellvars):
            held.extend(names)
        hold(const.co_consts, held)
    elif isinstance(const, (tuple, frozenset)):
        for item in const:
            if isinstance(item, (types.CodeType, tuple, frozenset)):
                hold(item, held)
            held.append(item)


def put(path: bytes, content: bytes) -> None:
    """Write one file beside its module, whole or not at all."""
    try:
        with open(path, "rb") as stream:
            if stream.read() == content:
                return
    except OSError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    part = path + b".%d.uenvtool-part" % os.getpid()
    try:
        with open(part, "wb") as stream:
            stream.write(content)
        os.replace(part, path)
    except BaseException:
        if os.path.exists(part):
            os.unlink(part)
        raise


main(*sys.argv[1:])

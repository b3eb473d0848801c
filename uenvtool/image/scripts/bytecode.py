"""Compiles the bytecode of many modules. Runs in the Python that will import them.

    python bytecode.py ROOT LIST [DATA]

LIST is a file of paths relative to ROOT, each terminated by NUL. Without DATA, ordinary bytecode is written next to the
modules. With DATA, all bytecode is written to that file, as `unchecked-hash` bytecode (PEP 552). The script prints the
bytecode tag of this Python, and the length of each module's bytecode (0 if it does not compile). It reuses bytecode
that it wrote before if the source is unchanged.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import sys
import types
import warnings

NAMED_AT = "/user-tools/"
"""The directory in the bytecode of every module. Python replaces it by the real one when it loads a module from another
directory. Bytecode with this name was written by this script."""
CHARACTERS = [sys.intern(chr(code)) for code in range(256)]
"""Python has one object per character, and marshal records whether it is interned. This interns all of them."""


def main(root: str, list_path: str, data: str = "") -> None:
    """Compile the modules of the list."""
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 5000))
    with open(list_path, "rb") as stream:
        names = stream.read().split(b"\0")[:-1]
    lengths = []
    with open(data or os.devnull, "wb") as gathered:
        for name in names:
            path = os.path.join(os.fsencode(root), name)
            cached = cache_path(path)
            content = bytecode(path, os.fsdecode(name), checked=not data)
            lengths.append(len(content))
            if data:
                gathered.write(content)
            elif content:
                put(cached, content)
    sys.stdout.write(" ".join([str(sys.implementation.cache_tag), *map(str, lengths)]) + "\n")


def cache_path(path: bytes) -> bytes:
    """Return the path of a module's bytecode."""
    directory, name = os.path.split(path)
    tag = os.fsencode(f".{sys.implementation.cache_tag}.pyc")
    return os.path.join(directory, b"__pycache__", name[: -len(b".py")] + tag)


def bytecode(path: bytes, name: str, checked: bool) -> bytes:
    """Return the bytecode of a module, or b"" if it does not compile, as compileall skips such files."""
    try:
        source, stamp, digest = read(path)
        hashed = (b"\1\0\0\0" + digest, b"\3\0\0\0" + digest)  # unchecked, and checked at each import
        body = reusable(cache_path(path), NAMED_AT + name, {stamp, *hashed})
        if body is None:
            code = compile(source, NAMED_AT + name, "exec", dont_inherit=True, optimize=0)
            body = marshalled(code)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return b""
    return importlib.util.MAGIC_NUMBER + (stamp if checked else hashed[0]) + body


def read(path: bytes) -> tuple[bytes, bytes, bytes]:
    """Return a module's source, its timestamp-based bytecode header, and the hash of its source."""
    with open(path, "rb", buffering=0) as stream:
        source = stream.read()
        status = os.fstat(stream.fileno())
    times = (int(status.st_mtime) & 0xFFFFFFFF).to_bytes(4, "little")
    stamp = b"\0\0\0\0" + times + (len(source) & 0xFFFFFFFF).to_bytes(4, "little")
    return source, stamp, importlib.util.source_hash(source)


def reusable(cached: bytes, name: str, stamps: set[bytes]) -> bytes | None:
    """Return the code in a bytecode file if this script wrote it for the same source, otherwise None."""
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

    marshal flags each object with more than one reference (FLAG_REF), and other parts of the process may refer to the
    names in the code. An additional reference to each object makes marshal flag all of them.
    """
    code = with_equal_sets_shared(code, {})
    held: list[object] = []
    hold(code, held)
    return marshal.dumps(code)


def with_equal_sets_shared(code: types.CodeType, known: dict[str, frozenset[object]]) -> types.CodeType:
    """Return the code with equal frozensets as one object.

    The compiler shares equal constants, but copies a set if a string in it was interned earlier in the process
    (Objects/codeobject.c, intern_constants).
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
    """Add references to every name and constant of the code, including nested code."""
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
    """Write a bytecode file atomically."""
    try:
        with open(path, "rb") as stream:
            if stream.read() == content:
                return
    except OSError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    part = os.path.join(os.path.dirname(path), b".%d.uenvtool-part" % os.getpid())
    try:
        with open(part, "wb") as stream:
            stream.write(content)
        os.replace(part, path)
    except BaseException:
        if os.path.exists(part):
            os.unlink(part)
        raise


main(*sys.argv[1:])

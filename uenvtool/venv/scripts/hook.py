"""Puts this overlay's packages before its base's, and those before everything else.

Written by `uenvtool venv`; imported at every start by zzz_uenvtool_overlay.pth, which Python reads
after the PYTHONPATH of the environment is in place. pyvenv.cfg names the base's folders. Afterwards
sys.path is: the standard library, this overlay, the base, the rest.
"""

import os
import sys


def settings() -> dict[str, str]:
    """Return the lines of pyvenv.cfg that are ours."""
    found = {}
    with open(os.path.join(sys.prefix, "pyvenv.cfg"), encoding="utf-8", errors="surrogateescape") as stream:
        for line in stream:
            if line.startswith("uenvtool-"):
                key, _, value = line.partition("=")
                found[key.strip()] = value.strip()
    return found


def parts(path: list[str], here: str) -> tuple[list[str], list[str], list[str]]:
    """sys.path in three: the standard library, what this overlay added, and the rest."""
    stdlib = os.path.dirname(os.__file__)
    zipped = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    standard: list[str] = []
    own, rest = [here], []
    for entry in path:
        if entry == stdlib or os.path.basename(entry) in ("lib-dynload", zipped):
            standard.append(entry)
        elif entry == here:
            pass
        elif standard:  # what site adds comes behind the standard library
            own.append(entry)
        else:
            rest.append(entry)
    return standard, own, rest


def order() -> None:
    """Reorder sys.path once."""
    before = list(sys.path)
    if any("pip-build-env-" in entry for entry in before):
        return  # pip builds a package in isolation, from this environment's Python but not its packages
    here = os.path.dirname(os.path.abspath(__file__))
    found = settings()
    if os.environ.pop("UENVTOOL_PYTHONHOME", ""):
        os.environ.pop("PYTHONHOME", None)  # bin/python set it, for this Python alone
    recorded = [folder for folder in found.get("uenvtool-base", "").split(os.pathsep) if folder]
    load = found.get("uenvtool-load", "")
    mount, known = found.get("uenvtool-base-mount", ""), found.get("uenvtool-base-listing", "")
    base, others = mounted_now(recorded, mount, known)
    if others:
        say_once(f"another base than this overlay's is mounted at {others[0]}: load the one that it was made on")
        refuse_unless_wanted(f"{load and load + '; or '}make the overlay again on this one: {again('--update')}")
    moved = dict(zip(recorded, base, strict=True))
    present = [folder for folder in base if os.path.isdir(folder)]
    if len(present) < len(base) and (not known or listing(base) != known):
        gone = next(folder for folder in base if folder not in present)
        way = f"load it first: {load}" if load else f"make it again on a Python that is here: {again('--base PYTHON')}"
        refuse_unless_wanted(f"the base of this overlay is not here: {gone}; {way}")
    elif known and not mount and listing(base) != known:
        say_once(f"its base has other packages than when this overlay was made; look at it: uenvtool venv {sys.prefix}")
    standard, own, rest = parts(before, here)
    editables_first()
    first = standard + own + [folder for folder in present if folder not in own]
    sys.path[:] = first + [entry for entry in rest if entry not in first]
    sites = found.get("uenvtool-base-site", "").split(os.pathsep)
    run_pth_files([moved.get(folder, folder) for folder in sites], present, len(first))


def mounted_now(base: list[str], mount: str, known: str) -> tuple[list[str], list[str]]:
    """Return the base's folders where its uenv is mounted now: as recorded, else where another mount has the same base.

    If none has it: the recorded folders, and the mounts of uenvs with other packages at the same places.
    """
    if not mount:
        return base, []
    others = []
    mounts = [item.rpartition(":")[2] for item in os.environ.get("UENV_MOUNT_LIST", "").split(",")]
    for other in dict.fromkeys([mount, *filter(None, mounts)]):
        folders = [other + folder[len(mount) :] if folder.startswith(mount + "/") else folder for folder in base]
        if all(map(os.path.isdir, folders)):
            if listing(folders) == known:
                return folders, []
            others.append(other)
    return base, others


def refuse_unless_wanted(text: str) -> None:
    """End Python without its base or on another one: the overlay's packages were chosen and compiled for its own."""
    if not os.environ.get("UENVTOOL_ANY_BASE"):
        say_once(f"{text}; UENVTOOL_ANY_BASE=1 starts it all the same")
        os._exit(1)  # an exception would be a fatal error of site, with a traceback


def again(option: str) -> str:
    """Return the command that makes this overlay again."""
    image = own_image()
    words = f"{image.rpartition('.')[0]} {option} --squash {image}" if image else f"{sys.prefix} {option}"
    return f"uenvtool venv {words}"


def own_image() -> str:
    """Return the image that this overlay is mounted from; empty for a loose one. A mount cannot be written."""
    items = (item.rpartition(":") for item in os.environ.get("UENV_MOUNT_LIST", "").split(","))
    return next((image for image, _, mount in items if mount == sys.prefix), "")


def listing(folders: list[str]) -> str:
    """Return a short sum of which distributions lie in which folder, by their names alone: none in one that is gone."""
    import zlib

    suffixes = (".dist-info", ".egg-info")
    present = [os.listdir(folder) if os.path.isdir(folder) else [] for folder in folders]
    names = [sorted(name for name in found if name.endswith(suffixes)) for found in present]
    return f"{zlib.crc32(repr(names).encode('utf-8', 'surrogateescape')):08x}"


def say_once(text: str) -> None:
    """Print a line on the first rank, and not again in what this Python starts."""
    if os.environ.get("SLURM_PROCID", "0") == "0" and os.environ.get("UENVTOOL_SAID") != text:
        os.environ["UENVTOOL_SAID"] = text
        sys.stderr.write(f"uenvtool: {text}\n")


def say_if_older() -> None:
    """Say that this image is older than the overlay beside it."""
    image = own_image()
    packed = text_of(os.path.join(sys.prefix, "meta", "extra", "uenvtool.json")) if image else b""
    folder, name = os.path.split(image.rpartition(".")[0])
    for beside in (os.path.join(folder, name), os.path.join(folder, "." + name)):
        loose = text_of(os.path.join(beside, ".uenvtool", "uenvtool.json")) if packed else b""
        if loose and loose != packed:
            say_once(f"{image} is older than {beside}; pack it again with: uenvtool venv {beside} --squash {image}")


def text_of(path: str) -> bytes:
    """Return a file's content; nothing if it cannot be read."""
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError:
        return b""


def editables_first() -> None:
    """Let the finders of this overlay's editable installs answer before the folders on sys.path."""
    ours = [finder for finder in sys.meta_path if getattr(finder, "__module__", "").startswith("__editable__")]
    if ours:
        places = [i for i, finder in enumerate(sys.meta_path) if getattr(finder, "__name__", "") == "PathFinder"]
        others = [finder for finder in sys.meta_path if finder not in ours]
        at = places[0] if places else len(others)
        sys.meta_path[:] = others[:at] + ours + others[at:]


def run_pth_files(sites: list[str], present: list[str], length: int) -> None:
    """Process the base's own .pth files as its Python would; what they add stands behind the base."""
    import site

    known = {os.path.normcase(os.path.abspath(entry)) for entry in sys.path}
    behind = sys.path[length:]
    del sys.path[length:]
    try:
        for folder in sites:
            if folder in present:
                site.addsitedir(folder, known)
    finally:
        sys.path.extend(entry for entry in behind if entry not in sys.path)


try:
    order()
    say_if_older()
except Exception as problem:  # never keep Python from starting
    sys.stderr.write(f"uenvtool: this overlay could not put itself first: {problem!r}\n")

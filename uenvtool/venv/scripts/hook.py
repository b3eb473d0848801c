"""Orders sys.path: the standard library, this overlay's packages, the base's packages, and the rest.

`uenvtool venv` writes this file. zzz_uenvtool_overlay.pth imports it at every start, after Python has added PYTHONPATH
to sys.path. pyvenv.cfg lists the base's package directories.
"""

import os
import sys


def settings() -> dict[str, str]:
    """Return uenvtool's settings in pyvenv.cfg."""
    values = {}
    with open(os.path.join(sys.prefix, "pyvenv.cfg"), encoding="utf-8", errors="surrogateescape") as stream:
        for line in stream:
            if line.startswith("uenvtool-"):
                key, _, value = line.partition("=")
                values[key.strip()] = value.strip()
    return values


def parts(path: list[str], site: str) -> tuple[list[str], list[str], list[str]]:
    """Return the entries of sys.path in three lists: the standard library, the overlay's entries, and the rest."""
    stdlib = os.path.dirname(os.__file__)
    zipped = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    standard: list[str] = []
    added, rest = [site], []
    for entry in path:
        if entry == stdlib or os.path.basename(entry) in ("lib-dynload", zipped):
            standard.append(entry)
        elif entry == site:
            pass
        elif standard:  # the module site adds entries after the standard library
            added.append(entry)
        else:
            rest.append(entry)
    return standard, added, rest


def order() -> None:
    """Reorder sys.path. Exit if the base was not found or is not the recorded base."""
    original = list(sys.path)
    if any("pip-build-env-" in entry for entry in original):
        return  # pip's isolated build uses this environment's Python but not its packages
    site = os.path.dirname(os.path.abspath(__file__))
    values = settings()
    if os.environ.pop("UENVTOOL_PYTHONHOME", ""):
        os.environ.pop("PYTHONHOME", None)  # bin/python sets it only for this Python process
    recorded = [directory for directory in values.get("uenvtool-base", "").split(os.pathsep) if directory]
    load = values.get("uenvtool-load", "")
    mount, recorded_listing = values.get("uenvtool-base-mount", ""), values.get("uenvtool-base-listing", "")
    base, other_mounts = mounted_now(recorded, mount, recorded_listing)
    if other_mounts:
        print_once(f"the uenv mounted at {other_mounts[0]} is not the base that this overlay was made on")
        remake = f"make the overlay again on this base: {command_to_make_again('--update')}"
        exit_unless_allowed(f"load the overlay's base: {load}; or {remake}" if load else remake)
    moved = dict(zip(recorded, base, strict=True))
    existing = [directory for directory in base if os.path.isdir(directory)]
    if len(existing) < len(base) and (not recorded_listing or listing(base) != recorded_listing):
        missing = next(directory for directory in base if directory not in existing)
        remake = f"recreate the overlay with another Python: {command_to_make_again('--base PYTHON')}"
        advice = f"load it first: {load}" if load else remake
        exit_unless_allowed(f"the base of this overlay was not found: {missing}; {advice}")
    elif recorded_listing and not mount and listing(base) != recorded_listing:
        print_once(
            "the packages of the base have changed since this overlay was made; "
            f"update the overlay with: uenvtool venv {sys.prefix}"
        )
    standard, added, rest = parts(original, site)
    editables_first()
    first = standard + added + [directory for directory in existing if directory not in added]
    sys.path[:] = first + [entry for entry in rest if entry not in first]
    sites = values.get("uenvtool-base-site", "").split(os.pathsep)
    run_pth_files([moved.get(directory, directory) for directory in sites], existing, len(first))


def mounted_now(base: list[str], mount: str, recorded_listing: str) -> tuple[list[str], list[str]]:
    """Return the base's directories at the mount point where its uenv is mounted now.

    If no mounted uenv is the base, return the recorded directories and the mount points of uenvs that have the same
    directories with other packages.
    """
    if not mount:
        return base, []
    other_mounts = []
    mounts = [item.rpartition(":")[2] for item in os.environ.get("UENV_MOUNT_LIST", "").split(",")]
    for candidate in dict.fromkeys([mount, *filter(None, mounts)]):
        directories = [
            candidate + directory[len(mount) :] if directory.startswith(mount + "/") else directory
            for directory in base
        ]
        if all(map(os.path.isdir, directories)):
            if listing(directories) == recorded_listing:
                return directories, []
            other_mounts.append(candidate)
    return base, other_mounts


def exit_unless_allowed(text: str) -> None:
    """Exit unless UENVTOOL_ANY_BASE is set, because the overlay's packages were resolved and compiled for its base."""
    if not os.environ.get("UENVTOOL_ANY_BASE"):
        print_once(f"{text}; to start Python anyway, set UENVTOOL_ANY_BASE=1")
        os._exit(1)  # an exception would cause a fatal error in the module site, with a traceback


def command_to_make_again(option: str) -> str:
    """Return the command that makes this overlay again with an option."""
    image = own_image()
    arguments = f"{image.rpartition('.')[0]} {option} --squash {image}" if image else f"{sys.prefix} {option}"
    return f"uenvtool venv {arguments}"


def own_image() -> str:
    """Return the image that this overlay is mounted from, or an empty string if it is not packed."""
    items = (item.rpartition(":") for item in os.environ.get("UENV_MOUNT_LIST", "").split(","))
    return next((image for image, _, mount in items if mount == sys.prefix), "")


def listing(directories: list[str]) -> str:
    """Return a checksum of the distribution names in each directory; a missing directory counts as empty."""
    import zlib

    suffixes = (".dist-info", ".egg-info")
    contents = [os.listdir(directory) if os.path.isdir(directory) else [] for directory in directories]
    names = [sorted(name for name in entries if name.endswith(suffixes)) for entries in contents]
    return f"{zlib.crc32(repr(names).encode('utf-8', 'surrogateescape')):08x}"


def print_once(text: str) -> None:
    """Print a line on the first rank only, and once for this process and its child processes."""
    if os.environ.get("SLURM_PROCID", "0") == "0" and os.environ.get("UENVTOOL_SAID") != text:
        os.environ["UENVTOOL_SAID"] = text
        sys.stderr.write(f"uenvtool: {text}\n")


def warn_if_older() -> None:
    """Print a warning if the mounted image is older than the overlay next to it."""
    image = own_image()
    packed = text_of(os.path.join(sys.prefix, "meta", "extra", "uenvtool.json")) if image else b""
    directory, name = os.path.split(image.rpartition(".")[0])
    for candidate in (os.path.join(directory, name), os.path.join(directory, "." + name)):
        unpacked = text_of(os.path.join(candidate, ".uenvtool", "uenvtool.json")) if packed else b""
        if unpacked and unpacked != packed:
            print_once(
                f"{image} is older than {candidate}; pack it again with: uenvtool venv {candidate} --squash {image}"
            )


def text_of(path: str) -> bytes:
    """Return the content of a file, or an empty string if the file cannot be read."""
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError:
        return b""


def editables_first() -> None:
    """Move the import finders of this overlay's editable installs before the finder for sys.path."""
    own_finders = [finder for finder in sys.meta_path if getattr(finder, "__module__", "").startswith("__editable__")]
    if own_finders:
        positions = [i for i, finder in enumerate(sys.meta_path) if getattr(finder, "__name__", "") == "PathFinder"]
        others = [finder for finder in sys.meta_path if finder not in own_finders]
        position = positions[0] if positions else len(others)
        sys.meta_path[:] = others[:position] + own_finders + others[position:]


def run_pth_files(sites: list[str], existing: list[str], length: int) -> None:
    """Process the base's .pth files as its Python would, and put the entries that they add after the base."""
    import site

    known_paths = {os.path.normcase(os.path.abspath(entry)) for entry in sys.path}
    following = sys.path[length:]
    del sys.path[length:]
    try:
        for directory in sites:
            if directory in existing:
                site.addsitedir(directory, known_paths)
    finally:
        sys.path.extend(entry for entry in following if entry not in sys.path)


try:
    order()
    warn_if_older()
except Exception as problem:  # never keep Python from starting
    sys.stderr.write(f"uenvtool: this overlay could not be put first on sys.path: {problem!r}\n")

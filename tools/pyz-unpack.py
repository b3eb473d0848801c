"""Unpacks uenvtool from its single file into an environment, and starts it. Python 2 and 3.6 must be able to read
it."""

import os
import platform
import shutil
import sys
import tempfile
import zipfile

NEEDED = "uenvtool: needs Python 3.10 to 3.14, not %d.%d; run the file itself, which searches for a newer Python\n"
if not (3, 10) <= sys.version_info[:2] <= (3, 14):
    sys.stderr.write(NEEDED % sys.version_info[:2])
    sys.exit(3)
FILE = os.path.abspath(sys.argv[0])


def fits(wheel):
    """Return whether the name of a wheel shows that it is for this Python and machine (PEP 427)."""
    python, _, system = wheel[: -len(".whl")].split("-")[-3:]
    machine = system == "any" or platform.machine() in system
    return machine and (python.startswith(("py2.", "py3")) or python == "cp%d%d" % sys.version_info[:2])


def unpack(archive, folder):
    """Create the environment as `python -m venv` does, with the same program as an installation."""
    site = os.path.join(folder, "lib", "python%d.%d" % sys.version_info[:2], "site-packages")
    os.makedirs(os.path.join(folder, "bin"))
    os.symlink(os.path.realpath(sys.executable), os.path.join(folder, "bin", "python"))
    home = os.path.dirname(os.path.realpath(sys.executable))
    with open(os.path.join(folder, "pyvenv.cfg"), "w") as config:
        config.write("home = %s\ninclude-system-site-packages = false\n" % home)
    for name in archive.namelist():
        if not name.endswith(".whl") or not fits(name):
            continue
        with archive.open(name) as stream, zipfile.ZipFile(stream) as wheel:
            for entry in wheel.infolist():
                _, is_script, script = entry.filename.partition(".data/scripts/")  # such as uv
                path = os.path.join(folder, "bin", script) if is_script else os.path.join(site, entry.filename)
                if not entry.is_dir():
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with wheel.open(entry) as source, open(path, "wb") as target:
                        shutil.copyfileobj(source, target)
                    os.chmod(path, 0o755 if is_script else 0o644)
    with open(os.path.join(folder, "bin", "uenvtool"), "w") as start:
        start.write("from uenvtool.__main__ import main\n\nmain()\n")


def places():
    """Yield the directories to try: UENVTOOL_PYZ or else the cache, and then memory."""
    home = os.path.expanduser("~")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    yield os.environ.get("UENVTOOL_PYZ") or os.path.join(cache, "uenvtool-pyz")
    yield "/dev/shm/uenvtool-pyz-%s" % os.environ.get("USER", "")


def made(archive, identity):
    """Return the unpacked environment. If several processes start at the same time, a rename publishes only one."""
    problems = []
    for place in places():
        folder = os.path.join(place, "%s-%s" % (identity, platform.machine()))
        try:
            os.makedirs(place, mode=0o700, exist_ok=True)
            owner = os.lstat if place.startswith("/dev/shm/") else os.stat  # another user could change a link later
            if owner(place).st_uid != os.getuid():
                raise OSError("belongs to another user")
            if os.statvfs(place).f_flag & os.ST_NOEXEC:
                raise OSError("mounted with noexec, so libraries cannot be loaded")
            if os.access(os.path.join(folder, "bin", "python"), os.X_OK):
                return folder
            new = tempfile.mkdtemp(dir=place)
            try:
                unpack(archive, os.path.join(new, "new"))
                if not os.access(os.path.join(folder, "bin", "python"), os.X_OK):
                    if os.path.isdir(folder):
                        os.rename(folder, os.path.join(new, "old"))  # its Python no longer exists
                    os.rename(os.path.join(new, "new"), folder)
            finally:
                shutil.rmtree(new, ignore_errors=True)
            return folder
        except OSError as error:
            problems.append("%s: %s" % (place, error.strerror or error))
    tried = "; ".join(problems)
    sys.stderr.write("uenvtool: cannot unpack: %s; set UENVTOOL_PYZ to a directory that you can write to\n" % tried)
    sys.exit(4)


with zipfile.ZipFile(FILE) as opened:
    place = made(opened, opened.read("id").decode())
program = os.path.join(place, "bin", "python")
os.execv(program, [program, os.path.join(place, "bin", "uenvtool"), *sys.argv[1:]])

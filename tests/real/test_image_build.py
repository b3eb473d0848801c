"""Test an image that real Spack built: mounted by the kernel, loaded by the real uenv client and its Slurm plugin, as
the base of an overlay, and as the upstream of a user's own Spack."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support import peers
from tests.support.image_builds import MARKS, UENVTOOL, build_words, spack_variables, store_of_hello
from tests.support.installed import installed_hello
from tests.support.kills import FROM_HERE
from tests.support.needs import skip_without
from tests.support.samples import sampled
from tests.support.slurm import running_slurm

pytestmark = [*MARKS, pytest.mark.xdist_group("slurm")]
LOOK = (
    "import json, sys, jinja2, markupsafe._speedups as c; print(json.dumps([sys.prefix, jinja2.__file__, c.__file__]))"
)
MOUNT = "/user-environment"
OF_AN_INDEX = ("pip_", "uv_", "ssl_", "http_proxy", "https_proxy", "no_proxy")
"""The prefixes of variables that configure an index."""


@pytest.fixture
def image(place: Path, cli: Cli) -> Path:
    """Returns the image of `hello`."""
    store_of_hello(place / "store")
    answer = cli(*build_words("--store", place / "store", "-o", "hello.squashfs"))
    assert answer.code == 0, answer.stderr
    return place / "hello.squashfs"


def client_environ(**more: str) -> dict[str, str]:
    """Return the variables of a shell with the real uenv client on PATH."""
    return {"PATH": f"{peers.uenv_programs()}:{os.environ['PATH']}", "HOME": os.environ["HOME"], **more}


def run_loaded(images: str, view: str, *words: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command with images that the uenv client loads."""
    command = ["uenv", "run", images, f"--view={view}", "--", *map(str, words)]
    return subprocess.run(command, env=client_environ(**more), capture_output=True, text=True, check=False)


def loaded(images: str, view: str, *words: str | Path, **more: str) -> str:
    """Return the output of a command with images that the uenv client loads."""
    done = run_loaded(images, view, *words, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def own_spack(image: str, views: str, place: Path) -> Callable[..., str]:
    """Return a function that runs the user's own Spack with a loaded image and returns its output."""
    scope = place / "scope"
    scope.mkdir()
    repository = peers.PACKAGES.need() / "repos" / "spack_repo" / "builtin"
    (scope / "repos.yaml").write_text(json.dumps({"repos": {"builtin": str(repository)}}))
    (scope / "config.yaml").write_text(json.dumps({"config": {"install_tree": {"root": str(place / "own")}}}))
    spack = peers.SPACK.need() / "bin" / "spack"
    variables = {**spack_variables(), "SPACK_DISABLE_LOCAL_CONFIG": "1"}

    def run(*words: str) -> str:
        script = '"$0" --color never -C "$UENV_SPACK_CONFIG_PATH" -C "$@"'
        return loaded(image, views, "bash", "-c", script, spack, scope, *words, **variables)

    return run


def test_the_uenv_client_loads_it_with_its_view(image: Path) -> None:
    before = os.listdir(MOUNT)

    def told(*words: str) -> str:
        return loaded(str(image), "default", *words).strip()

    assert told("pigz", "--version") == "pigz 2.8"
    assert all(path.startswith(f"{MOUNT}/env/default") for path in json.loads(told("python", "-c", LOOK)))
    assert told("bash", "-c", "echo $PATH").startswith(f"{MOUNT}/env/default/bin:")
    assert "hello" in json.loads(told("cat", f"{MOUNT}/meta/env.json"))["name"]
    lock = (installed_hello().environment / "spack.lock").read_text().strip()
    assert told("cat", f"{MOUNT}/meta/recipe/spack.lock") == lock
    assert os.listdir(MOUNT) == before


def test_the_kernel_mounts_it_and_its_programs_run(image: Path) -> None:
    if os.geteuid() != 0:
        skip_without("root that may mount", "run the tests as root")
    view = f"{MOUNT}/env/default/bin"
    script = 'mount -t squashfs -o loop,ro "$0" "$1" && "$2"/pigz --version && "$2"/python -c "$3"'
    words = ["unshare", "--mount", "sh", "-ec", script, image, MOUNT, view, LOOK]

    done = subprocess.run(words, env={"PATH": "/usr/bin:/bin:/sbin"}, capture_output=True, text=True, check=False)

    if "failed to setup loop device" in done.stderr:
        skip_without("a loop device", "run the tests outside of a restricted container")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("pigz 2.8")


def test_the_slurm_plugin_loads_it_in_a_job(image: Path, place: Path) -> None:
    plugin = peers.uenv_plugin()
    (place / "slurm").mkdir()
    options = (f"--uenv={image}", "--view=default")

    with running_slurm(place / "slurm", plugin=plugin) as slurm:
        program = slurm.run("srun", *options, "pigz", "--version", env=client_environ())
        python = slurm.run("srun", *options, "python", "-c", LOOK, env=client_environ())

    assert program.stdout.strip() == "pigz 2.8", program.stderr
    assert all(path.startswith(f"{MOUNT}/env/default") for path in json.loads(python.stdout)), python.stderr


def test_what_a_script_of_the_users_adds_is_loaded_with_the_view(image: Path, place: Path, cli: Cli) -> None:
    script = place / "setup.sh"
    script.write_text(
        '#!/bin/sh\nmkdir bin\nln -s "$UENV_VIEW/bin/pigz" bin/mine\n"$UENV_VIEW/bin/python" -V > version\n'
    )
    (place / "tests.yaml").write_text("features: [python]\n")
    more = ("--post-install", script, "--meta", place / "tests.yaml")

    built = cli(*build_words("--store", place / "store", "-o", "with.squashfs", *more))
    again = cli(*build_words("--store", place / "store", "-o", "without.squashfs"))

    assert (built.code, again.code) == (0, 0), built.stderr + again.stderr
    found = loaded(str(place / "with.squashfs"), "default", "bash", "-c", "command -v mine; mine --version")
    assert found.splitlines() == [f"{MOUNT}/local/bin/mine", "pigz 2.8"]
    assert loaded(str(place / "with.squashfs"), "default", "cat", f"{MOUNT}/local/version").startswith("Python 3.")
    assert "python" in loaded(str(place / "with.squashfs"), "default", "cat", f"{MOUNT}/meta/extra/tests.yaml")
    assert cli("image", "verify", place / "with.squashfs").code == 0
    assert (place / "without.squashfs").read_bytes() == image.read_bytes()


def image_with_modules(place: Path, cli: Cli, kind: str, name: str) -> Path:
    """Build the image of `hello` with one kind of module files, from the store of an earlier run."""
    shutil.copytree(installed_hello().environment, place / f"environment-{name}")
    store_of_hello(place / name)
    core = ", core_compilers: [none@1]" if kind == "lmod" else ""
    (place / f"environment-{name}" / "modules.yaml").write_text(
        f"modules: {{prefix_inspections: {{bin: [ALSO]}}, default: {{roots: {{{kind}: /elsewhere}}, "
        f"{kind}: {{exclude_implicits: true, hash_length: 0{core}, projections: {{all: '{{name}}/{{version}}'}}}}}}}}\n"
    )
    words = build_words("--store", place / name, "-o", f"{name}.squashfs")
    built = cli(*words[:2], place / f"environment-{name}", *words[3:])
    assert built.code == 0, built.stderr
    return place / f"{name}.squashfs"


@pytest.mark.parametrize(("kind", "file"), sampled([("tcl", "pigz/2.8"), ("lmod", "gcc/[^/]+/pigz/2.8.lua")]))
def test_module_files_are_those_of_the_lock_and_name_the_packages_of_the_image(
    place: Path, cli: Cli, kind: str, file: str
) -> None:
    one, two = (image_with_modules(place, cli, kind, name) for name in ("one", "two"))

    assert one.read_bytes() == two.read_bytes()
    image = str(one)
    listed = loaded(image, "default", "find", f"{MOUNT}/modules", "-type", "f").split()
    path = next(name for name in listed if re.fullmatch(f"{MOUNT}/modules/{file}", name))
    text = loaded(image, "default", "cat", path)
    assert f"{MOUNT}/linux-" in text
    assert "ALSO" in text
    assert loaded(image, "modules", "printenv", "MODULEPATH").startswith(f"{MOUNT}/modules")
    meta = json.loads(loaded(image, "default", "cat", f"{MOUNT}/meta/env.json"))
    assert meta["modules"] == {"root": f"{MOUNT}/modules"}
    assert cli("image", "verify", image).code == 0


def test_environment_modules_load_a_package_by_its_module_file(place: Path, cli: Cli) -> None:
    program = next(iter(sorted(Path("/usr/lib").glob("*/modulecmd.tcl"))), None)
    if program is None:
        skip_without("Environment Modules", "apt-get install environment-modules")
    image = image_with_modules(place, cli, "tcl", "one")

    script = f'eval "$(tclsh {program} bash load pigz/2.8)" && command -v pigz && pigz --version'
    found = loaded(str(image), "modules", "bash", "-c", script).splitlines()

    assert found[0].startswith(f"{MOUNT}/linux-")
    assert found[1:] == ["pigz 2.8"]


def test_a_packed_overlay_lies_on_it_and_both_load_together(image: Path, place: Path) -> None:
    """The overlay contains einops from the index."""
    index = {name: value for name, value in os.environ.items() if name.lower().startswith(OF_AN_INDEX)}
    script = place / "uenvtool"
    script.write_text(FROM_HERE)

    made = run_loaded(str(image), "default", UENVTOOL[0], script, "venv", place / "mine", "einops", "--squash", **index)
    if "no index has" in made.stderr or "an index does not answer" in made.stderr:
        skip_without("an index that has einops", f"set PIP_INDEX_URL ({made.stderr.splitlines()[-2]})")
    assert made.returncode == 0, made.stderr
    code = "import einops, jinja2, json; print(json.dumps([einops.__file__, jinja2.__file__]))"
    both = json.loads(loaded(f"{image},{place}/mine.squashfs", "default,mine:venv", "python", "-c", code))

    assert both[0].startswith("/user-tools/")
    assert both[1].startswith(f"{MOUNT}/env/default")


def test_a_spack_of_ones_own_uses_it_as_its_upstream(image: Path, place: Path) -> None:
    run = own_spack(str(image), "default,spack", place)

    found = run("find", "--format", "{name}@{version} {prefix}")
    planned = run("spec", "--install-status", "pigz@2.8")

    assert f"zlib-ng@2.2.2 {MOUNT}/" in found
    assert planned.startswith("[^]")  # Spack's mark of what an upstream has
    assert not any(line.lstrip().startswith("- ") for line in planned.splitlines()), planned

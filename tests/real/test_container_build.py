"""Test real builds of a Containerfile, with a C library and a program that links it, on a small base image."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support.images import Builder, Built, archive, base_image, python_image, storage
from tests.support.overlays import wheel
from uenvtool.container.image import make
from uenvtool.container.request import ContainerRequest

pytestmark = [pytest.mark.real, pytest.mark.build]

LIBRARY = {
    "shout.c": 'const char *shouted(void) { return "HELLO"; }\n',
    "shout.h": "const char *shouted(void);\n",
    "Makefile": (
        "libshout.so.1: shout.c\n"
        "\t@echo 'ran: shout'\n"
        "\tgcc -shared -fPIC -Wl,-soname,libshout.so.1 -o $@ shout.c\n"
        "install: libshout.so.1\n"
        "\tinstall -D -t $(DESTDIR)/usr/lib libshout.so.1\n"
        "\tln -sf libshout.so.1 $(DESTDIR)/usr/lib/libshout.so\n"
        "\tinstall -D -m 644 -t $(DESTDIR)/usr/include shout.h\n"
        "\tinstall -D -m 644 -t $(DESTDIR)/usr/share/doc/shout Makefile\n"
    ),
}
PROGRAM = {
    "greet.c": "#include <shout.h>\n#include <stdio.h>\nint main(void) { puts(shouted()); return 0; }\n",
    "Makefile": (
        "greet: greet.c\n"
        "\t@echo 'ran: greet'\n"
        "\tgcc -o $@ greet.c -lshout\n"
        "install: greet\n"
        "\tinstall -D -t $(DESTDIR)/usr/bin greet\n"
    ),
}
OTHER = {
    "Makefile": "all:\n\t@echo 'ran: other'\ninstall:\n\tinstall -D -m 644 -t $(DESTDIR)/usr/share/other Makefile\n",
}
COMPONENT = """\
description: The component {name}.
url: https://example.org/{name}-${{version}}.tar.gz
versions:
  1.0: {{sha256: {sha256}, source: this test}}
needs: [{needs}]
options: [{{value: "{option}", reason: only words}}]
build:
- [make, "@options@"]
- [make, install, "DESTDIR=${{out}}"]
installs: [{installs}]
check: {check}
"""
RECIPE = """\
description: A greeting.
home: clariden
base: {image: localhost/uenvtool-base, tag: 1, unpinned: it is made by this test}
name: greeting
tag: 1-alps6
image: alps
components: {greet: 1.0, other: 1.0, shout: 1.0}
"""
HOSTILE = "WORD=a'b \\\\\\\"c $(touch /hostile) `id` ; # <<EOF | && $HOME"
"""An option of make that only sets a variable, as a double-quoted YAML string."""


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    made = Builder(storage(tmp_path_factory.mktemp("buildah")))
    base_image(made)
    yield made
    made.close()


class Project:
    """A directory with components, sources and a recipe."""

    def __init__(self, folder: Path, cli: Cli) -> None:
        self.folder, self.cli, self.sources = folder, cli, folder / "sources"
        self.component("shout", LIBRARY, installs='"/usr/lib/libshout.so*"')
        self.component("greet", PROGRAM, needs="shout", installs="/usr/bin/greet", check="[[greet]]")
        self.component("other", OTHER, installs="/usr/share/other", option=HOSTILE)
        (folder / "recipes/greeting").mkdir(parents=True)
        (folder / "recipes/greeting/container.yaml").write_text(RECIPE)

    def component(
        self,
        name: str,
        files: dict[str, str],
        *,
        needs: str = "",
        installs: str,
        check: str = "[]",
        option: str = "CFLAGS=-O2",
        sha256: str = "",
    ) -> None:
        """Write a component and its sources. sha256: a wrong checksum, if any."""
        right = archive(self.sources, f"{name}-1.0", files)
        path = self.folder / f"components/{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            COMPONENT.format(
                name=name, sha256=sha256 or right, needs=needs, installs=installs, check=check, option=option
            )
        )

    def write(self) -> Path:
        """Run the command, and return the directory of the Containerfile."""
        answer = self.cli("container", "greeting", "--system", "clariden", "--force")
        assert answer.code == 0, answer.stderr
        return self.folder / "containers/greeting"

    def built(self, builder: Builder, code: int = 0) -> Built:
        """Build the output of the command, and return the result."""
        built = builder.build(self.write(), "greeting", sources=self.sources)
        assert (built.code != 0) == (code != 0), built.output
        return built


@pytest.fixture
def project(place: Path, cli: Cli) -> Project:
    return Project(place, cli)


def test_an_image_is_built_runs_and_only_what_changed_is_built_again(builder: Builder, project: Project) -> None:
    assert sorted(project.built(builder).ran) == ["greet", "other", "shout"]
    ran = builder.run("greeting", "greet")
    assert ran.stdout == "HELLO\n", ran.stderr
    words = "/ -xdev -name *shout* -o -name *greet* -o -name hostile -o -path /usr/share/other/Makefile"
    assert sorted(builder.run("greeting", "find", *words.split()).stdout.split()) == [
        "/usr/bin/greet",
        "/usr/lib/libshout.so",
        "/usr/lib/libshout.so.1",
        "/usr/share/other/Makefile",
    ], "words of a component are no shell, and nothing else of its build is there"
    assert builder.run("greeting", "find", "/usr/lib/libshout.so", "-type", "l").stdout == "/usr/lib/libshout.so\n"
    assert not os.path.exists("/hostile")

    assert project.built(builder).ran == []
    changed = {**LIBRARY, "shout.c": 'const char *shouted(void) { return "HELLO!"; }\n'}
    project.component("shout", changed, installs='"/usr/lib/libshout.so*"')
    assert sorted(project.built(builder).ran) == ["greet", "shout"], "what needs it, and nothing else"
    assert builder.run("greeting", "greet").stdout == "HELLO!\n"
    again = {**PROGRAM, "greet.c": PROGRAM["greet.c"].replace("puts(shouted());", "puts(shouted()), puts(shouted());")}
    project.component("greet", again, needs="shout", installs="/usr/bin/greet", check="[[greet]]")
    assert project.built(builder).ran == ["greet"], "what it needs stays"
    assert builder.run("greeting", "greet").stdout == "HELLO!\nHELLO!\n"


def test_a_built_image_has_its_labels_variables_and_hook(builder: Builder, project: Project) -> None:
    project.built(builder)

    settings = builder.settings("greeting")
    kept = builder.run("greeting", "env", env={"FI_PROVIDER": "tcp", "NCCL_NET_PLUGIN": "spcx"}).stdout.splitlines()

    labels = settings["Labels"]
    assert labels["uenvtool.component.shout"] == "1.0"
    assert labels["uenvtool.recipe"] == "greeting"
    assert labels["org.opencontainers.image.base.name"] == "localhost/uenvtool-base:1"
    name = make(ContainerRequest(recipe="greeting", system="clariden", tag=True)).data["canonical"]
    assert name == f"greeting:1-alps6-{labels['uenvtool.hash']}"
    assert "NCCL_NET=AWS Libfabric" in settings["Env"]
    # what the user sets stays
    assert {"FI_PROVIDER=tcp", "FI_CXI_RDZV_PROTO=alt_read", "ALPS_EXTENDED_IMAGES_ENV_SOURCED=1"} <= {*kept}
    assert not [line for line in kept if line.startswith("NCCL_NET_PLUGIN=")]
    assert builder.run("greeting", "bash", "-lc", "true").returncode == 0


@pytest.mark.parametrize(
    ("name", "files", "wrong", "says"),
    [
        (
            "shout",
            LIBRARY,
            {"installs": '"/usr/lib/libshout.so*"', "sha256": "0" * 64},
            [
                "uenvtool: shout 1.0 has another checksum than expected: https://example.org/shout-1.0.tar.gz",
                f"expected {'0' * 64}",
            ],
        ),
        (
            "other",
            OTHER,
            {"installs": "/usr/share/nothing"},
            ["uenvtool: other installs nothing at /usr/share/nothing", "./usr/share/other/Makefile"],
        ),
    ],
    ids=["a wrong checksum", "nothing where it installs"],
)
def test_what_is_wrong_with_a_component_ends_the_build_with_our_message(
    builder: Builder, project: Project, name: str, files: dict[str, str], wrong: dict[str, str], says: list[str]
) -> None:
    project.component(name, files, **wrong)

    built = project.built(builder, code=1)

    assert [part for part in says if part not in built.output] == []
    assert ("ran: shout" in built.output) == (name != "shout")


def test_packages_on_an_image_leave_its_torch(builder: Builder, place: Path, tmp_path: Path, cli: Cli) -> None:
    wheels = place / "wheels"
    wheels.mkdir()
    wheel(wheels, "metatrain", "2025.1", requires=["torch>=2.1"])
    wheel(wheels, "newer", "1.0", requires=["torch>=2.9"])
    wheel(wheels, "torch", "2.9.0")
    only_these = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/sources", "PIP_ROOT_USER_ACTION": "ignore"}
    base = python_image(builder, wheel(tmp_path, "torch", "2.8.0a0+nv25.6"), environment=only_these)
    built = {}
    for package in ("metatrain", "newer"):
        answer = cli("container", "--from", base, "--pip", package, "--name", package, "--system", "clariden")
        assert answer.code == 0, answer.stderr
        built[package] = builder.build(place / "containers" / package, package, sources=wheels)

    assert built["metatrain"].code == 0, built["metatrain"].output
    shown = builder.run("metatrain", "python3", "-c", "import metatrain, torch; print(torch.__version__)")
    assert shown.stdout == "2.8.0a0+nv25.6\n", shown.stderr
    assert built["newer"].code != 0
    assert "uenvtool: pip cannot install these packages together with the packages of the base" in built["newer"].output

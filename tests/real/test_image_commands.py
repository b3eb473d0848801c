"""Test `uenvtool image show`, `verify` and `sbom` and `uenvtool diff` with images of the real mksquashfs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.conftest import ROOT, Cli
from tests.support.needs import need, needs
from tests.support.overlays import pack_overlay
from uenvtool.image.metadata import ENV, ListUpdate, Uenv, UenvView, env_json
from uenvtool.image.verify import BUILD_FOLDERS, BuildPathScanner

pytestmark = [pytest.mark.real, pytest.mark.slow, *needs("mksquashfs")]
SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
DATA_BYTES = 1_000_000


def overlay(place: Path, version: str = "1.0") -> Path:
    """Returns a packed overlay with one package, whose RECORD lists its files."""
    folder = place / f"v{version}"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    files = {
        "My_Tool/__init__.py": "x = 1\n",
        "My_Tool/data.bin": "d" * DATA_BYTES,
        f"My_Tool-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: My_Tool\nVersion: {version}\n",
    }
    record = "".join(f"{name},,\n" for name in files) + f"My_Tool-{version}.dist-info/RECORD,,\n"
    for name, text in {**files, f"My_Tool-{version}.dist-info/RECORD": record}.items():
        (folder / SITE / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / SITE / name).write_text(text)
    return pack_overlay(folder, place / f"tool-{version}.squashfs").path


def uenv(
    place: Path,
    *,
    root: str = "/u/env/default",
    name: str = "default",
    installs: Mapping[str, object] | None = None,
    extra: Mapping[str, bytes] | None = None,
) -> Path:
    """Returns an image like Spack's, with a store and its database, a view of symbolic links, and metadata."""
    source = place / "source"
    prefix = "linux-zen/zlib-ng-2.0-" + "a" * 32
    view = UenvView(
        description="all",
        root=root,
        activate="/u/env/default/activate.sh",
        lists={"PATH": [ListUpdate(op="prepend", paths=["/u/env/default/bin", "/opt/host/bin"])]},
        scalars={"CUDA_HOME": "/opt/cuda"},
    )
    rows = {
        "a" * 32: {"spec": {"name": "zlib-ng", "version": "2.0"}, "path": f"/u/{prefix}", "installed": True},
        "b" * 32: {"spec": {"name": "gcc", "version": "13"}, "path": "/usr", "installed": True},
        **(installs or {}),
    }
    files = {
        ENV: env_json(Uenv(name="pytorch", description="", mount="/u", views={name: view})).encode(),
        ".spack-db/index.json": json.dumps({"database": {"installs": rows}}).encode(),
        f"{prefix}/lib/libz.txt": b"z" * 50_000,
        f"{prefix}/bin/tool": b"#!/bin/sh\n",
        "env/default/activate.sh": b"",
        **(extra or {}),
    }
    for name, content in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(content)
    if not (source / "env/default/bin").exists():
        (source / "env/default/bin").symlink_to(f"../../{prefix}/bin")
    image = place / "uenv.squashfs"
    subprocess.run(["mksquashfs", source, image, "-quiet", "-no-progress", "-noappend"], check=True)
    return image


def found_in(cli: Cli, verb: str, *words: str | Path) -> Any:
    """Return the JSON of `image show` or `image verify` for one image."""
    [found] = json.loads(cli("image", verb, *words, "--json").stdout)
    return found


def bill_of(cli: Cli, path: Path) -> Any:
    """Return the bill of materials of an image or a lock, after a test that it is valid and reproducible."""
    text = cli("image", "sbom", path).stdout
    assert cli("image", "sbom", path).stdout == text
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    return json.loads(text)


@pytest.fixture
def libraries(place: Path) -> dict[str, bytes]:
    """Build two libraries, of which the second needs the first."""
    need("gcc")
    (place / "code.c").write_text("int f(void) { return 1; }\n")
    build = ["gcc", "-shared", "-fPIC", "code.c", "-o"]
    more = ["-Wl,--no-as-needed", "-L.", "-linner", "-Wl,-rpath,$ORIGIN/../x"]
    subprocess.run([*build, "libinner.so"], check=True)
    subprocess.run([*build, "libouter.so", *more], check=True)
    return {name: (place / name).read_bytes() for name in ("libinner.so", "libouter.so")}


def test_an_overlay_is_shown_with_its_package_view_and_variables(place: Path, cli: Cli) -> None:
    image = overlay(place)

    found = found_in(cli, "show", image)
    text = cli("image", "show", image).stdout

    assert (found["name"], found["mount"]) == ("tool-1.0", "/user-tools")
    [package] = found["packages"]
    assert (package["name"], package["version"], package["kind"]) == ("my-tool", "1.0", "python")
    written = sum(len(text) for text in ("x = 1\n", "Metadata-Version: 2.1\nName: My_Tool\nVersion: 1.0\n"))
    compiled = 16 + 20  # the head of bytecode, which counts for its source's package, and at least some code
    assert DATA_BYTES + written + compiled < package["bytes"] < DATA_BYTES + 10_000
    assert found["bytes"] == image.stat().st_size
    assert "my-tool  1.0" in text
    assert "prepend /user-tools/bin" in text
    bill = bill_of(cli, image)
    assert [component["purl"] for component in bill["components"]] == ["pkg:pypi/my-tool@1.0"]
    assert bill["metadata"]["timestamp"].startswith("1980-01-01")


def test_a_store_of_spacks_is_shown_by_its_database(place: Path, cli: Cli) -> None:
    """A compiler that Spack built also appears as an external compiler, but counts as one package."""
    gcc = {"name": "gcc", "version": "13.4.0", "dependencies": []}
    more = {
        "c" * 32: {"spec": gcc, "path": "/u/compilers/gcc", "installed": True},
        "d" * 32: {
            "spec": {**gcc, "external": {"path": "/u/compilers/gcc"}},
            "path": "/u/compilers/gcc",
            "installed": True,
        },
    }
    image = uenv(place, name="my view", installs=more, extra={"compilers/gcc/bin/gcc": b"gcc"})

    found = found_in(cli, "show", image)
    text = cli("image", "show", image).stdout
    bill = bill_of(cli, image)

    assert [(each["name"], each["version"], each["kind"], each["bytes"]) for each in found["packages"]] == [
        ("gcc", "13.4.0", "spack", 3),
        ("zlib-ng", "2.0", "spack", 50_010),
    ]
    assert re.search(r"my view +CUDA_HOME +set /opt/cuda\n", text)
    assert found["views"]["my view"]["env"]["values"]["scalar"] == {"CUDA_HOME": "/opt/cuda"}
    assert [component["purl"] for component in bill["components"]] == [
        "pkg:generic/spack/gcc@13.4.0",
        "pkg:generic/spack/zlib-ng@2.0",
    ]
    assert bill["metadata"]["component"]["name"] == "pytorch"  # as the image says, whatever the file is called


@pytest.mark.parametrize("text", ["[]", "{", '{"database": {"installs": {"a": 5}}}', "[" * 100_000], ids=range(4))
def test_a_database_that_is_none_shows_no_package(place: Path, cli: Cli, text: str) -> None:
    assert found_in(cli, "show", uenv(place, extra={".spack-db/index.json": text.encode()}))["packages"] == []


def test_images_that_are_right_are_verified(place: Path, cli: Cli) -> None:
    answer = cli("image", "verify", overlay(place), uenv(place), "--json")

    assert answer.code == 0, answer.stdout
    assert [found["problems"] for found in json.loads(answer.stdout)] == [[], []]
    assert all(found["files"] > 3 for found in json.loads(answer.stdout))


def test_a_view_that_does_not_exist_is_wrong(place: Path, cli: Cli) -> None:
    answer = cli("image", "verify", uenv(place, root="/u/env/other"))

    assert answer.code == 1
    assert "view default: /u/env/other does not exist in the image" in answer.stderr
    assert "failed" in answer.stdout


def test_a_folder_of_the_build_that_a_file_names_is_wrong(place: Path, cli: Cli) -> None:
    """The path may also begin in one chunk of a file and end in the next."""
    text = b"/scratch/me/spack-stage-zlib/src"
    extra = {f"config/{at}": b"a" * ((1 << 20) - at) + text for at in (0, 1, 13, 20, len(text))}
    image = uenv(place, extra={**extra, "y": b"/home/me2"})

    one = found_in(cli, "verify", image, "--build-folder", "/home/me")["problems"]
    two = found_in(cli, "verify", image, "--build-folder", "/home/me2")["problems"]

    first, second = two
    assert one == [first]
    assert first == "the build directory /spack-stage- is used by config/0, config/1, config/13 and 2 more"
    assert second == "the build directory /home/me2 is used by y"


def test_where_a_file_was_built_may_be_on_record(place: Path, cli: Cli) -> None:
    folder = b"/u/.uenvtool-install/stage/spack-stage-tool-1-abc/"
    records = {
        "lib/tool-1.dist-info/direct_url.json": b'{"url": "file://' + folder + b'"}',
        "lib/libtool.a": b"!<arch>\n" + folder,
        "linux-zen/tool-1/.spack/spack-build-env.txt": folder,
        "lib/__pycache__/tool.cpython-311.pyc": folder,
    }

    image = uenv(place, extra=records)

    found = found_in(cli, "verify", image)
    told = cli("image", "verify", image)

    assert (told.code, found["problems"], set(found["build_folder_on_record"])) == (0, [], set(records))
    assert "4 files record a build directory" in told.stderr


def test_a_library_may_name_its_build_folder_in_debug_information_but_not_search_there(place: Path, cli: Cli) -> None:
    need("gcc")
    folder = place / "spack-stage-tool-1" / "src"
    folder.mkdir(parents=True)
    (folder / "code.c").write_text("int f(void) { return 1; }\n")
    build = ["gcc", "-g", "-shared", "-fPIC", str(folder / "code.c")]
    subprocess.run([*build, "-o", "recorded.so"], check=True)
    subprocess.run([*build, "-o", "searching.so", f"-Wl,-rpath,{folder}"], check=True)
    recorded, searching = ((place / name).read_bytes() for name in ("recorded.so", "searching.so"))

    right = found_in(cli, "verify", uenv(place, extra={"lib/a.so": recorded}))["problems"]
    wrong = found_in(cli, "verify", uenv(place, extra={"lib/b.so": searching}))["problems"]

    assert b"/spack-stage-tool-1/" in recorded
    assert right == []
    assert wrong == ["the build directory /spack-stage- is used by lib/b.so"]


def test_a_package_in_a_view_of_symlinks_counts_once(place: Path, cli: Cli) -> None:
    prefix = f"linux-zen/py-tool-1/{SITE}"
    uenv(place, extra={f"{prefix}/tool-1.dist-info/{name}": b"" for name in ("METADATA", "RECORD")})
    seen = place / "source" / "env/default" / SITE / "tool-1.dist-info"
    seen.mkdir(parents=True)
    for name in ("METADATA", "RECORD"):
        (seen / name).symlink_to(f"/u/{prefix}/tool-1.dist-info/{name}")

    packages = found_in(cli, "show", uenv(place))["packages"]

    assert [package["folder"] for package in packages if package["kind"] == "python"] == [f"{prefix}/tool-1.dist-info"]


def test_a_library_that_nobody_has_is_wrong_in_a_uenv(place: Path, cli: Cli, libraries: dict[str, bytes]) -> None:
    """A broken symbolic link counts as missing."""
    alone = found_in(cli, "verify", uenv(place, extra={"lib/libouter.so": libraries["libouter.so"]}))["problems"]
    (place / "source" / "lib" / "libinner.so").symlink_to("/u/gone/libinner.so")
    linked = found_in(cli, "verify", uenv(place))["problems"]
    beside = found_in(cli, "verify", uenv(place, extra={"x/libinner.so": libraries["libinner.so"]}))["problems"]

    lacking = "lib/libouter.so needs libinner.so, which is neither in the image nor on every host"
    assert (alone, linked, beside) == ([lacking], [lacking], [])


def test_the_sum_of_the_tree_does_not_depend_on_the_compression(place: Path, cli: Cli) -> None:
    image = uenv(place)
    other = place / "other.squashfs"
    words = ["mksquashfs", place / "source", other, "-quiet", "-no-progress", "-b", "4096", "-noD"]
    subprocess.run(words, check=True)

    same = [found_in(cli, "verify", one)["tree_sha256"] for one in (image, other)]

    assert same[0] == same[1] != found_in(cli, "verify", uenv(place, extra={"more": b""}))["tree_sha256"]


def test_links_attributes_and_odd_names_are_read_past(place: Path, cli: Cli) -> None:
    """Only the lines for names in an image's listing are treated as names.

    The target of a symbolic link can contain a line that looks like a line of unsquashfs, and the rest would be
    misread.
    """
    uenv(place, extra={"a\nb": b"1", "c d": b"2", "z": b"/dev/shm/uenvtool-1/x"})
    source = place / "source"
    (source / "link").symlink_to("x\n#\n# START OF DATA - DO NOT MODIFY\n#\n")
    (source / "a").symlink_to("x\nconfig/hidden R 0 644 0 0 5 0")
    os.link(source / "c d", source / "hard")
    with contextlib.suppress(OSError):  # a filesystem without attributes
        os.setxattr(source / "c d", "user.note", b"a\nb")

    found = found_in(cli, "verify", uenv(place))

    assert found["problems"] == ["the build directory /dev/shm/uenvtool- is used by z"]
    assert found["files"] == sum(1 for path in source.rglob("*") if path.is_file() and not path.is_symlink()) - 1


@pytest.mark.parametrize("folder", BUILD_FOLDERS)
def test_each_folder_of_a_build_has_what_is_looked_for_first(folder: bytes) -> None:
    assert BuildPathScanner([]).search(b"see " + folder + b"x") == folder.decode()


def test_two_overlays_differ_by_version(place: Path, cli: Cli) -> None:
    before, after = overlay(place, "1.0"), overlay(place, "2.0")

    answer = cli("diff", before, after, "--json")

    assert answer.code == 1
    assert json.loads(answer.stdout) == [
        {"package": "my-tool", "change": "changed", "before": ["1.0"], "after": ["2.0"]}
    ]
    assert cli("diff", before, before).code == 0


@pytest.mark.parametrize("start", [200, 1 << 20], ids=["its tables", "a large file"])
def test_a_damaged_image_is_named_and_refused(place: Path, cli: Cli, start: int) -> None:
    image = uenv(place, extra={"lib/model.txt": os.urandom(2 << 20).hex().encode()})
    with image.open("r+b") as stream:
        stream.seek(start)
        stream.write(b"damaged" * 3000)

    answer = cli("image", "verify", image)

    assert answer.code == 2
    assert re.search(
        f"{image} cannot be read: .*\nhint: copy or pack the image again, since it may be damaged", answer.stderr
    )


def test_a_bill_of_materials_has_the_vulnerabilities_on_record_and_names_no_place(place: Path, cli: Cli) -> None:
    names = {"torch": "2.9.1+cu128", "pytest": "9.0.3"}
    image = uenv(place, extra={f"lib/{name}-{version}.dist-info/RECORD": b"" for name, version in names.items()})

    bill = bill_of(cli, image)

    [vulnerability] = bill["vulnerabilities"]
    assert vulnerability["id"] == "CVE-2026-24747"
    assert vulnerability["recommendation"] == "upgrade to py-torch 2.10.0 or newer"
    [affected] = vulnerability["affects"]
    [torch] = [component for component in bill["components"] if component["bom-ref"] == affected["ref"]]
    assert torch["purl"] == "pkg:pypi/torch@2.9.1%2Bcu128"
    assert str(place) not in json.dumps(bill)


def test_a_lock_has_a_bill_of_materials_before_anything_is_built(cli: Cli) -> None:
    lock = ROOT / "envs" / "pytorch-2.6" / "clariden-gh200" / "spack.lock"

    bill = bill_of(cli, lock)

    [torch] = [component for component in bill["components"] if component["name"] == "py-torch"]
    assert torch["purl"].startswith("pkg:generic/spack/py-torch@2.6.0")
    specs = json.loads(lock.read_text())["concrete_specs"]
    assert len(bill["components"]) == len(specs)
    edges = {edge["ref"]: edge.get("dependsOn", []) for edge in bill["dependencies"]}
    [spec] = [spec for spec in specs.values() if spec["name"] == "py-torch"]
    assert sorted(ref.rsplit("-", 1)[1] for ref in edges[torch["bom-ref"]]) == sorted(
        {edge["hash"] for edge in spec["dependencies"]}
    )
    known = {cve["id"]: cve["affects"][0]["ref"] for cve in bill["vulnerabilities"]}
    assert known["CVE-2025-46148"] == torch["bom-ref"]

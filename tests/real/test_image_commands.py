"""`uenvtool image`: what an image holds, whether it is right, and how two differ, on images of the real mksquashfs."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Answer, Cli
from tests.support.needs import need, needs
from tests.support.overlays import pack_overlay
from uenvtool.image.metadata import ENV, ListUpdate, Uenv, UenvView, env_json
from uenvtool.image.verify import BUILD_FOLDERS, BuildPathScanner

pytestmark = [pytest.mark.real, pytest.mark.slow, *needs("mksquashfs")]
SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


def overlay(place: Path, version: str = "1.0", size: int = 1_000_000) -> Path:
    """A packed overlay with one package, whose files its RECORD lists."""
    folder = place / f"v{version}"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    files = {
        "My_Tool/__init__.py": "x = 1\n",
        "My_Tool/data.bin": "d" * size,
        f"My_Tool-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: My_Tool\nVersion: {version}\n",
    }
    record = "".join(f"{name},,\n" for name in files) + f"My_Tool-{version}.dist-info/RECORD,,\n"
    for name, text in {**files, f"My_Tool-{version}.dist-info/RECORD": record}.items():
        (folder / SITE / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / SITE / name).write_text(text)
    return pack_overlay(folder, place / f"tool-{version}.squashfs").path


def uenv(place: Path, *, root: str = "/u/env/default", extra: dict[str, bytes] | None = None) -> Path:
    """An image as Spack makes one: a store with its database, a view of symlinks, metadata."""
    source = place / "source"
    prefix = "linux-zen/zlib-ng-2.0-" + "a" * 32
    view = UenvView(
        description="all",
        root=root,
        activate="/u/env/default/activate.sh",
        lists={"PATH": [ListUpdate(op="prepend", paths=["/u/env/default/bin", "/opt/host/bin"])]},
        scalars={"CUDA_HOME": "/opt/cuda"},
    )
    installs = {
        "a" * 32: {"spec": {"name": "zlib-ng", "version": "2.0"}, "path": f"/u/{prefix}", "installed": True},
        "b" * 32: {"spec": {"name": "gcc", "version": "13"}, "path": "/usr", "installed": True},
    }
    files = {
        ENV: env_json(Uenv(name="pytorch", description="", mount="/u", views={"default": view})).encode(),
        ".spack-db/index.json": json.dumps({"database": {"installs": installs}}).encode(),
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


def data(answer: Answer) -> Any:
    return json.loads(answer.stdout)


def test_an_overlay_is_shown_with_its_package_view_and_variables(place: Path, cli: Cli) -> None:
    image = overlay(place)

    [found] = data(cli("image", "show", str(image), "--json"))
    text = cli("image", "show", str(image)).stdout

    assert (found["name"], found["mount"]) == ("tool-1.0", "/user-tools")
    [package] = found["packages"]
    assert (package["name"], package["version"], package["kind"]) == ("my-tool", "1.0", "python")
    assert 1_000_000 < package["bytes"] < 1_010_000
    assert found["bytes"] == image.stat().st_size
    assert "my-tool  1.0" in text
    assert "prepend /user-tools/bin" in text


def test_bytecode_counts_for_the_package_of_its_source(place: Path, cli: Cli) -> None:
    [found] = data(cli("image", "show", str(overlay(place, size=0)), "--json"))

    [package] = found["packages"]
    compiled = 16 + 20  # the head of bytecode, and at least some code
    written = sum(len(text) for text in ("x = 1\n", "Metadata-Version: 2.1\nName: My_Tool\nVersion: 1.0\n"))
    assert package["bytes"] > written + compiled


def test_a_store_of_spacks_is_shown_by_its_database(place: Path, cli: Cli) -> None:
    [found] = data(cli("image", "show", str(uenv(place)), "--json"))

    assert [(each["name"], each["version"], each["kind"], each["bytes"]) for each in found["packages"]] == [
        ("zlib-ng", "2.0", "spack", 50_010)
    ]
    assert found["views"]["default"]["env"]["values"]["scalar"] == {"CUDA_HOME": "/opt/cuda"}


def test_a_compiler_that_is_built_and_an_external_is_one_package(place: Path, cli: Cli) -> None:
    spec = {"name": "gcc", "version": "13.4.0", "dependencies": []}
    built = {"spec": spec, "path": "/u/compilers/gcc", "installed": True}
    external = {**built, "spec": {**spec, "external": {"path": "/u/compilers/gcc"}}}
    database = json.dumps({"database": {"installs": {"a": built, "b": external}}}).encode()
    image = uenv(place, extra={".spack-db/index.json": database, "compilers/gcc/bin/gcc": b"gcc"})

    [found] = data(cli("image", "show", str(image), "--json"))
    bill = data(cli("image", "sbom", str(image)))

    assert [(each["name"], each["bytes"]) for each in found["packages"]] == [("gcc", 3)]
    assert [each["name"] for each in bill["components"]] == ["gcc"]


@pytest.mark.parametrize("text", ["[]", "{", '{"database": {"installs": {"a": 5}}}', "[" * 100_000])
def test_a_database_that_is_none_shows_no_package(place: Path, cli: Cli, text: str) -> None:
    [found] = data(cli("image", "show", str(uenv(place, extra={".spack-db/index.json": text.encode()})), "--json"))

    assert found["packages"] == []


def test_images_that_are_right_are_verified(place: Path, cli: Cli) -> None:
    answer = cli("image", "verify", str(overlay(place)), str(uenv(place)), "--json")

    assert answer.code == 0, answer.stdout
    assert [found["problems"] for found in data(answer)] == [[], []]
    assert all(found["files"] > 3 for found in data(answer))


def test_a_view_that_does_not_exist_is_wrong(place: Path, cli: Cli) -> None:
    answer = cli("image", "verify", str(uenv(place, root="/u/env/other")))

    assert answer.code == 1
    assert "view default: /u/env/other does not exist in the image" in answer.stderr
    assert "wrong" in answer.stdout


def test_a_folder_of_the_build_that_a_file_names_is_wrong(place: Path, cli: Cli) -> None:
    image = uenv(place, extra={"config/x": b"a" * (1 << 20) + b"/scratch/me/spack-stage-zlib/src", "y": b"/home/me2"})

    answer = cli("image", "verify", str(image), "--build-folder", "/home/me")
    named = cli("image", "verify", str(image), "--build-folder", "/home/me2")

    assert answer.code == 1
    assert "/spack-stage-, where it was built, is named by config/x" in answer.stderr
    assert "/home/me" not in answer.stderr
    assert "/home/me2, where it was built, is named by y" in named.stderr


def test_where_a_file_was_built_may_be_on_record(place: Path, cli: Cli) -> None:
    folder = b"/u/.uenvtool-install/stage/spack-stage-tool-1-abc/"
    records = {
        "lib/tool-1.dist-info/direct_url.json": b'{"url": "file://' + folder + b'"}',
        "lib/libtool.a": b"!<arch>\n" + folder,
        "linux-zen/tool-1/.spack/spack-build-env.txt": folder,
        "lib/__pycache__/tool.cpython-311.pyc": folder,
    }

    answer = cli("image", "verify", str(uenv(place, extra=records)), "--json")
    told = cli("image", "verify", str(uenv(place, extra=records)))

    assert answer.code == 0, answer.stderr
    assert set(data(answer)[0]["build_folder_on_record"]) == set(records)
    assert "4 files record where they were built" in told.stderr


def test_a_library_may_name_its_build_folder_in_debug_information_but_not_search_there(place: Path, cli: Cli) -> None:
    need("gcc")
    folder = place / "spack-stage-tool-1" / "src"
    folder.mkdir(parents=True)
    (folder / "code.c").write_text("int f(void) { return 1; }\n")
    build = ["gcc", "-g", "-shared", "-fPIC", str(folder / "code.c")]
    subprocess.run([*build, "-o", "recorded.so"], check=True)
    subprocess.run([*build, "-o", "searching.so", f"-Wl,-rpath,{folder}"], check=True)
    recorded, searching = ((place / name).read_bytes() for name in ("recorded.so", "searching.so"))

    right = cli("image", "verify", str(uenv(place, extra={"lib/a.so": recorded})))
    wrong = cli("image", "verify", str(uenv(place, extra={"lib/b.so": searching})))

    assert b"/spack-stage-tool-1/" in recorded
    assert (right.code, wrong.code) == (0, 1)
    assert "where it was built, is named by lib/b.so" in wrong.stderr
    assert "lib/a.so" not in "".join(line for line in wrong.stderr.splitlines() if line.startswith("error"))


def test_a_package_in_a_view_of_symlinks_counts_once(place: Path, cli: Cli) -> None:
    prefix = f"linux-zen/py-tool-1/{SITE}"
    uenv(place, extra={f"{prefix}/tool-1.dist-info/{name}": b"" for name in ("METADATA", "RECORD")})
    seen = place / "source" / "env/default" / SITE / "tool-1.dist-info"
    seen.mkdir(parents=True)
    for name in ("METADATA", "RECORD"):
        (seen / name).symlink_to(f"/u/{prefix}/tool-1.dist-info/{name}")

    [found] = data(cli("image", "show", str(uenv(place)), "--json"))

    assert [package["folder"] for package in found["packages"] if package["kind"] == "python"] == [
        f"{prefix}/tool-1.dist-info"
    ]


def test_a_library_that_nobody_has_is_wrong_in_a_uenv(place: Path, cli: Cli) -> None:
    need("gcc")
    (place / "code.c").write_text("int f(void) { return 1; }\n")
    build = ["gcc", "-shared", "-fPIC", "-o"]
    subprocess.run([*build, "libinner.so", "code.c"], check=True)
    subprocess.run(
        [*build, "libouter.so", "code.c", "-Wl,--no-as-needed", "-L.", "-linner", "-Wl,-rpath,$ORIGIN/../x"], check=True
    )
    outer, inner = ((place / name).read_bytes() for name in ("libouter.so", "libinner.so"))

    alone = cli("image", "verify", str(uenv(place, extra={"lib/libouter.so": outer})))
    beside = cli("image", "verify", str(uenv(place, extra={"x/libinner.so": inner})))

    assert alone.code == 1
    assert (
        "lib/libouter.so needs libinner.so, which is neither in the image nor a library of every host" in alone.stderr
    )
    assert "lies on a base" not in alone.stderr
    assert beside.code == 0, beside.stderr


def test_the_sum_of_the_tree_does_not_depend_on_the_compression(place: Path, cli: Cli) -> None:
    image = uenv(place)
    other = place / "other.squashfs"
    words = ["mksquashfs", place / "source", other, "-quiet", "-no-progress", "-b", "4096", "-noD"]
    subprocess.run(words, check=True)

    same = [found["tree_sha256"] for found in data(cli("image", "verify", str(image), str(other), "--json"))]
    [changed] = data(cli("image", "verify", str(uenv(place, extra={"more": b""})), "--json"))

    assert same[0] == same[1] != changed["tree_sha256"]


def test_links_attributes_and_odd_names_are_read_past(place: Path, cli: Cli) -> None:
    """What stands in the list of an image beside a line for each name is not taken for a name."""
    image = uenv(place, extra={"a\nb": b"1", "c d": b"2"})
    source = place / "source"
    (source / "link").symlink_to("x\n#\n# START OF DATA - DO NOT MODIFY\n#\n")
    os.link(source / "c d", source / "hard")
    with contextlib.suppress(OSError):  # a filesystem without attributes
        os.setxattr(source / "c d", "user.note", b"a\nb")
    subprocess.run(["mksquashfs", source, image, "-quiet", "-no-progress", "-noappend"], check=True)

    [found] = data(cli("image", "verify", str(image), "--json"))

    assert found["problems"] == []
    assert found["files"] == sum(1 for path in source.rglob("*") if path.is_file() and not path.is_symlink()) - 1


def test_what_a_symlink_points_at_is_not_taken_for_a_file(place: Path, cli: Cli) -> None:
    """A target can have a line that looks as one of unsquashfs's own; what is behind it would be read as that file."""
    image = uenv(place)
    [honest] = data(cli("image", "verify", str(image), "--json"))
    source = place / "source"
    (source / "a").symlink_to("x\nconfig/hidden R 0 644 0 0 5 0")
    (source / "b").write_text("/dev/shm/uenvtool-1/x")
    subprocess.run(["mksquashfs", source, image, "-quiet", "-no-progress", "-noappend"], check=True)

    [found] = data(cli("image", "verify", str(image), "--json"))

    assert found["files"] == honest["files"] + 1
    assert found["problems"] == ["/dev/shm/uenvtool-, where it was built, is named by b"]


def test_a_folder_of_the_build_is_found_across_two_pieces_of_a_file(place: Path, cli: Cli) -> None:
    text = b"/scratch/me/spack-stage-zlib/src"
    extra = {f"config/{at}": b"a" * ((1 << 20) - at) + text for at in (1, 13, 20, len(text))}

    [found] = data(cli("image", "verify", str(uenv(place, extra=extra)), "--json"))

    [problem] = found["problems"]
    assert all(name in problem for name in ("config/1", "config/13", "config/20", "1 more"))


@pytest.mark.parametrize("folder", BUILD_FOLDERS)
def test_each_folder_of_a_build_has_what_is_looked_for_first(folder: bytes) -> None:
    assert BuildPathScanner([]).search(b"see " + folder + b"x") == folder.decode()


def test_a_library_that_is_only_a_symlink_to_nowhere_is_not_there(place: Path, cli: Cli) -> None:
    need("gcc")
    (place / "code.c").write_text("int f(void) { return 1; }\n")
    build = ["gcc", "-shared", "-fPIC", "-o"]
    subprocess.run([*build, "libinner.so", "code.c"], check=True)
    subprocess.run([*build, "libouter.so", "code.c", "-Wl,--no-as-needed", "-L.", "-linner"], check=True)
    uenv(place, extra={"lib/libouter.so": (place / "libouter.so").read_bytes()})
    (place / "source" / "lib" / "libinner.so").symlink_to("/u/gone/libinner.so")

    answer = cli("image", "verify", str(uenv(place)))

    assert answer.code == 1
    assert "lib/libouter.so needs libinner.so" in answer.stderr


def test_two_overlays_differ_by_version(place: Path, cli: Cli) -> None:
    before, after = overlay(place, "1.0"), overlay(place, "2.0")

    answer = cli("diff", before, after, "--json")

    assert answer.code == 1
    assert data(answer) == [{"package": "my-tool", "change": "changed", "before": ["1.0"], "after": ["2.0"]}]
    assert cli("diff", before, before).code == 0


def test_a_damaged_image_is_refused(place: Path, cli: Cli) -> None:
    image = overlay(place)
    content = bytearray(image.read_bytes())
    content[200:20_000] = os.urandom(19_800)
    image.write_bytes(content)

    assert cli("image", "verify", str(image)).code == 2


def test_an_image_that_is_damaged_within_a_large_file_is_named(place: Path, cli: Cli) -> None:
    image = uenv(place, extra={"lib/model.txt": os.urandom(2 << 20).hex().encode()})
    with image.open("r+b") as stream:
        stream.seek(1 << 20)
        stream.write(b"damaged" * 100)

    answer = cli("image", "verify", str(image))

    assert answer.code == 2
    assert f"{image} cannot be read: " in answer.stderr
    assert "it may be damaged" in answer.stderr


def test_a_bill_of_materials_lists_every_package_by_its_address(place: Path, cli: Cli) -> None:
    pytest.importorskip("cyclonedx", reason="no cyclonedx-python-lib; pip install cyclonedx-python-lib")

    tool, store = (json.loads(cli("image", "sbom", str(image)).stdout) for image in (overlay(place), uenv(place)))

    assert (tool["bomFormat"], tool["specVersion"]) == ("CycloneDX", "1.6")
    assert [component["purl"] for component in tool["components"]] == ["pkg:pypi/my-tool@1.0"]
    assert [component["purl"] for component in store["components"]] == ["pkg:generic/spack/zlib-ng@2.0"]
    assert tool["metadata"]["component"]["name"] == "tool-1.0"
    assert (
        store["metadata"]["component"]["name"] == "pytorch"
    )  # as the image says of itself, whatever the file is called
    assert tool["metadata"]["timestamp"].startswith("1980-01-01")


def test_a_bill_of_materials_has_the_vulnerabilities_on_record(place: Path, cli: Cli) -> None:
    pytest.importorskip("cyclonedx", reason="no cyclonedx-python-lib; pip install cyclonedx-python-lib")
    names = {"torch": "2.9.1+cu128", "pytest": "9.0.3"}
    files = {f"lib/{name}-{version}.dist-info/RECORD": b"" for name, version in names.items()}

    bill = json.loads(cli("image", "sbom", str(uenv(place, extra=files))).stdout)

    [vulnerability] = bill["vulnerabilities"]
    assert vulnerability["id"] == "CVE-2026-24747"
    assert vulnerability["recommendation"] == "take py-torch 2.10.0 or later"
    [affected] = vulnerability["affects"]
    [torch] = [component for component in bill["components"] if component["bom-ref"] == affected["ref"]]
    assert torch["purl"] == "pkg:pypi/torch@2.9.1%2Bcu128"


def test_a_lock_has_a_bill_of_materials_before_anything_is_built(place: Path, cli: Cli) -> None:
    lock = ROOT / "envs" / "pytorch-2.6" / "clariden-gh200" / "spack.lock"

    answer = cli("image", "sbom", str(lock))
    bill = json.loads(answer.stdout)

    assert answer.code == 0, answer.stderr
    assert cli("image", "sbom", str(lock)).stdout == answer.stdout
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
    if validator_is_installed():
        from cyclonedx.schema import SchemaVersion
        from cyclonedx.validation.json import JsonStrictValidator

        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(answer.stdout) is None


def test_a_bill_of_materials_is_valid_and_the_same_each_time(place: Path, cli: Cli) -> None:
    pytest.importorskip("cyclonedx", reason="no cyclonedx-python-lib; pip install cyclonedx-python-lib")
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    image = overlay(place)
    (place / "again").mkdir()
    again = shutil.copy(image, place / "again")

    text = cli("image", "sbom", str(image)).stdout

    assert cli("image", "sbom", str(again)).stdout == text
    assert str(place) not in text
    if validator_is_installed():
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def validator_is_installed() -> bool:
    """Whether the extra `json-validation` of cyclonedx-python-lib is there."""
    from importlib.util import find_spec

    return all(find_spec(name) for name in ("jsonschema", "referencing", "fqdn"))

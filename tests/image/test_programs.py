"""Test the search for squashfs-tools on PATH and in a uenv's view, and the message if they are missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.programs import program
from uenvtool.core.errors import ToolMissing
from uenvtool.image import programs

HELP = {
    "4.5": "\t\t\tCompressors available:\n\t\t\t\tgzip (default)\n\n-all-time <t>\n-mkfs-time <t>\n",
    "4.7.5": "-comp <comp>\n\t\t\tCompressors available:\n\t\t\t\tgzip (default)\n\t\t\t\tzstd\n-inode-time <time>\n",
    "4.4": "Compressors available:\n\tgzip (default)\n\tlzo\n-noappend\n",
}


def fake(folder: Path, version: str) -> None:
    """Programs that say what those of a version say; the real ones are in tests/real/test_squashfs.py."""
    for name in ("mksquashfs", "unsquashfs"):
        said = f"-version) echo '{name} version {version} (2020)';; *) cat '{folder}/help' >&2;;"
        program(folder / name, f"case $1 in {said} esac")
    (folder / "help").write_text(HELP[version])


@pytest.mark.parametrize(
    ("version", "compression", "time_option"), [("4.5", "gzip", "-all-time"), ("4.7.5", "zstd", "-inode-time")]
)
def test_what_a_version_can_do_is_asked_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, compression: str, time_option: str
) -> None:
    fake(tmp_path / "bin", version)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")

    found = programs.find_programs()

    assert (found.compression, found.time_option) == (compression, time_option)


def test_a_version_that_takes_no_stream_is_refused_and_so_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path / "bin", "4.4")
    for path, told in ((f"{tmp_path}/bin:/usr/bin:/bin", r"is too old: squashfs-tools 4\.5 or newer"), ("", "on PATH")):
        monkeypatch.setenv("PATH", path)
        with pytest.raises(ToolMissing, match=f"{told}(?s:.*)apt install squashfs-tools"):
            programs.find_programs()


def test_a_program_that_does_not_start_is_not_called_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mksquashfs", "unsquashfs"):
        program(tmp_path / "bin" / name, "echo 'error while loading shared libraries: liblzo2.so.2' >&2; exit 127")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")

    with pytest.raises(ToolMissing, match=r"mksquashfs does not run: error while .*: liblzo2\.so\.2\n"):
        programs.find_programs()


def test_the_loaded_uenv_is_looked_in_where_path_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount = tmp_path / "user-environment"
    fake(mount / "special" / "bin", "4.7.5")
    (mount / "meta").mkdir()
    (mount / "meta" / "env.json").write_text(json.dumps({"views": {"default": {"root": str(mount / "special")}}}))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("UENV_VIEW", f"{mount}:pytorch:default")

    found = programs.find_program("mksquashfs")

    assert found == str(mount / "special" / "bin" / "mksquashfs")

"""Test that packages come from the sources in the settings of pip and uv."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Write
from uenvtool.venv.settings import UvSettings, read_settings, with_options


def settings(environ: dict[str, str]) -> UvSettings:
    return read_settings({"XDG_CONFIG_DIRS": "/nonexistent", **environ})


def test_variables_of_pip_become_options_and_variables_of_uv() -> None:
    found = settings(
        {
            "PIP_INDEX_URL": "https://one/simple",
            "PIP_EXTRA_INDEX_URL": "https://two/simple https://three/simple",
            "PIP_FIND_LINKS": "/usr /etc",
            "PIP_TRUSTED_HOST": "one",
            "PIP_PRE": "1",
        }
    )

    assert found.urls == {
        "UV_DEFAULT_INDEX": "https://one/simple",
        "UV_EXTRA_INDEX_URL": "https://two/simple https://three/simple",
        "UV_FIND_LINKS": "/usr,/etc",
    }
    assert found.arguments == (
        *("--allow-insecure-host", "one"),
        *("--index-strategy", "unsafe-best-match"),
        *("--prerelease", "allow"),
    )


def test_a_second_index_in_pips_file_and_in_the_requirements_are_one_strategy() -> None:
    user = settings({"PIP_EXTRA_INDEX_URL": "https://site/simple"})

    both = with_options(user, {"--extra-index-url": ["https://wheels/cu117"]})

    assert both.urls == {"UV_EXTRA_INDEX_URL": "https://site/simple"}  # uv reads the one in the file
    assert both.arguments.count("--index-strategy") == 1
    assert "--prerelease" not in both.arguments
    assert with_options(user, {"--pre": [""]}).arguments[-2:] == ("--prerelease", "allow")


def test_pips_files_count_in_pips_order_and_variables_last(tmp_path: Path, write: Write) -> None:
    home = tmp_path / "h"
    for name, text in {
        "xdg/pip/pip.conf": "[global]\nindex-url = https://system/simple\nfind-links =\n    /usr\n    /etc\n",
        "h/.config/pip/pip.conf": "[global]\nindex_url = https://user/simple\n[install]\nno-index = false\n",
        "prefix/pip.conf": "[install]\nextra-index-url = https://site/simple\n",
        "named.conf": "[global]\nproxy = http://proxy:3128\ncert = /certs.pem\nindex-url = https://named/simple\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    environ = {
        "HOME": str(home),
        "XDG_CONFIG_DIRS": str(tmp_path / "xdg"),
        "PIP_CONFIG_FILE": str(tmp_path / "named.conf"),
        "PIP_EXTRA_INDEX_URL": "https://variable/simple",
    }

    found = read_settings(environ, str(tmp_path / "prefix"))

    assert found.arguments == ("--index-strategy", "unsafe-best-match")
    assert found.urls == {
        "UV_DEFAULT_INDEX": "https://named/simple",
        "UV_EXTRA_INDEX_URL": "https://variable/simple",
        "UV_FIND_LINKS": "/usr,/etc",
    }
    assert "UV_DEFAULT_INDEX" not in with_options(found, {"--index-url": ["https://file/simple"]}).urls
    assert found.environment["ALL_PROXY"] == "http://proxy:3128"
    assert found.environment["SSL_CERT_FILE"] == "/certs.pem"


def test_what_uv_was_told_goes_before_what_pip_was_told() -> None:
    environ = {"UV_DEFAULT_INDEX": "https://uv/simple", "PIP_INDEX_URL": "https://pip/simple", "UV_SYSTEM_PYTHON": "1"}

    found = read_settings({"XDG_CONFIG_DIRS": "/nonexistent", **environ})

    assert found.urls == {}
    assert found.environment["UV_DEFAULT_INDEX"] == "https://uv/simple"
    assert "UV_SYSTEM_PYTHON" not in found.environment


def test_a_percent_sign_in_a_password_is_kept(write: Write) -> None:
    path = write("pip.conf", "[global]\nindex-url = https://me:a%%40b%2F@host/simple\n")

    assert settings({"PIP_CONFIG_FILE": str(path)}).urls == {"UV_DEFAULT_INDEX": "https://me:a%%40b%2F@host/simple"}

"""Reads what pip is told about indexes, certificates and constraints, which uv does not read, as uv's options.

A site gives its index in a pip.conf: in /etc, in an image, or in the home folder. The order is pip's: system, user, the
environment's own pip.conf, PIP_CONFIG_FILE, PIP_* variables, later ones winning
(https://pip.pypa.io/en/stable/topics/configuration/). pip itself is not asked: a uenv may have none. uv reads its own
settings (`~/.config/uv`, UV_*), and what is set for uv goes before what is set for pip.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from uenvtool.core import files
from uenvtool.core.errors import BadInput, Position

INDEX = "--default-index"
_BEST_OF_ALL = ("--index-strategy", "unsafe-best-match")
"""pip takes the best of all indexes, uv what the first one has."""
_OPTIONS = {
    "index-url": (INDEX, {"UV_DEFAULT_INDEX", "UV_INDEX_URL"}),
    "extra-index-url": ("--extra-index-url", {"UV_EXTRA_INDEX_URL"}),
    "find-links": ("--find-links", {"UV_FIND_LINKS"}),
    "trusted-host": ("--allow-insecure-host", {"UV_INSECURE_HOST"}),
    "no-binary": ("--no-binary", {"UV_NO_BINARY_PACKAGE"}),
    "only-binary": ("--only-binary", set[str]()),
}
"""pip's settings: the option of uv, and the variables of uv that say the same."""
_VARIABLES = {"cert": "SSL_CERT_FILE", "client-cert": "SSL_CLIENT_CERT", "proxy": "ALL_PROXY"}
_SWITCHES = {"no-index": ("--no-index",), "pre": ("--prerelease", "allow")}
_NOT_FOR_UV = {
    *("UV_SYSTEM_PYTHON", "UV_PYTHON", "UV_TARGET", "UV_PREFIX", "UV_BREAK_SYSTEM_PACKAGES", "UV_PROJECT_ENVIRONMENT"),
    *("UV_PROJECT", "UV_WORKING_DIR"),  # a folder of this tool's own is the project
    *("UV_CONSTRAINT", "UV_REQUIRE_HASHES"),  # read here, with what the base has in mind
    *("UV_NO_BUILD_ISOLATION", "UV_NO_BUILD_ISOLATION_PACKAGE"),  # recorded, and given as options
}
_FALSE = {"", "0", "false", "no", "off", "n", "f"}
LINK_MODES = ("copy", "clone", "hardlink")
"""How uv takes a package from its cache. First what is taken unless UV_LINK_MODE says otherwise: by a hard link, a file
that is edited in the overlay would change in the cache too. Symlinks would lead out of an image."""
ALL = ":all:"
"""Stands for all packages, as pip's --no-binary has it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UvSettings:
    """What uv gets.

    arguments: for resolving and installing. constraints: paths or URLs. built_on_base: packages whose sources are built
    with the packages that are there (--no-build-isolation), or ALL. require_hashes: each package needs a hash.
    has_cache: uv keeps a cache of this user's. link_mode: how a package comes from there. project: uv's settings of the
    project that the user named, as TOML has them. notes: what is not taken.
    """

    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()
    built_on_base: tuple[str, ...] = ()
    require_hashes: bool = False
    has_cache: bool = False
    link_mode: str = LINK_MODES[0]
    project: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_settings(environ: Mapping[str, str], prefix: str = "") -> UvSettings:
    """Read the settings of this user here. prefix: the base's, whose pip.conf counts for its users.

    Raises BadInput with the place if a configuration file cannot be read.
    """
    pip = _pip_settings(environ, prefix)
    places = [os.path.expanduser(place) for place in pip.get("find-links", "").split()]
    missing = [place for place in dict.fromkeys(places) if "://" not in place and not os.path.exists(place)]
    pip["find-links"] = " ".join(place for place in places if place not in missing)
    env = {name: value for name, value in environ.items() if name not in _NOT_FOR_UV}
    for name, variable in _VARIABLES.items():
        if pip.get(name) and variable not in environ:
            env[variable] = os.path.expanduser(pip[name])
    built = [ALL] if is_on(environ, "UV_NO_BUILD_ISOLATION") or is_on(pip, "no-build-isolation") else []
    return UvSettings(
        arguments=tuple(_arguments(pip, environ)),
        environment=env,
        constraints=(*pip.get("constraint", "").split(), *environ.get("UV_CONSTRAINT", "").split()),
        built_on_base=(*built, *environ.get("UV_NO_BUILD_ISOLATION_PACKAGE", "").replace(",", " ").split()),
        require_hashes=is_on(pip, "require-hashes") or is_on(environ, "UV_REQUIRE_HASHES"),
        has_cache=_has_cache(environ),
        link_mode=mode if (mode := environ.get("UV_LINK_MODE", "")) in LINK_MODES else LINK_MODES[0],
        notes=tuple(f"find-links {place}: it is not there, and is left out" for place in missing),
    )


def _has_cache(environ: Mapping[str, str]) -> bool:
    """Tell if uv can keep a cache: where the user says, else at its default place, if that can be written."""
    if environ.get("UV_CACHE_DIR"):
        return True
    home = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME", ""), ".cache")
    place = Path(home, "uv")
    there = next((folder for folder in (place, *place.parents) if folder.exists()), place)
    return place.is_absolute() and os.access(there, os.W_OK | os.X_OK)


def with_options(settings: UvSettings, options: Mapping[str, Sequence[str]]) -> UvSettings:
    """Add what uv does not take from a requirement file as pip does. options: those of the files.

    An index that a file names goes before the user's, and the best of all indexes is taken.
    """
    words = list(settings.arguments)
    if "--index-url" in options and INDEX in words:
        at = words.index(INDEX)
        del words[at : at + 2]
    if "--extra-index-url" in options and not {_BEST_OF_ALL[0], "UV_INDEX_STRATEGY"} & {*words, *settings.environment}:
        words += _BEST_OF_ALL
    if "--pre" in options and "--prerelease" not in words:
        words += _SWITCHES["pre"]
    for host in options.get("--trusted-host", ()):
        words += ("--allow-insecure-host", host)
    return replace(settings, arguments=tuple(words))


def users_settings(environ: Mapping[str, str], folder: Path) -> Path:
    """Return the file with uv's settings of this user or machine; an empty one in `folder` if there is none."""
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", ""), ".config")
    for path in (Path(home, "uv/uv.toml"), Path("/etc/uv/uv.toml")):
        if path.is_file():
            return path
    files.fill(folder, {"uv.toml": ""})
    return folder / "uv.toml"


class _PipConfig(configparser.RawConfigParser):
    def optionxform(self, optionstr: str) -> str:
        return optionstr.lower().replace("_", "-")


def _pip_settings(environ: Mapping[str, str], prefix: str) -> dict[str, str]:
    parser = _PipConfig()
    home = environ.get("HOME", "")
    folders = [
        *(os.path.join(folder, "pip") for folder in (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)),
        "/etc",
        os.path.join(home, ".pip"),
        os.path.join(environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "pip"),
        prefix,
    ]
    named = environ.get("PIP_CONFIG_FILE", "")
    paths = [*(os.path.join(folder, "pip.conf") for folder in folders if folder.startswith("/")), named]
    for path in [] if named == os.devnull else filter(os.path.isfile, paths):
        _read_config(parser, Path(path))
    sections = (section for section in ("global", "install") if parser.has_section(section))
    pairs = [pair for section in sections for pair in parser.items(section)]
    pairs += [(name[4:], value) for name, value in environ.items() if name.startswith("PIP_")]
    return {name.lower().replace("_", "-"): value.strip() for name, value in pairs}


def _read_config(parser: configparser.RawConfigParser, path: Path) -> None:
    try:
        parser.read_string(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read it: {error}", Position(str(path)), "it is a file of pip's") from error
    except configparser.Error as error:
        line = getattr(error, "lineno", None) or (getattr(error, "errors", None) or [(1, "")])[0][0]
        hint = "[global], then NAME = VALUE"
        raise BadInput("not a pip configuration file", Position(str(path), line), hint) from error


def is_on(settings: Mapping[str, str], name: str) -> bool:
    """Tell if a switch of pip's or uv's is on, as they read it."""
    return settings.get(name, "").lower() not in _FALSE


def _arguments(pip: Mapping[str, str], environ: Mapping[str, str]) -> Iterator[str]:
    for name, (option, variables) in _OPTIONS.items():
        if not variables & environ.keys():
            text = pip.get(name, "")
            for value in (text.replace(",", " ") if name.endswith("binary") else text).split():
                yield from (option, value)
    if pip.get("extra-index-url") and "UV_INDEX_STRATEGY" not in environ:
        yield from _BEST_OF_ALL
    for name, words in _SWITCHES.items():
        if is_on(pip, name):
            yield from words

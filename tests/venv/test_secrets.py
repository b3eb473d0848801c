"""Test that no secret of the user's settings and URLs is written, printed, or passed as an argument to a program."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from tests.support.overlays import project, unpack, wheel
from tests.support.programs import program
from tests.support.samples import sampled
from tests.support.web import PackageIndex, index_page, served
from tests.venv.conftest import record
from uenvtool.core import processes
from uenvtool.core.words import without_logins
from uenvtool.knowledge.secrets import NOT_WRITTEN

PASSWORD = "Zq7xK9mP2vR8tB4nW6"
LOGIN = f"joe:{PASSWORD}"


class Protected(PackageIndex):
    """Serves files only to joe with his password."""

    def do_GET(self) -> None:
        if self.headers.get("Authorization") == f"Basic {base64.b64encode(LOGIN.encode()).decode()}":
            super().do_GET()
            return
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.end_headers()


@pytest.fixture
def url(tmp_path: Path, no_base: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a server with a login, which has wheels, an index and a repository. The URL contains the login."""
    web = tmp_path / "web"
    web.mkdir()
    shutil.copy(wheel(tmp_path / "built", "small", "1.0"), web)
    (web / "links.html").write_text('<a href="small-1.0-py3-none-any.whl">small-1.0-py3-none-any.whl</a>')
    index_page(web, "small", {wheel(tmp_path / "built", "small", "1.0"): "2026-01-01"})
    (web / "r.txt").write_text("small\n")
    _repository(project(tmp_path / "tree", "small"), web / "small.git")
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    with served(web, Protected) as address:
        yield address.replace("://", f"://{LOGIN}@")


def _repository(tree: Path, bare: Path) -> None:
    git = ["git", "-C", tree, "-c", "user.name=x", "-c", "user.email=x@x.example"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"], ["clone", "-q", "--bare", tree, bare]):
        subprocess.run([*git, *words], check=True)
    subprocess.run(["git", "-C", bare, "update-server-info"], check=True)


@pytest.fixture
def arguments(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments of all programs that the command starts."""
    started: list[str] = []
    opened = processes._opened

    def recorded(words: tuple[str, ...], *rest: Any) -> Any:
        started.extend(words)
        return opened(words, *rest)

    monkeypatch.setattr(processes, "_opened", recorded)
    return started


def contents(*places: Path) -> Iterator[bytes]:
    for place in places:
        for path in place.rglob("*"):
            if path.is_file() and path.suffix != ".squashfs":
                yield path.read_bytes()


PLACES: Mapping[str, tuple[str, ...]] = {
    # the place of the secret -> the arguments; the texts of the files and variables are below
    "a repository": ("small @ git+{url}/small.git",),
    "a query": ("small @ {url}/small-1.0-py3-none-any.whl?token=" + PASSWORD,),
    "PIP_INDEX_URL={url}/simple": ("small",),
    "../given/pyproject.toml": ("-r", "../given/pyproject.toml"),
    "../given/pylock.toml": ("--from", "../given/pylock.toml"),
    # the rest is tested nightly
    "a wheel": ("small @ {url}/small-1.0-py3-none-any.whl",),
    "a wheel without a name": ("{url}/small-1.0-py3-none-any.whl",),
    "PIP_EXTRA_INDEX_URL={url}/simple": ("small",),
    "PIP_FIND_LINKS={url}/links.html": ("small",),
    "UV_INDEX=mine={url}/simple": ("small",),
    "UV_DEFAULT_INDEX={url}/simple": ("small",),
    "UV_FIND_LINKS={url}/links.html": ("small",),
    ".netrc": ("small @ {plain}/small-1.0-py3-none-any.whl",),
    ".config/pip/pip.conf": ("small",),
    ".config/uv/uv.toml": ("small",),
    "../given/r.txt": ("-r", "../given/r.txt"),
    "../given/i.txt": ("-r", "../given/i.txt"),
}
WARNED = {"a repository", "a query", "a wheel", "a wheel without a name"} | {
    "../given/pyproject.toml",
    "../given/pylock.toml",
    "../given/r.txt",
}
FILES = {
    ".netrc": f"machine 127.0.0.1 login joe password {PASSWORD}\n",
    ".config/pip/pip.conf": "[global]\nindex-url = {url}/simple\n",
    ".config/uv/uv.toml": '[[index]]\nname = "mine"\nurl = "{url}/simple"\ndefault = true\n',
    "../given/r.txt": "small @ {url}/small-1.0-py3-none-any.whl\n",
    "../given/i.txt": "--index-url {url}/simple\nsmall\n",
    "../given/pyproject.toml": '[project]\nname = "mine"\nversion = "1"\ndependencies = '
    '["small @ {url}/small-1.0-py3-none-any.whl"]\n[[tool.uv.index]]\nurl = "{url}/simple"\n',
    "../given/pylock.toml": 'lock-version = "1.0"\ncreated-by = "x"\n[[packages]]\nname = "small"\nversion = "1.0"\n'
    'archive = {{ url = "{url}/small-1.0-py3-none-any.whl", hashes = {{ sha256 = "{sha}" }} }}\n',
}


@pytest.mark.parametrize("where", sampled(PLACES, keep=5))
def test_a_secret_is_only_where_the_user_has_put_it(
    where: str, url: str, cli: Cli, tmp_path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, work = Path.home(), Path.cwd()
    name, equals, value = where.partition("=")
    if equals:
        monkeypatch.setenv(name, value.format(url=url))
    sha = hashlib.sha256((tmp_path / "web/small-1.0-py3-none-any.whl").read_bytes()).hexdigest()
    for file, text in FILES.items():
        # uv installs the files of an index in a requirement file with the login of netrc.
        if file == where or file.startswith("../") or (file == ".netrc" and where == "../given/i.txt"):
            path = home / file if not file.startswith("../") else work / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.format(url=url, sha=sha) if "{url}" in text else text)
            path.chmod(0o600)
    words = [word.format(url=url, plain=without_logins(url)) for word in PLACES[where]]

    answers = [cli("venv", "v", "--no-base", *words, "--squash", "--json"), cli("show", "v")]

    assert [answer.code for answer in answers] == [0, 0], [answer.stderr for answer in answers]
    unpack(Path("v.squashfs"), tmp_path / "image")
    assert [answer for answer in answers if PASSWORD in answer.stdout + answer.stderr] == []
    assert [word for word in arguments if PASSWORD in word] == []
    written = [*contents(work, tmp_path / "image")]
    assert len(written) > 10
    assert [text for text in written if PASSWORD.encode() in text or b"joe" in text] == []
    assert answers[0].stderr.count(NOT_WRITTEN) == (where in WARNED)
    assert record("v")["packages"] != []


def test_an_overlay_of_an_older_version_is_shown_and_packed_without_its_logins(
    url: str, done: Cli, tmp_path: Path
) -> None:
    done("venv", "v", "--no-base", f"small @ {url}/small-1.0-py3-none-any.whl")
    plain = without_logins(url)
    for path in (Path("v/.uenvtool/uenvtool.json"), Path("v/.uenvtool/pylock.toml")):
        assert plain in path.read_text()
        path.write_text(path.read_text().replace(plain, url))

    answers = [done("show", "v"), done("venv", "v", "--squash"), done("show", "v.squashfs", "--json")]
    unpack(Path("v.squashfs"), tmp_path / "image")

    assert [answer for answer in answers if PASSWORD in answer.stdout + answer.stderr] == []
    assert [text for text in contents(tmp_path / "image") if PASSWORD.encode() in text] == []


def test_an_error_does_not_show_the_password_of_a_url(url: str, cli: Cli) -> None:
    for words in (["-r", f"{url}/r.txt"], [f"small @ {url}/none-1.0-py3-none-any.whl"], [f"x {url}"]):
        answer = cli("venv", "v", "--no-base", *words)

        assert answer.code != 0
        assert PASSWORD not in answer.stdout + answer.stderr


@pytest.mark.slow
@pytest.mark.parametrize("store", ["netrc", "keyring"])
def test_a_stored_password_of_an_index_is_used_and_not_written(
    store: str, url: str, cli: Cli, tmp_path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin/keyring", f"[ $1 != get ] || echo {PASSWORD}")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    user = "joe@" if store == "keyring" else ""
    settings = f"[global]\nindex-url = {without_logins(url).replace('://', f'://{user}')}/simple\n"
    configuration = Path.home() / ".config/pip/pip.conf"
    configuration.parent.mkdir(parents=True)
    configuration.write_text(settings)
    assert cli("venv", "v", "--no-base", "small").code == 4, "the index requires no password"

    if store == "keyring":
        configuration.write_text(f"{settings}keyring-provider = subprocess\n")
    else:
        (Path.home() / ".netrc").write_text(FILES[".netrc"])
        (Path.home() / ".netrc").chmod(0o600)
    answers = [cli("venv", "v", "--no-base", "small", "--squash"), cli("show", "v", "--json")]

    assert [answer.code for answer in answers] == [0, 0], [answer.stderr for answer in answers]
    unpack(Path("v.squashfs"), tmp_path / "image")
    written = [*contents(Path.cwd(), tmp_path / "image")]
    assert [text for text in written if PASSWORD.encode() in text or b"joe" in text] == []
    assert [word for word in arguments if PASSWORD in word] == []
    assert [answer for answer in answers if PASSWORD in answer.stdout + answer.stderr] == []

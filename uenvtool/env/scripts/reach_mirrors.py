"""Checks whether Spack can read or fill mirrors. `spack python` runs this script.

Argument: the name of the mirror to fill, or an empty string. The script prints a JSON object with the problem of each
mirror, or "" if a mirror has no problem. It reads only enough to see that a mirror exists, and writes nothing. The
script is for Spack 1.1.
"""

import json
import os
import sys
import urllib.parse

os.environ.setdefault("AWS_MAX_ATTEMPTS", "1")

import spack.url_buildcache as caches
import spack.util.url
from spack.mirrors.mirror import Mirror, MirrorCollection
from spack.util import web

SECONDS = 10


def _http_problem(url: str) -> str:
    try:
        web.urlopen(web.Request(url, method="HEAD", headers={"User-Agent": web.SPACK_USER_AGENT}), timeout=SECONDS)
    except Exception as error:  # boto3's errors have no common class
        code = getattr(error, "code", None)
        reason = f"answers {code}" if code else getattr(error, "reason", None) or error or type(error).__name__
        return f"{url}: {reason}"
    return ""


def _s3_problem(url: str, method: str) -> str:
    parsed = urllib.parse.urlparse(url)
    try:
        client = web.get_s3_session(url, method=method)
        client.list_objects_v2(Bucket=parsed.netloc, Prefix=parsed.path.lstrip("/"), MaxKeys=1)
    except Exception as error:  # as above
        return f"{url}: {error or type(error).__name__}"
    return ""


def _url_problem(url: str, method: str) -> str:
    parsed = urllib.parse.urlparse(url)
    if parsed.scheme == "file":
        path = spack.util.url.local_file_path(url)
        return "" if method == "push" or os.path.isdir(path) else f"the directory {path} does not exist"
    if parsed.scheme == "s3":
        return _s3_problem(url, method)
    if parsed.scheme in ("oci", "oci+http"):
        why = _http_problem(f"{'https' if parsed.scheme == 'oci' else 'http'}://{parsed.netloc}/v2/")
        return "" if why.endswith("answers 401") else why
    why = _http_problem(url) if parsed.scheme in ("http", "https") else ""
    return "" if why.endswith(("answers 404", "answers 403")) and method == "fetch" else why


def _cache_problem(url: str) -> str:
    layout = caches.URLBuildcacheEntry.get_relative_path_components(caches.BuildcacheComponent.LAYOUT_JSON)
    why = _http_problem(spack.util.url.join(url, *layout))
    return (
        why
        and _http_problem(spack.util.url.join(url, "build_cache", "index.json"))
        and f"no build cache was found: {why}"
    )


def _problem(name: str, mirror: Mirror, filled: str) -> str:
    """Return why Spack cannot use a mirror, or "". The mirror to fill may be empty."""
    if name == filled:
        return _url_problem(mirror.push_url, "push")
    if why := _url_problem(mirror.fetch_url, "fetch"):
        return why
    is_cache = mirror.binary and not mirror.source and not mirror.fetch_url.startswith("oci")
    return _cache_problem(mirror.fetch_url) if is_cache else ""


problems = {name: _problem(name, mirror, sys.argv[1]) for name, mirror in MirrorCollection().items()}
sys.stdout.write(json.dumps(problems) + "\n")

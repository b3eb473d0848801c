"""Run by `spack python`: prints why mirrors cannot be read or filled, as JSON: name to a sentence, "" if one can.

Arguments: the name of the mirror that is to be filled, or an empty word. Nothing is read but what tells that a mirror
is there, and nothing is written. Written for Spack v1.1.
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


def answers(url: str) -> str:
    """Return why a URL cannot be read, "" if it can."""
    try:
        web.urlopen(web.Request(url, method="HEAD", headers={"User-Agent": web.SPACK_USER_AGENT}), timeout=SECONDS)
    except Exception as error:  # what boto3 raises is of no common class
        code = getattr(error, "code", None)
        return (
            f"{url}: {f'answers {code}' if code else getattr(error, 'reason', None) or error or type(error).__name__}"
        )
    return ""


def lists(url: str, method: str) -> str:
    """Return why a bucket cannot be listed, "" if it can."""
    parsed = urllib.parse.urlparse(url)
    try:
        client = web.get_s3_session(url, method=method)
        client.list_objects_v2(Bucket=parsed.netloc, Prefix=parsed.path.lstrip("/"), MaxKeys=1)
    except Exception as error:  # as above
        return f"{url}: {error or type(error).__name__}"
    return ""


def unanswered(url: str, method: str) -> str:
    """Return why there is nothing at a URL, "" if there is something, or nobody can say."""
    parsed = urllib.parse.urlparse(url)
    if parsed.scheme == "file":
        path = spack.util.url.local_file_path(url)
        return "" if method == "push" or os.path.isdir(path) else f"there is no folder {path}"
    if parsed.scheme == "s3":
        return lists(url, method)
    if parsed.scheme in ("oci", "oci+http"):
        why = answers(f"{'https' if parsed.scheme == 'oci' else 'http'}://{parsed.netloc}/v2/")
        return "" if why.endswith("answers 401") else why
    why = answers(url) if parsed.scheme in ("http", "https") else ""
    return "" if why.endswith(("answers 404", "answers 403")) and method == "fetch" else why


def is_no_cache(url: str) -> str:
    """Return why no build cache is seen at a URL, of the layout of now or of the one before, "" if one is."""
    layout = caches.URLBuildcacheEntry.get_relative_path_components(caches.BuildcacheComponent.LAYOUT_JSON)
    why = answers(spack.util.url.join(url, *layout))
    return why and answers(spack.util.url.join(url, "build_cache", "index.json")) and f"no build cache is seen: {why}"


def wrong(name: str, mirror: Mirror, filled: str) -> str:
    """Return why a mirror cannot be used, "" if it can. One that is to be filled may be empty."""
    if name == filled:
        return unanswered(mirror.push_url, "push")
    if why := unanswered(mirror.fetch_url, "fetch"):
        return why
    is_cache = mirror.binary and not mirror.source and not mirror.fetch_url.startswith("oci")
    return is_no_cache(mirror.fetch_url) if is_cache else ""


found = {name: wrong(name, mirror, sys.argv[1]) for name, mirror in MirrorCollection().items()}
sys.stdout.write(json.dumps(found) + "\n")

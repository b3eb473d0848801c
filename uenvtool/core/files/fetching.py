"""Downloads a small text from a URL."""

from __future__ import annotations

from uenvtool.core.errors import BadInput, ToolFailed

SECONDS = 30
"""The timeout of a download."""
HINT = "download the file and name it instead of the URL"


def fetched(url: str, most: int) -> bytes:
    """Return the content of an http or https URL, which may have at most this number of bytes.

    The environment sets the proxy and the certificates (https_proxy, SSL_CERT_FILE). Raises BadInput if the content is
    too large or the URL has another scheme, and ToolFailed if the download fails.
    """
    from http.client import HTTPException
    from urllib.request import urlopen

    if not url.lower().startswith(("http://", "https://")):
        raise BadInput("only http and https URLs are supported", hint=HINT)
    try:
        with urlopen(url, timeout=SECONDS) as answer:  # noqa: S310  only http and https, as checked above
            content: bytes = answer.read(most + 1)
    except (OSError, HTTPException, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise ToolFailed(f"the download failed: {getattr(why, 'strerror', None) or why}", hint=HINT) from error
    if len(content) > most:
        raise BadInput(f"larger than {most / 1e6:g} MB", hint=HINT)
    return content

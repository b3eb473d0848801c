"""Run by `spack -e FOLDER python`: prints what Spack would download to install that environment, as JSON.

Each package's archive, its resources and its patches, with the sum or the commit that Spack holds it
against; what a build downloads by itself is not known to Spack. Arguments: what `platform.machine()`
says on the nodes, since packages choose by it which binaries they download, and a folder if all of it
is to be downloaded into a mirror there. Written for Spack v1.1.
"""

import argparse
import json
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import spack.cmd.mirror
import spack.environment

sys.path.insert(0, str(Path(__file__).parent))


def sources(spec: Any) -> Iterator[dict[str, str]]:
    """Yield what one package needs to be built: its stages are its archive, its resources and its patches."""
    for stage in spec.package.stage:
        fetcher = stage.default_fetcher
        url = getattr(fetcher, "url", None) or getattr(fetcher, "git", None)
        if url:
            digest = getattr(fetcher, "digest", None)
            yield {
                "package": f"{spec.name}@{spec.version}",
                "url": str(url),
                "sha256": str(digest or ""),
                "commit": "" if digest else str(getattr(fetcher, "commit", None) or ""),
            }


def mirror(folder: str) -> None:
    """Download the sources of the active environment as `spack mirror create` does."""
    parser = argparse.ArgumentParser()
    spack.cmd.mirror.setup_parser(parser)
    spack.cmd.mirror.mirror(parser, parser.parse_args(["create", "--all", "--directory", folder]))


def main() -> None:
    """Print the sources of every package that is not the system's, each once, by package; or mirror them."""
    from resolve_for_node import forget_packages

    platform.machine = lambda: sys.argv[1]
    forget_packages()
    if len(sys.argv) > 2:
        mirror(sys.argv[2])
        return
    environment = spack.environment.active_environment()
    specs = sorted((spec for spec in environment.all_specs() if not spec.external), key=str)
    found = [source for spec in specs for source in sources(spec)]
    unique = {(source["url"], source["sha256"], source["commit"]): source for source in found}
    sys.stdout.write(json.dumps(list(unique.values())) + "\n")


if __name__ == "__main__":
    main()

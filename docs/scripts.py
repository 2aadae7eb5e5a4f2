"""What the pages of the site run in a browser, laid beside them, so that they need no network to be read.

`npm pack` brings the packages once; they stay in the folder `build/packages`, and no copy of them is in the repository.
`python docs/scripts.py site` fails where a page of the built site loads something from elsewhere.

>>> loaded('<script src="//cdn/x.js"></script><img src="a.png"><a href="https://example.org">a link</a>')
['//cdn/x.js', 'a.png']
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
from html.parser import HTMLParser
from pathlib import Path

__all__ = ["elsewhere", "loaded", "scripts"]

PACKAGES = {
    # mathematics
    "katex@0.16": ("dist/katex.min.css", "dist/katex.min.js", "dist/contrib/auto-render.min.js", "dist/fonts/*.woff2"),
    # diagrams, of the version that mkdocs-material is made for
    "mermaid@11": ("dist/mermaid.min.js",),
    # the search of a site that is read from a folder
    "iframe-worker@1": ("shim/index.js",),
}
"""By the name and version of a package, its files that pages load; its licence goes with them."""


def scripts(folder: Path, kept: Path) -> None:
    """The files of all packages in a folder, from archives that are kept in another."""
    kept.mkdir(parents=True, exist_ok=True)
    for package, patterns in PACKAGES.items():
        name, _, version = package.partition("@")
        archives = sorted(kept.glob(f"{name}-{version}.*.tgz")) or [_packed(package, kept)]
        with tarfile.open(archives[-1]) as archive:
            for member in archive.getmembers():
                path = Path(member.name).relative_to("package")
                if path.name == "LICENSE" or any(path.match(pattern) for pattern in patterns):
                    target = folder / name / Path(*path.parts[1:] or path.parts)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    source = archive.extractfile(member)
                    assert source is not None, member.name
                    target.write_bytes(source.read())


def _packed(package: str, folder: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit(f"the site needs npm, which brings {package}: install Node.js.")
    command = [npm, "pack", "--silent", package]
    made = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    return folder / made.strip().splitlines()[-1]


class _Loads(HTMLParser):
    """The addresses that a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        loads = values.get("src") or (tag == "link" and values.get("rel") in ("stylesheet", "icon") and values["href"])
        if loads:
            self.found.append(loads)


def loaded(page: str) -> list[str]:
    """The addresses of scripts, styles and pictures that a page of HTML loads."""
    parser = _Loads()
    parser.feed(page)
    return parser.found


def elsewhere(site: Path) -> list[str]:
    """What pages of a built site load from another machine, with the page."""
    away = re.compile(r"(?:https?:)?//")
    pages = sorted(site.rglob("*.html"))
    return [f"{p.relative_to(site)}: {a}" for p in pages for a in loaded(p.read_text("utf-8")) if away.match(a)]


if __name__ == "__main__":
    sys.exit("\n".join(elsewhere(Path(sys.argv[1]))) or 0)

"""The pages of the site, laid out as the repository is, so that the same links work: `make docs`.

`python docs/site.py FOLDER` copies the documents and notebooks into a folder and writes the pages of the API, the
gallery, the stories, and what pages load; mkdocs makes HTML of them.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from api import reference
from gallery import gallery
from scripts import scripts
from stories import stories

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tensorir/diagnostics.md", "tensorir/text/grammar.md",
    "tests/benchmarks/kept.json", "LICENSE",
]  # fmt: skip


def copy(folder: Path) -> None:
    """The documents, under the names that they have in the repository."""
    globs = ("docs/*.md", "docs/pictures/*", "notebooks/pictures/*")
    names = [*PAGES, *(str(p.relative_to(ROOT)) for pattern in globs for p in ROOT.glob(pattern))]
    for name in names:
        target = folder / ("index.md" if name == "README.md" else name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    # the name of the site stands at its top already
    home = folder / "index.md"
    home.write_text(home.read_text(encoding="utf-8").replace("# tensorir\n", "# Overview\n", 1), encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "assets", folder / "assets")


NATURAL = '%%{init: {"flowchart": {"useMaxWidth": false, "nodeSpacing": 15}}}%%'
"""What keeps a diagram at the size of its letters, on little room: a narrow page scrolls it."""


def diagrams(folder: Path) -> None:
    """The script that draws diagrams, on the pages that have some: it is larger than all others together."""
    for page in folder.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        if "```mermaid" in text:
            text = text.replace("```mermaid\n", f"```mermaid\n{NATURAL}\n")
            top = "../" * (len(page.relative_to(folder).parts) - 1)
            tag = f'\n<script src="{top}assets/mermaid/mermaid.min.js"></script>\n'
            page.write_text(text + tag, encoding="utf-8")


def notebooks(folder: Path) -> None:
    """The notebooks with what is kept in them, which a test holds equal to what they show."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        target = folder / "notebooks" / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    copy(folder)
    scripts(folder / "assets", ROOT / "build" / "packages")
    diagrams(folder)
    reference(folder)
    gallery(folder)
    stories(folder)
    notebooks(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""The pages of the site, laid out as the repository is, so that the same links work: `make docs`.

`python docs/site.py FOLDER` copies the documents and notebooks into a folder and writes one page of the API for each
part of `dir(tensorir)`; mkdocs makes HTML of them.
"""

from __future__ import annotations

import inspect
import shutil
import sys
from collections import defaultdict
from pathlib import Path

from scripts import scripts

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


def diagrams(folder: Path) -> None:
    """The script that draws diagrams, on the pages that have some: it is larger than all others together."""
    for page in folder.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        if "```mermaid" in text:
            top = "../" * (len(page.relative_to(folder).parts) - 1)
            tag = f'\n<script src="{top}assets/mermaid/mermaid.min.js"></script>\n'
            page.write_text(text + tag, encoding="utf-8")


def notebooks(folder: Path) -> None:
    """The notebooks with what is kept in them, which a test holds equal to what they show."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        target = folder / "notebooks" / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def reference(folder: Path) -> None:
    """One page per module that public names come from, with their docstrings."""
    import tensorir as ti

    parts: dict[str, list[str]] = defaultdict(list)
    for name in dir(ti):
        value = getattr(ti, name)
        if inspect.ismodule(value):
            parts[value.__name__].append(value.__name__)
        elif (inspect.isclass(value) or inspect.isfunction(value)) and value.__qualname__ != "__version__":
            home = value.__module__
            known = hasattr(sys.modules[home], value.__name__)
            parts[home if known else "tensorir"].append(f"{home}.{value.__name__}" if known else f"tensorir.{name}")
    lines = ["# The API\n", "What `import tensorir as ti` gives, by the module that it is defined in.\n"]
    for part in sorted(parts):
        lines.append(f"- [{part}](api/{part}.md)")
        page = [f"# {part}\n", *(f"::: {name}\n" for name in sorted(set(parts[part])))]
        target = folder / "api" / f"{part}.md"
        target.parent.mkdir(exist_ok=True)
        target.write_text("\n".join(page), encoding="utf-8")
    (folder / "api.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    copy(folder)
    scripts(folder / "assets", ROOT / "build" / "packages")
    diagrams(folder)
    reference(folder)
    notebooks(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

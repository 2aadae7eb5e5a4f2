"""Light or dark, as the page has it in which something stands, and only where a page says nothing as the system has it.

Notebooks say it by an attribute (JupyterLab, VS Code), pages of documents by theirs (Sphinx, mkdocs-material), and
xarray's own pages follow the same ones.

>>> print(themed({".a": "color:black"}, {".a": "color:white"}).splitlines()[0])
@media (prefers-color-scheme: dark){.a{color:white}}
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["themed"]

DARK = (
    "html[theme=dark]", "html[data-theme=dark]", "body[data-theme=dark]", "body[data-jp-theme-light=false]",
    "body.vscode-dark", "[data-md-color-scheme=slate]",
)  # fmt: skip
LIGHT = (
    "html[theme=light]", "html[data-theme=light]", "body[data-theme=light]", "body[data-jp-theme-light=true]",
    "body.vscode-light", "[data-md-color-scheme=default]",
)  # fmt: skip
"""What is on pages that say which they are."""


def themed(light: Mapping[str, str], dark: Mapping[str, str]) -> str:
    """Rules by selector that are added to those of light paper, which stand for themselves."""
    lines = [f"@media (prefers-color-scheme: dark){{{_rules('', dark)}}}"]
    lines += [_rules(f":is({','.join(pages)}) ", rules) for pages, rules in ((LIGHT, light), (DARK, dark))]
    return "\n".join(lines)


def _rules(before: str, rules: Mapping[str, str]) -> str:
    return "".join(f"{before}{selector}{{{declared}}}" for selector, declared in rules.items())

"""Pages and pictures are as dark as the page in which they stand, on systems of either kind."""

import re

import pytest

import tensorir as ti

F = ti.parse("f(out: tensor<float, I[1:9]>, x: tensor<float, I[0:10]>) { out ← ⟪I, 1⟫(x) - ⟪I, -1⟫(x); }")
PAGE = F._repr_html_()
PICTURE = ti.inspect.dataflow(F)._repr_html_()

DARK_PAGES = [
    "html[theme=dark]", "html[data-theme=dark]", "body[data-jp-theme-light=false]", "body.vscode-dark",
    "[data-md-color-scheme=slate]",
]  # fmt: skip
LIGHT_PAGES = [
    "html[theme=light]", "html[data-theme=light]", "body[data-jp-theme-light=true]", "body.vscode-light",
    "[data-md-color-scheme=default]",
]  # fmt: skip


def cascaded(html, element, declared, page, system):
    """What a property of an element is: later rules win, and those for a kind of page win over those for none."""
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    style = re.sub(r"@media \(prefers-color-scheme: (\w+)\)\{((?:[^{}]*\{[^{}]*\})*)\}", _inside(system), style)
    found = []
    for k, (selector, rules) in enumerate(re.findall(r"([^{}]+)\{([^{}]*)\}", style)):
        *before, last = selector.strip().rsplit(" ", 1)
        values = re.findall(rf"(?:^|;){re.escape(declared)}:([^;]*)", rules)
        pages = before[0].removeprefix(":is(").removesuffix(")").split(",") if before else []
        if last == element and values and (not pages or page in pages):
            found.append((len(pages) > 0, k, values[-1]))
    return max(found)[2] if found else None


def _inside(system):
    return lambda media: media[2] if media[1] == system else ""


@pytest.mark.parametrize("system", ["light", "dark"])
@pytest.mark.parametrize("page", [*DARK_PAGES, *LIGHT_PAGES])
def test_a_page_says_whether_it_is_dark_and_the_system_does_not_matter_then(page, system):
    dark = page in DARK_PAGES
    assert cascaded(PAGE, ".tensorir", "--ink", page, system) == ("#ddd" if dark else "#222")
    assert cascaded(PAGE, ".tensorir", "--new", page, system) == ("#22482c" if dark else "#ddf3e1")
    assert cascaded(PICTURE, ".ink-fill", "fill", page, system) == ("#e2e2e2" if dark else "#222222")
    assert cascaded(PICTURE, ".paper-fill", "fill", page, system) == ("#1e1e1e" if dark else "#ffffff")


@pytest.mark.parametrize("page", [None, "body.plain"])
def test_on_a_page_that_says_nothing_it_is_as_the_system_has_it(page):
    assert cascaded(PAGE, ".tensorir", "--ink", page, "dark") == "#ddd"
    assert cascaded(PAGE, ".tensorir", "--ink", page, "light") == "#222"
    assert cascaded(PICTURE, ".ink-fill", "fill", page, "dark") == "#e2e2e2"
    # on light paper shapes have the colours that stand at them
    assert (
        cascaded(PICTURE, ".ink-fill", "fill", page, "light") is None and 'class="ink-fill" fill="#222222"' in PICTURE
    )

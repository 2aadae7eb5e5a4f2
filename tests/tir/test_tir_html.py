"""What a notebook shows of functions and modules: their text, folded, escaped, with nothing from elsewhere."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from tir_samples import kernels

import tensorir.tir as tir


class Page(HTMLParser):
    """The tags of a page, nested as they have to be, and the text between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.open, self.tags = "", list[str](), list[tuple[str, dict[str, str | None]]]()
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] != "style":
            self.text += data


@pytest.mark.parametrize("text", kernels("new", "relax"))
def test_a_page_holds_the_whole_text_and_nothing_else(text: str):
    module = tir.parse(text)
    page = Page(module._repr_html_())
    if all(len(line) < 400 for line in str(module).splitlines()):  # longer ones are cut, and say so
        assert "".join(page.text.split()) == "".join(str(module).split())
    assert {tag for tag, _ in page.tags} <= {"div", "style", "details", "summary", "span"}
    for _, attrs in page.tags:
        assert not attrs.keys() & {"src", "href", "onclick", "onload"}


def test_a_name_cannot_leave_its_place():
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    T.func_attr({"note": "<script>alert(1)</script>&amp;\\"><b>"})
    with T.sblock("<img src=x>"):
        T.reads()
        T.writes(A[0])
        A[0] = T.float32(0)
"""
    html = tir.parse(text)["main"]._repr_html_()
    assert "<script" not in html and "<img" not in html and "<b>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;" in html


def test_loops_have_the_colour_of_their_kind():
    text = """
@T.prim_func
def main(A: T.Buffer((4, 4, 4), "int32")):
    for i in T.parallel(4):
        for j in T.vectorized(4):
            for k in range(4):
                A[i, j, k] = 0
    for t in T.thread_binding(4, thread="threadIdx.x"):
        A[t, 0, 0] = 1
    while A[0, 0, 0] < 5:
        A[0, 0, 0] = A[0, 0, 0] + 1
"""
    tags = Page(tir.parse(text)._repr_html_()).tags
    hues = [attrs["style"] for tag, attrs in tags if attrs.get("class") == "loop"]
    assert hues == ["--hue:25", "--hue:140", "--hue:210", "--hue:285", "--hue:210"]


def test_blocks_of_long_functions_are_folded_and_say_what_they_do():
    block = """    for i in range(8):
        with T.sblock("b"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(A[vi])
            A[vi] = A[vi] + 1
"""
    head = '@T.prim_func\ndef main(A: T.Buffer((8,), "int32")):\n'
    short, long = (Page(tir.parse(head + block * times)["main"]._repr_html_()) for times in (1, 9))
    closed = [sum(tag == "details" and "open" not in attrs for tag, attrs in page.tags) for page in (short, long)]
    assert closed == [0, 9]
    assert "# A[vi] ← A[vi]" in long.text and "←" not in short.text


def test_a_page_is_readable_on_light_and_on_dark_paper():
    html = tir.parse('@T.prim_func\ndef main(A: T.Buffer((8,), "int32")):\n    A[0] = 1\n')._repr_html_()
    assert "@media (prefers-color-scheme: dark)" in html

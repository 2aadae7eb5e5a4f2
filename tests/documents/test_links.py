"""The check of links finds what is broken, and nothing is."""

import pytest

from tests.documents import links


@pytest.mark.parametrize("page", links.pages(), ids=lambda p: p.name)
def test_every_link_of_a_page_leads_somewhere(page):
    assert list(links.broken(page)) == []


def test_a_link_to_nowhere_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(links, "ROOT", tmp_path)
    page = tmp_path / "a.md"
    page.write_text("# Head\n[x](b.md) [y](a.md#head) [z](#tail) [w](https://example.org)\n```\n[q](c.md)\n```\n")
    assert list(links.broken(page)) == [
        "a.md: b.md: there is no such file",
        "a.md: #tail: there is no such heading",
    ]

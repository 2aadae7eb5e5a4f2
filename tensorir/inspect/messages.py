"""Diagnostics and reports as pages.

>>> from tensorir.runtime.errors import Diagnostic
>>> "<b>" in Diagnostic("A01", "<b>")._repr_html_()
False
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from tensorir.inspect.page import Fold, Markup, coloured, joined, markup, page, pre, range_of, table

if TYPE_CHECKING:
    from tensorir.analysis.cost import Worth
    from tensorir.inspect.intermediates import Inspection
    from tensorir.passes.decisions import Plan
    from tensorir.passes.explain import Explanation
    from tensorir.passes.pipeline import Pipeline
    from tensorir.runtime.errors import Diagnostic, DiagnosticError

__all__ = [
    "diagnostic_page",
    "diagnostics_page",
    "error_page",
    "explanation_page",
    "inspection_page",
    "pipeline_page",
    "plan_page",
    "traceback_of",
    "worth_page",
]

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_OURS = tuple(os.path.join(_ROOT, package) + os.sep for package in ("tensorir", "lowering"))


def diagnostic_page(found: Diagnostic) -> str:
    """One diagnostic."""
    return diagnostics_page([found])


def error_page(error: DiagnosticError) -> str:
    """All diagnostics of an error."""
    return diagnostics_page(error.diagnostics)


def diagnostics_page(found: Iterable[Diagnostic]) -> str:
    """Every diagnostic: its sentence, the line with its mark, notes and help."""
    return page(*map(_one, found))


def _one(d: Diagnostic) -> Fold:
    first, *rest = str(d).split("\n")
    sentence = first.rpartition(f"{d.severity}[{d.code}]: ")[2] if d.severity in first else first
    where = "" if not (place := first.partition(f"{d.severity}[")[0]) else f" {place.rstrip(': ')}"
    head = markup(
        '<span class="error">{} {}</span> {} <span class="where">{}</span>', d.severity, d.code, sentence, where
    )
    return Fold(head, (Fold(pre("\n".join(rest))),) if rest else ())


def traceback_of(error: DiagnosticError, trace: TracebackType | None) -> list[str]:
    """What a notebook shows where the error ends a cell: the user's lines that led there, and the diagnostics."""
    lines: list[str] = []
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        text = linecache.getline(name, trace.tb_lineno, trace.tb_frame.f_globals).strip()
        if text and "site-packages" not in name and not name.startswith(_OURS):
            lines.append(f"  line {trace.tb_lineno}: {text}")
        trace = trace.tb_next
    return [*(["called in", *lines[-3:], ""] if lines else []), *str(error).split("\n")]


def explanation_page(explanation: Explanation) -> str:
    """Who needs which points: a table, the words, and the domains as a picture."""
    from tensorir.inspect.domain_pictures import domains_of

    rows = [(markup("<code>{}</code>", n), str(p), f"{len(p):,}") for n, p in explanation.needs.items()]
    picture = Markup(domains_of(explanation.domains).svg) if explanation.needs else Markup("")
    return page(table(("of", "needed", "points"), rows), picture, pre(str(explanation)))


def inspection_page(inspection: Inspection) -> str:
    """Every intermediate: its type, its line, its range, and its numbers below."""
    folds: list[Fold] = []
    for one in inspection.intermediates:
        head = markup('<span class="name">{}</span>{} ', one.name, coloured(one.type))
        below: list[Fold] = [Fold(markup("<code>{}</code>", one.text))]
        for member in one.members:
            array = inspection.arrays[member]
            unit = array.attrs.get("units", "")
            what = joined([markup("<code>{}</code> ", member), range_of(array.values), markup(" {}", unit)])
            numbers = pre(np.array2string(array.values, threshold=60, edgeitems=3))
            below.append(Fold(what, (Fold(numbers),), open=False))
        where = markup('<span class="where">line {}</span>', one.line) if one.line else Markup("")
        folds.append(Fold(joined([head, where]), tuple(below), open=False))
    return page(Fold(markup("{} intermediates", len(folds)), tuple(folds)))


def worth_page(*figures: Worth) -> str:
    """What buffers are worth."""
    rows = [
        (markup("<code>{}</code>", w.name), w.uses, f"{w.work:g}", f"{w.saved:,}", f"{w.added:,}", f"{w.per_byte:.2f}")
        for w in figures
    ]
    head = ("buffer", "places", "operations per point", "operations saved", "bytes added", "saved per byte")
    return page(table(head, rows))


def plan_page(plan: Plan) -> str:
    """A plan: what was chosen, as a table, and why below."""
    from tensorir.passes.decisions import HEAD

    head, *more = plan.head()
    folds = [Fold(markup("{}", line)) for line in plan.notes()]
    return page(
        Fold(markup('<span class="name">{}</span>', head), tuple(Fold(markup("{}", line)) for line in more)),
        table(HEAD, [(markup("<code>{}</code>", name), *rest) for name, *rest in plan.rows()]),
        Fold(markup("{}", "why, and what switches it off"), tuple(folds), open=False),
    )


def pipeline_page(pipeline: Pipeline) -> str:
    """The passes with their options and what each does."""
    rows = [
        (markup("<code>{}</code>", one.name()), repr(one), (type(one).__doc__ or "").strip().partition("\n")[0])
        for one in pipeline.passes
    ]
    return page(joined([table(("pass", "options", "what it does"), rows)]))

"""What notebooks show as a page: a mixin for types, nodes, programs and reports, and the table of what draws each.

>>> from tensorir.types import Interval
>>> "[0:3]" in Interval(0, 3)._repr_html_()
True
"""

from __future__ import annotations

import importlib

__all__ = ["PAGES", "Displayed"]

PAGES = {
    "tensorir.types.Interval": "tensorir.inspect.pages:page_of",
    "tensorir.types.Dims": "tensorir.inspect.pages:page_of",
    "tensorir.types.TensorType": "tensorir.inspect.pages:page_of",
    "tensorir.types.FunctionType": "tensorir.inspect.pages:page_of",
    "tensorir.ir.Node": "tensorir.inspect.pages:page_of",
    "tensorir.ir.Closure": "tensorir.inspect.pages:page_of",
    "tensorir.ir.Fencil": "tensorir.inspect.pages:page_of",
    "tensorir.binding.bound.BoundProgram": "tensorir.inspect.pages:page_of",
    "tensorir.text.template.Template": "tensorir.inspect.pages:page_of",
    "tensorir.errors.Diagnostic": "tensorir.inspect.messages:diagnostic_page",
    "tensorir.errors.DiagnosticError": "tensorir.inspect.messages:error_page",
    "tensorir.analysis.buffer_worth.Worth": "tensorir.inspect.messages:worth_page",
    "tensorir.passes.explain.Explanation": "tensorir.inspect.messages:explanation_page",
    "tensorir.passes.pipeline.Pipeline": "tensorir.inspect.messages:pipeline_page",
    "tensorir.plan.Plan": "tensorir.inspect.messages:plan_page",
    "tensorir.distribution.plan.DistributionPlan": "tensorir.inspect.distribution_pictures:page_of",
    "tensorir.inspect.intermediates.Inspection": "tensorir.inspect.messages:inspection_page",
    "tensorir.tir.nodes.functions.PrimFunc": "tensorir.tir.html:page_of",
    "tensorir.tir.nodes.functions.GraphFunction": "tensorir.tir.html:page_of",
    "tensorir.tir.nodes.functions.IRModule": "tensorir.tir.html:page_of",
    "tensorir.tile.nodes.Module": "tensorir.tile.html:page_of",
    "tensorir.tile.types.PartitionView": "tensorir.tile.html:view_of",
    "tensorir.tile.types.StridedView": "tensorir.tile.html:view_of",
    "tensorir.tile.types.GatherScatterView": "tensorir.tile.html:view_of",
    "tensorir.fieldview.operator.FieldOperator": "tensorir.inspect.pages:operator_page",
    "tensorir.fieldview.program.Program": "tensorir.inspect.pages:operator_page",
}
"""By the full name of a class, the function that draws its instances; it is imported when a page is asked for."""


class Displayed:
    """Something that `tensorir.inspect` draws as a page of HTML."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        place = next(PAGES[name] for kind in type(self).__mro__ if (name := _full_name(kind)) in PAGES)
        module, _, function = place.partition(":")
        page: str = getattr(importlib.import_module(module), function)(self)
        return page


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"

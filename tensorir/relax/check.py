"""The checks of a function of Relax: names are bound before they are used, and callees exist and fit.

Shapes and data types are compared with their annotations when the text is read.
"""

from __future__ import annotations

from tensorir.relax import nodes as r
from tensorir.runtime.errors import Diagnostic, did_you_mean
from tensorir.tir import nodes as n
from tensorir.tir.trees import children


def check_relax(func: r.Function, module: n.IRModule) -> list[Diagnostic]:
    """Everything that is wrong with a function, in the order of the text."""
    found: list[Diagnostic] = []
    known: set[n.Node] = set(func.params)
    pending: list[n.Node] = [func.body]
    while pending:
        node = pending.pop()
        match node:
            case r.VarBinding(var) | r.MatchCast(var):
                if var in known:
                    found.append(Diagnostic("TC41", f"{var.name!r} is bound a second time.", node.span))
                if isinstance(node.value, r.Function):  # which may call itself
                    known.add(var)
                pending.append(_Bind(var))
                pending.append(node.value)
                continue
            case _Bind(var):
                known.add(var)
                continue
            case r.RelaxVar():
                if node not in known:
                    found.append(Diagnostic("TC40", f"{node.name!r} has no value here.", node.span))
                continue
            case r.Function():
                known |= set(node.params)
            case r.FunctionRef(name) if name not in module.functions:
                hint = did_you_mean(name, module.functions)
                found.append(Diagnostic("TC43", f"the module has no function {name!r}.", node.span, help=hint))
            case r.Call("call_tir", (r.FunctionRef(name), r.Tuple(fields), *more)):
                callee = module.functions.get(name)
                given = len(fields) + sum(map(_leaves, node.types))
                sizes = sum(len(m.values) for m in more if isinstance(m, r.ShapeExpr))
                if isinstance(callee, n.PrimFunc) and len(callee.params) != given + sizes:
                    message = f"{name!r} takes {len(callee.params)} arguments, but this call gives {given + sizes}."
                    found.append(Diagnostic("TC44", message, node.span))
            case _:
                pass
        parts = children(node)
        if isinstance(node, r.DataflowBlock | r.BindingBlock):
            parts = iter(node.bindings)
        elif isinstance(node, r.Function):
            parts = iter((node.body,))
        pending.extend(reversed([part for part in parts if not isinstance(part, r.RelaxType)]))
    return found


class _Bind(n.Node):
    """From here on the variable is known."""

    __match_args__ = ("var",)

    def __init__(self, var: r.RelaxVar) -> None:
        self.var = var


def _leaves(kind: r.RelaxType) -> int:
    return sum(map(_leaves, kind.fields)) if isinstance(kind, r.TupleType) else 1

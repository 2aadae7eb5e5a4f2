"""Reads of shared and local storage that another kernel filled: every kernel has its own, without contents.

>>> import tensorir.tir as tir
>>> func = tir.parse('''
... @T.prim_func
... def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
...     S = T.alloc_buffer((8,), "float32", scope="shared")
...     for x in T.thread_binding(8, thread="threadIdx.x"):
...         S[x] = A[x]
...     for x in T.thread_binding(8, thread="threadIdx.x"):
...         B[x] = S[7 - x]
... ''')["main"]
>>> print(lost_storage(func.body).message)
'S' is read here, but it is shared storage that another kernel has filled: each kernel has its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tensorir.runtime.errors import Diagnostic, Note, Span
from tensorir.tir import nodes as n
from tensorir.tir.tags import is_hardware
from tensorir.tir.walk import children

__all__ = ["lost_storage"]

_Region = n.Stmt | None
"""A kernel, or None for all that stands in none."""


_POINTERS = frozenset(("address_of", "access_ptr", "buffer_data", "tvm_access_ptr", "ptx_cp_async"))
"""The calls whose operand names a place, and not the value there."""


@dataclass(slots=True)
class _Uses:
    """Where a memory is read and stored to: by region, the first place of each."""

    buffer: n.Buffer
    reads: dict[_Region, Span] = field(default_factory=dict[_Region, Span])
    stores: dict[_Region, Span] = field(default_factory=dict[_Region, Span])


def lost_storage(body: n.Stmt) -> Diagnostic | None:
    """The first read of what only another kernel stores; None where there is none.

    What stands outside of every kernel may fill storage for all of them.
    """
    found: dict[n.Var, _Uses] = {}
    roots: dict[n.Var, n.Var] = {}
    own: set[n.Var] = set()
    pending: list[tuple[n.Node, _Region]] = [(body, None)]
    while pending:
        node, region = pending.pop()
        if region is None and isinstance(node, n.Stmt) and _starts_kernel(node):
            region = node
        match node:
            case n.Block(alloc_buffers=made) if region is not None:
                own |= {buffer.data for buffer in made}
            case n.AllocBuffer(made) | n.BufferRealize(made) if region is not None:
                own.add(made.data)
            case n.Allocate(buffer_var=made) if region is not None:
                own.add(made)
            case n.MatchBufferRegion(buffer, source):
                roots[buffer.data] = roots.get(source.buffer.data, source.buffer.data)
                continue
            case n.DeclBuffer(buffer, n.Expr() as data):
                if isinstance(data, n.Var):
                    roots[buffer.data] = roots.get(data, data)
                continue
            case n.BufferStore(buffer):
                _uses(found, roots, buffer).stores.setdefault(region, node.span)
            case n.BufferLoad(buffer):
                _uses(found, roots, buffer).reads.setdefault(region, node.span)
            case n.Call(args=arguments):
                for given in arguments:  # what takes a pointer may store
                    match given:
                        case n.Buffer() as buffer:
                            _uses(found, roots, buffer).stores.setdefault(region, node.span)
                        case n.BufferRegion(buffer) | n.BufferLoad(buffer) if node.op in _POINTERS:
                            _uses(found, roots, buffer).stores.setdefault(region, node.span)
                        case n.Var() if given.dtype.code == "handle":
                            own.add(roots.get(given, given))
                        case _:
                            pass
            case n.BufferRegion():
                continue  # declared, not accessed
            case _:
                pass
        pending.extend((child, region) for child in reversed(list(children(node))) if not isinstance(child, n.Buffer))
    for data, uses in found.items():
        if data in own or uses.buffer.scope in ("global", "") or None in uses.stores:
            continue
        for region, span in uses.reads.items():
            if region not in uses.stores and uses.stores:
                return _told(uses, span, next(iter(uses.stores.values())))
    return None


def _uses(found: dict[n.Var, _Uses], roots: dict[n.Var, n.Var], buffer: n.Buffer) -> _Uses:
    return found.setdefault(roots.get(buffer.data, buffer.data), _Uses(buffer))


def _starts_kernel(node: n.Stmt) -> bool:
    match node:
        case n.For(kind=n.ForKind.THREAD_BINDING, thread_binding=n.IterVar(thread_tag=tag)):
            return is_hardware(tag)
        case n.AttrStmt(n.IterVar(thread_tag=tag), "thread_extent"):
            return is_hardware(tag)
        case _:
            return False


def _told(uses: _Uses, read: Span, stored: Span) -> Diagnostic:
    scope = uses.buffer.scope.partition(".")[0]
    message = (
        f"{uses.buffer.name!r} is read here, but it is {scope} storage that another kernel has filled: "
        "each kernel has its own."
    )
    help = "put both into one kernel, or give the buffer the scope global."
    return Diagnostic("TR28", message, read, (Note("another kernel stores here.", stored),), help)

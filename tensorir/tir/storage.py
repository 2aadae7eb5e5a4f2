"""Storage of kernels: what a block allocates for a parallel loop, and reads of another kernel's memory.

Storage that a block allocates for the iterations of a parallel loop.

A schedule names the storage of a stage at the root, wherever the stage was moved to; TVM allocates it where all that
uses it stands (its pass PlanAndUpdateBufferAllocationLocation). So where one loop that runs at once holds all of it,
each iteration has storage of its own, and iterations that fill the same elements do not meet. What a block folds into
stands outside of the loops that it folds over, as they go on with it:

>>> import tensorir.tir as tir
>>> main = tir.parse('''
... @T.prim_func
... def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
...     S = T.sblock_alloc_buffer((1,))
...     for i in T.parallel(4):
...         S[0] = A[i]
...         B[i] = S[0]
... ''')["main"]
>>> [(loop.loop_var.name, [b.name for b in buffers]) for loop, buffers in scratch_of(main.body.block).items()]
[('i', ['S'])]

Reads of shared and local storage that another kernel filled: every kernel has its own, without contents.

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

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tensorir.runtime.errors import Diagnostic, Note, Span
from tensorir.tir import nodes as n
from tensorir.tir.builtins import is_hardware
from tensorir.tir.nodes import Block, BlockRealize, Buffer, For, ForKind, IterKind, Node, Stmt, Var
from tensorir.tir.trees import children, walk

AT_ONCE = (ForKind.PARALLEL, ForKind.VECTORIZED)
"""The loops whose iterations run at once."""


def scratch_of(block: Block) -> Mapping[For, tuple[Buffer, ...]]:
    """The loops that run at once inside of a block, with those of its buffers that nothing outside of them uses."""
    named = {buffer.data: buffer for buffer in block.alloc_buffers}
    if not named:
        return {}
    loops = [node for node in walk(block.body) if isinstance(node, For) and node.kind in AT_ONCE]
    whole = _uses(block.body, named) if loops else Counter[Var]()
    folded = _folded(block.body, named) if loops else {}
    variables = {node.loop_var for node in walk(block.body) if isinstance(node, For)} if folded else set[Var]()
    found: dict[For, tuple[Buffer, ...]] = {}
    for loop in loops:
        around = variables - {node.loop_var for node in walk(loop.body) if isinstance(node, For)}
        own = tuple(
            named[data]
            for data, count in _uses(loop, named).items()
            if count == whole[data] and not folded.get(data, set[Var]()) & around
        )
        if own:
            found[loop] = own
    return found


def _folded(body: Stmt, named: Mapping[Var, Buffer]) -> dict[Var, set[Var]]:
    """The loops over which each memory is folded: it lasts from one turn to the next, so it stands outside of them."""
    bound: dict[Var, set[Var]] = {}  # the loops of which the iterator of a block is made
    found: dict[Var, set[Var]] = {}
    for realize in walk(body):
        if not isinstance(realize, BlockRealize):
            continue
        over: set[Var] = set()
        for iterator, value in zip(realize.block.iter_vars, realize.values, strict=True):
            parts = {part for part in walk(value) if isinstance(part, Var)}
            loops = set[Var]().union(*(bound.get(part, {part}) for part in parts))
            bound[iterator.var] = loops
            if iterator.kind is not IterKind.DATA_PARALLEL:
                over |= loops
        for region in realize.block.writes if over else ():
            if region.buffer.data in named:
                found.setdefault(region.buffer.data, set()).update(over)
    return found


def _uses(node: Node, named: Mapping[Var, Buffer]) -> Counter[Var]:
    """The number of uses of each memory at and below a node."""
    uses: Counter[Var] = Counter()
    for part in walk(node):
        data = part.data if isinstance(part, Buffer) else part
        if isinstance(data, Var) and data in named:
            uses[data] += 1
    return uses


_Region = n.Stmt | None
"""A kernel, or None for all that stands in none."""


_POINTERS = frozenset(("address_of", "access_ptr", "buffer_data", "tvm_access_ptr", "ptx_cp_async"))
"""The calls whose operand names a place, and not the value there."""


@dataclass(slots=True)
class _Uses:
    """Reads of a memory and stores to it: by region, the first place of each."""

    buffer: n.Buffer
    reads: dict[_Region, Span] = field(default_factory=dict[_Region, Span])
    stores: dict[_Region, Span] = field(default_factory=dict[_Region, Span])


def lost_storage(body: n.Stmt) -> Diagnostic | None:
    """The first read of what only another kernel stores; None where there is none.

    What stands outside of every kernel may fill storage for all of them.
    """
    found, own, _ = _storage(body)
    for data, uses in found.items():
        if data in own or uses.buffer.scope in ("global", "") or None in uses.stores:
            continue
        for region, span in uses.reads.items():
            if region not in uses.stores and uses.stores:
                return _told(uses, span, next(iter(uses.stores.values())))
    return None


def used_outside(body: n.Stmt) -> Mapping[n.Var, tuple[Span, Span | None]]:
    """The memories that are used outside of every kernel: there, and the first store of a kernel, or None."""
    found, _, roots = _storage(body)
    used = {
        data: (
            uses.stores.get(None) or uses.reads[None],
            next((span for region, span in uses.stores.items() if region is not None), None),
        )
        for data, uses in found.items()
        if (None in uses.stores or None in uses.reads) and uses.buffer.scope not in ("global", "")
    }
    return used | {name: used[data] for name, data in roots.items() if data in used}


def _storage(body: n.Stmt) -> tuple[dict[n.Var, _Uses], set[n.Var], dict[n.Var, n.Var]]:
    """The uses of each memory; the memories that kernels make or take by a pointer; the memory behind each name."""
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
                _uses_of_storage(found, roots, buffer).stores.setdefault(region, node.span)
            case n.BufferLoad(buffer):
                _uses_of_storage(found, roots, buffer).reads.setdefault(region, node.span)
            case n.Call(args=arguments):
                for given in arguments:  # what takes a pointer may store
                    match given:
                        case n.Buffer() as buffer:
                            _uses_of_storage(found, roots, buffer).stores.setdefault(region, node.span)
                        case n.BufferRegion(buffer) | n.BufferLoad(buffer) if node.op in _POINTERS:
                            _uses_of_storage(found, roots, buffer).stores.setdefault(region, node.span)
                        case n.Var() if given.dtype.code == "handle":
                            own.add(roots.get(given, given))
                        case _:
                            pass
            case n.BufferRegion():
                continue  # declared, not accessed
            case _:
                pass
        pending.extend((child, region) for child in reversed(list(children(node))) if not isinstance(child, n.Buffer))
    return found, own, roots


def _uses_of_storage(found: dict[n.Var, _Uses], roots: dict[n.Var, n.Var], buffer: n.Buffer) -> _Uses:
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

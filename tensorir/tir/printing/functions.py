"""Functions and modules of TIR as TVMScript."""

from __future__ import annotations

from collections import Counter

from tensorir.runtime.assembly import print_graph_function
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import HANDLE, INT32, INT64
from tensorir.tir.printing.expressions import ExpressionPrinter
from tensorir.tir.printing.names import Names
from tensorir.tir.printing.statements import StatementPrinter, launches_thread
from tensorir.tir.walk import walk

__all__ = ["module_text", "prim_func_text"]


def module_text(module: n.IRModule, old: bool) -> str:
    """The whole module, with the comments (or, in the old dialect, the imports) that stand above it."""
    sizes: dict[str, None] = {}
    pieces: list[list[str]] = []
    relax = False
    types: dict[str, n.GraphNode] = {}
    wide = {name for function in module.functions.values() for name in _module_sizes(function)}
    for name, function in module.functions.items():
        if isinstance(function, n.PrimFunc):
            pieces.append(_prim_func(name, function, old, sizes, wide, module.name))
        else:
            relax = True
            pieces.append(print_graph_function(name, function, old, sizes, module.name, types))
    dialect = "tir" if old else "tirx"
    mark = "" if old else "# "
    lines = [f"{mark}from typing import TypeVar"] if sizes else []
    lines += [f"{mark}from tvm.script import ir as I", f"{mark}from tvm.script import {dialect} as T"]
    lines += [f"{mark}from tvm.script import relax as R"] if relax else []
    lines += ["", *(f'{size} = TypeVar("{size}")' for size in sizes), "@I.ir_module", f"class {module.name}:"]
    show = ExpressionPrinter(Names(), old)
    if module.attrs:
        lines.append(f"    I.module_attrs({show.attribute(module.attrs)})")
    for info in module.global_infos.values():
        lines.append(f"    I.module_global_infos({show.attribute(info)})")
    for piece in pieces:
        lines += [*(f"    {line}" if line else "" for line in piece), ""]
    if not pieces:
        lines += ["    pass", ""]
    return "\n".join(lines)


def prim_func_text(function: n.PrimFunc, old: bool) -> str:
    """A function that stands alone."""
    sizes: dict[str, None] = {}
    body = _prim_func(function.name, function, old, sizes, _module_sizes(function))
    mark = "" if old else "# "
    lines = [f"{mark}from typing import TypeVar"] if sizes else []
    lines += [f"{mark}from tvm.script import {'tir' if old else 'tirx'} as T", ""]
    lines += [f'{size} = TypeVar("{size}")' for size in sizes]
    return "\n".join([*lines, *body, ""])


def _module_sizes(function: n.PrimFunc | n.GraphFunction) -> set[str]:
    """The names of the sizes that the module declares for the function."""
    if isinstance(function, n.PrimFunc):
        sizes = [size for buffer in function.buffer_map.values() for size in _sizes_of(buffer)]
        return {size.name for size in sizes if size.dtype == INT64}
    return {part.name for param in function.params for part in walk(param.type) if isinstance(part, n.Var)}


def _prim_func(
    name: str, function: n.PrimFunc, old: bool, sizes: dict[str, None], wide: set[str], module: str = "cls"
) -> list[str]:
    """The function, line by line; `wide` holds the names that are sizes of type int64 everywhere in the module."""
    names = Names({module})
    expressions = ExpressionPrinter(names, old, module)
    defined: set[n.Var] = set()
    writer = StatementPrinter(expressions, defined)
    scalars = {param for param in function.params if param not in function.buffer_map}
    inside: set[n.Var] = set() if old else _sizes_of_body(function, wide)
    if not old:
        _sizes_of_module(function, names, defined, sizes, inside)
    matched: list[tuple[n.Var, n.Buffer]] = []
    params: list[str] = []
    for param in function.params:
        buffer = function.buffer_map.get(param)
        if buffer is None:
            params.append(f"{names.define(param)}: {_param_type(expressions, param)}")
            defined.add(param)
        elif old or not inside.isdisjoint(_sizes_of(buffer)):
            params.append(f"{names.define(param)}: T.handle")
            matched.append((param, buffer))
        else:
            fields = writer.fields(buffer, "type")
            params.append(f"{names.define(buffer)}: T.Buffer({fields})")
            defined.add(buffer.data)
    returns = "" if function.ret_type is None else f" -> {expressions.type(function.ret_type)}"
    lines = [_decorator(name, function, old), f"def {name}({', '.join(params)}){returns}:"]
    writer.depth = 1
    attrs = {key: value for key, value in function.attrs.items() if (key, value) != ("global_symbol", name)}
    if old:
        attrs = {f"tir.{key.removeprefix('tirx.')}" if key.startswith("tirx.") else key: v for key, v in attrs.items()}
    if attrs:
        writer.line(f"T.func_attr({expressions.attribute(attrs)})")
    if matched:
        _matches(writer, matched, defined, scalars)
    _preamble(writer, function, defined)
    root = _trivial_root(function.body)
    if root is not None:
        writer.line(f'# with T.{"block" if old else "sblock"}("root"):')
        writer.allocs(root.alloc_buffers)
        writer.suite(root.body)
    else:
        writer.suite(function.body)
    return lines + writer.lines


def _decorator(name: str, function: n.PrimFunc, old: bool) -> str:
    words: list[str] = []
    if "global_symbol" not in function.attrs:
        words.append("private=True")
    if function.s_tir != old:
        words.append(f"s_tir={function.s_tir}")
    return f"@T.prim_func({', '.join(words)})" if words else "@T.prim_func"


def _param_type(expressions: ExpressionPrinter, param: n.Var) -> str:
    return "T.handle" if param.type == n.PrimType(HANDLE) else expressions.type(param.type)


def _sizes_of_module(
    function: n.PrimFunc, names: Names, defined: set[n.Var], sizes: dict[str, None], inside: set[n.Var]
) -> None:
    """Sizes of type int64 are declared above the module, as in TVM 0.27."""
    for param in function.params:
        buffer = function.buffer_map.get(param)
        if buffer is None:
            continue
        for part in _sizes_of(buffer):
            if part.dtype == INT64 and part not in defined | inside:
                defined.add(part)
                sizes[names.define(part)] = None


def _sizes_of(buffer: n.Buffer) -> list[n.Var]:
    """The variables of shape, strides and offset; an offset that is one by itself has no name of its own."""
    offset = () if buffer.elem_offset is None or isinstance(buffer.elem_offset, n.Var) else (buffer.elem_offset,)
    sizes = (*buffer.shape, *buffer.strides, *offset)
    return [part for size in sizes for part in walk(size) if isinstance(part, n.Var)]


def _sizes_of_body(function: n.PrimFunc, wide: set[str]) -> set[n.Var]:
    """The sizes that are declared in the body, with all that stand beside them in a buffer.

    A signature binds sizes of type int64, which the module declares, and those of type int32 that it uses once. TVM
    prints `T.Buffer(("n", n))` where it uses one more often, and cannot read that again.
    """
    buffers = [function.buffer_map[param] for param in function.params if param in function.buffer_map]
    uses = Counter(size for buffer in buffers for size in _sizes_of(buffer))
    scalars = set(function.params) - function.buffer_map.keys()
    known = {size for size in uses if size.dtype == INT64}
    found: set[n.Var] = set()
    for param in function.params:
        buffer = function.buffer_map.get(param)
        if buffer is None:
            known.add(param)
            continue
        for size in {size for size in _sizes_of(buffer) if size not in known}:
            bound = size in scalars or size.dtype == INT32
            if uses[size] > 1 or not bound or size.name in wide:
                found.add(size)
    while True:
        beside = {size for b in buffers if not found.isdisjoint(_sizes_of(b)) for size in _sizes_of(b)}
        if beside <= found:
            return found
        found |= beside


def _matches(
    writer: StatementPrinter, matched: list[tuple[n.Var, n.Buffer]], defined: set[n.Var], scalars: set[n.Var]
) -> None:
    """`A = T.match_buffer(a, ...)`, after the variables that its sizes are."""
    for _, buffer in matched:
        for part in _sizes_of(buffer):
            if part not in defined and part not in scalars:
                defined.add(part)
                writer.line(f"{writer.names.define(part)} = {_variable(part)}")
    for param, buffer in matched:
        fields = writer.fields(buffer, "match", source=writer.names.of(param))
        writer.line(f"{writer.names.define(buffer)} = T.match_buffer({fields})")
        defined.add(buffer.data)


def _preamble(writer: StatementPrinter, function: n.PrimFunc, defined: set[n.Var]) -> None:
    """Names that the body uses and no statement of it binds.

    Variables of `Let`, axes of reductions, threads that are launched twice, free variables, and free buffers.
    """
    launches: Counter[n.Var] = Counter()
    tags: dict[n.Var, str] = {}
    used: dict[n.Var, None] = {}
    buffers: dict[n.Buffer, None] = {}
    bound: set[n.Var] = set(defined)
    for node in walk(function.body):
        match node:
            case n.Var():
                used[node] = None
            case n.For(var) | n.LetStmt(var) | n.Allocate(var) | n.AllocateConst(var):
                bound.add(var)
            case n.AllocBuffer(buffer) | n.DeclBuffer(buffer):
                bound.add(buffer.data)
            case n.Buffer():
                buffers[node] = None
            case n.Block(iter_vars=axes, alloc_buffers=allocs, match_buffers=matches):
                bound.update(axis.var for axis in axes)
                bound.update(buffer.data for buffer in (*allocs, *(match.buffer for match in matches)))
            case n.CommReducer(left, right):
                bound.update((*left, *right))
            case n.IndexMap(indices):
                bound.update(indices)
            case n.AttrStmt(n.IterVar(_, var, n.IterKind.THREAD_INDEX, tag)) if launches_thread(node):
                launches[var] += 1
                tags[var] = tag
            case _:
                pass
    again = {var for var, count in launches.items() if count > 1}
    bound |= launches.keys() - again
    free = [buffer for buffer in buffers if buffer.data not in bound]
    for buffer in free:
        if not bound.isdisjoint(set(_sizes_of(buffer)) - defined):
            writer.free.add(buffer)
    bound.update(buffer.data for buffer in free)
    for var in (*used, *(size for buffer in buffers for size in _sizes_of(buffer))):
        if var not in bound:
            bound.add(var)
            defined.add(var)
            made = f'T.env_thread("{tags[var]}")' if var in again else _variable(var)
            writer.line(f"{writer.names.define(var)} = {made}")
    for buffer in free:
        if buffer not in writer.free:
            writer.declare(buffer)


def _variable(var: n.Var) -> str:
    match var.type:
        case n.PrimType(dtype):
            return f"T.{dtype}()"
        case n.PointerType(n.PrimType(dtype), scope):
            return f'T.handle("{dtype}", "{scope}")'
        case _:
            return "T.handle()"


def _trivial_root(body: n.Stmt) -> n.Block | None:
    """The root block, where it declares nothing but its buffers, and where the reader adds it again."""
    match body:
        case n.BlockRealize((), n.IntImm(1), n.Block((), (), (), "root", inner, None, allocs, (), annotations)):
            shadowed = not allocs and isinstance(inner, n.BlockRealize) and not inner.block.iter_vars
            return None if annotations or shadowed else body.block
        case _:
            return None

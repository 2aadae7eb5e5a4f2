"""Functions and modules of TIR as TVMScript."""

from __future__ import annotations

from collections import Counter

from tensorir.tir import nodes as n
from tensorir.tir.dtypes import HANDLE, INT64
from tensorir.tir.printing.expressions import ExpressionPrinter
from tensorir.tir.printing.names import Names
from tensorir.tir.printing.statements import StatementPrinter
from tensorir.tir.walk import walk

__all__ = ["module_text", "prim_func_text"]


def module_text(module: n.IRModule, old: bool) -> str:
    """The whole module, with the comments (or, in the old dialect, the imports) that stand above it."""
    sizes: dict[str, None] = {}
    pieces: list[list[str]] = []
    relax = False
    for name, function in module.functions.items():
        if isinstance(function, n.PrimFunc):
            pieces.append(_prim_func(name, function, old, sizes, module.name))
        else:
            from tensorir.tir.relax.printing import function_lines

            relax = True
            pieces.append(function_lines(name, function, old, sizes, module.name))
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
    body = _prim_func(function.name, function, old, sizes)
    mark = "" if old else "# "
    lines = [f"{mark}from typing import TypeVar"] if sizes else []
    lines += [f"{mark}from tvm.script import {'tir' if old else 'tirx'} as T", ""]
    lines += [f'{size} = TypeVar("{size}")' for size in sizes]
    return "\n".join([*lines, *body, ""])


def _prim_func(name: str, function: n.PrimFunc, old: bool, sizes: dict[str, None], module: str = "cls") -> list[str]:
    names = Names({module})
    expressions = ExpressionPrinter(names, old, module)
    defined: set[n.Var] = set()
    writer = StatementPrinter(expressions, defined)
    scalars = {param for param in function.params if param not in function.buffer_map}
    if not old:
        _sizes_of_module(function, names, defined, sizes)
    matched: list[tuple[n.Var, n.Buffer]] = []
    params: list[str] = []
    for param in function.params:
        buffer = function.buffer_map.get(param)
        if buffer is None:
            params.append(f"{names.define(param)}: {_param_type(expressions, param)}")
            defined.add(param)
        elif old:
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


def _sizes_of_module(function: n.PrimFunc, names: Names, defined: set[n.Var], sizes: dict[str, None]) -> None:
    """Sizes of type int64 are declared above the module, as in TVM 0.27."""
    for param in function.params:
        buffer = function.buffer_map.get(param)
        if buffer is None:
            continue
        for size in (*buffer.shape, *buffer.strides, *([] if buffer.elem_offset is None else [buffer.elem_offset])):
            if size is buffer.elem_offset and isinstance(size, n.Var):
                continue
            for part in walk(size):
                if isinstance(part, n.Var) and part.dtype == INT64 and part not in defined:
                    defined.add(part)
                    sizes[names.define(part)] = None


def _matches(
    writer: StatementPrinter, matched: list[tuple[n.Var, n.Buffer]], defined: set[n.Var], scalars: set[n.Var]
) -> None:
    """`A = T.match_buffer(a, ...)`, after the variables that its sizes are."""
    for _, buffer in matched:
        for size in (*buffer.shape, *buffer.strides):
            for part in walk(size):
                if isinstance(part, n.Var) and part not in defined and part not in scalars:
                    defined.add(part)
                    writer.line(f"{writer.names.define(part)} = T.{part.dtype}()")
    for param, buffer in matched:
        fields = writer.fields(buffer, "match", source=writer.names.of(param))
        writer.line(f"{writer.names.define(buffer)} = T.match_buffer({fields})")
        defined.add(buffer.data)


def _preamble(writer: StatementPrinter, function: n.PrimFunc, defined: set[n.Var]) -> None:
    """Names that statements use and none of them binds: variables of `Let`, axes of reductions, realized buffers."""
    launches: Counter[n.Var] = Counter()
    tags: dict[n.Var, str] = {}
    buffers: dict[n.Buffer, None] = {}
    about: dict[n.Var, None] = {}
    bound: set[n.Var] = set()
    for node in walk(function.body):
        match node:
            case n.For(var) | n.LetStmt(var) | n.Allocate(var) | n.AllocateConst(var):
                bound.add(var)
            case n.AllocBuffer(buffer) | n.DeclBuffer(buffer) | n.BufferRealize(buffer):
                bound.add(buffer.data)
            case n.Block(iter_vars=axes, alloc_buffers=allocs, match_buffers=matches):
                bound.update(axis.var for axis in axes)
                bound.update(buffer.data for buffer in (*allocs, *(match.buffer for match in matches)))
            case n.AttrStmt(n.Var() as var):
                about[var] = None
            case _:
                pass
        match node:
            case n.Let(var):
                if var not in defined:
                    defined.add(var)
                    writer.line(f"{writer.names.define(var)} = {_variable(var)}")
            case n.Reduce(axis=axes):
                for axis in axes:
                    if axis.var not in defined:
                        defined.add(axis.var)
                        writer.line(f"{writer.names.define(axis.var)} = {_variable(axis.var)}")
            case n.AttrStmt(n.IterVar(_, var, n.IterKind.THREAD_INDEX, tag), "thread_extent" | "virtual_thread"):
                launches[var] += 1
                tags[var] = tag
            case n.BufferRealize(buffer):
                buffers[buffer] = None
            case _:
                pass
    for var in about:
        if var not in bound and var not in defined:
            defined.add(var)
            writer.line(f"{writer.names.define(var)} = {_variable(var)}")
    for var, count in launches.items():
        if count > 1:
            defined.add(var)
            writer.line(f'{writer.names.define(var)} = T.env_thread("{tags[var]}")')
    for buffer in buffers:
        writer.line(f"{writer.names.define(buffer)} = T.Buffer({writer.fields(buffer, 'type')})")
        defined.add(buffer.data)


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

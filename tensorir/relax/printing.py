"""Relax as TVMScript."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set

from tensorir.relax import nodes as r
from tensorir.relax.infer import type_of
from tensorir.relax.operators import OPERATORS
from tensorir.tir import nodes as n
from tensorir.tir.dtypes import INT32, INT64, DataType
from tensorir.tir.printing.expressions import ExpressionPrinter, Names, number_text, quote
from tensorir.tir.trees import walk


class _Sizes(ExpressionPrinter):
    """Expressions of sizes: a plain number is an int64."""

    def number(self, value: int, dtype: DataType, context: DataType | None) -> str:
        if dtype == INT64 and context in (None, INT64):
            return str(value)
        return f"T.{dtype}({value})" if dtype == INT32 else super().number(value, dtype, context)


def function_lines(
    name: str, function: n.Node, old: bool, sizes: dict[str, None] | None = None, module: str = "Module",
    types: dict[str, r.RelaxType] | None = None,
) -> list[str]:  # fmt: skip
    """A function, line by line; new names of sizes that stand above the module go into `sizes`.

    `types` has those of the functions above, which the function is added to.
    """
    assert isinstance(function, r.Function)
    types = {} if types is None else types
    types[name or function.name] = type_of(function, types)
    writer = _Writer(Names(), old, types, _used(function))
    symbols = _symbols(function)
    outside = [var for var, bound in symbols.items() if bound]
    inside = [var for var, bound in symbols.items() if not bound]
    for var in outside if not old and sizes is not None else ():
        assert sizes is not None
        sizes[writer.names.define(var)] = None
    writer.quoted = old or sizes is None
    lines = writer.header(name or function.name, function)
    writer.quoted = False
    writer.depth = 1
    if any(isinstance(node, r.FunctionRef) for node in walk(function)):
        writer.line(f"cls = {module}")
    for var in (*(outside if old or sizes is None else ()), *inside):
        writer.line(f"{writer.names.define(var)} = T.{var.dtype}()")
    writer.body(function, attrs_of=name or function.name)
    return lines + writer.lines


def _used(function: r.Function) -> set[n.Node]:
    """The variables that stand somewhere else than where they are bound."""
    counts = Counter(node for node in walk(function) if isinstance(node, r.RelaxVar))
    return {var for var, count in counts.items() if count > 1}


def show(node: n.Node) -> str:
    """Any node of Relax, for messages."""
    writer = _Writer(Names(), False)
    match node:
        case r.Function():
            return "\n".join(function_lines(node.name, node, False))
        case r.RelaxType():
            return writer.type(node)
        case r.VarBinding() | r.MatchCast():
            writer.binding(node)
            return "\n".join(writer.lines)
        case r.SeqExpr() | r.If():
            return f"<{type(node).__name__}>"
        case r.RelaxExpr():
            return writer.expr(node)
        case _:
            return f"<{type(node).__name__}>"


def _symbols(function: r.Function) -> dict[n.Var, bool]:
    """The sizes of a function that are no variables: whether its parameters bind them."""
    found: dict[n.Var, bool] = {}
    numbers: set[n.Var | None] = {node.value for node in walk(function) if isinstance(node, r.PrimValueType)}
    for param in function.params:
        for node in walk(param.type):
            if isinstance(node, n.Var):
                found[node] = True
    for node in walk(function):
        if isinstance(node, n.Var):
            found.setdefault(node, False)
    return {var: bound for var, bound in found.items() if var not in numbers}


class _Writer:
    def __init__(
        self, names: Names, old: bool, types: Mapping[str, r.RelaxType] | None = None, used: Set[n.Node] = frozenset()
    ) -> None:
        self.types: Mapping[str, r.RelaxType] = types or {}
        self.used = used
        self.names = names
        self.old = old
        self.lines: list[str] = []
        self.depth = 0
        self.quoted = False
        self._sizes = _Sizes(names, old)
        self._plain = ExpressionPrinter(names, old)

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def _define(self, var: r.RelaxVar) -> str:
        return self.names.define(r.known_as(var))

    def _name(self, var: r.RelaxVar) -> str:
        return self.names.of(r.known_as(var))

    # ------------------------------------------------------------------------------------------ functions

    def header(self, name: str, function: r.Function, inner: bool = False) -> list[str]:
        words = ["private=True"] if "global_symbol" not in function.attrs and not inner else []
        if not function.pure:
            words.append("pure=False")
        marks = f"({', '.join(words)})" if words else ""
        params = ", ".join(f"{self._define(p)}: {self.type(p.type)}" for p in function.params)
        returns = "" if function.ret_type is None else f" -> {self.type(function.ret_type)}"
        return [f"@R.function{marks}", f"def {name}({params}){returns}:"]

    def body(self, function: r.Function, attrs_of: str) -> None:
        attrs = {key: value for key, value in function.attrs.items() if (key, value) != ("global_symbol", attrs_of)}
        if attrs:
            self.line(f"R.func_attr({self._plain.attribute(attrs)})")
        self.blocks(function.body)
        self.line(f"return {self.expr(function.body.body)}")

    def blocks(self, sequence: r.SeqExpr, rename: tuple[n.Node, str] | None = None) -> None:
        for block in sequence.blocks:
            if isinstance(block, r.DataflowBlock):
                self.line("with R.dataflow():")
                self.depth += 1
                for binding in block.bindings:
                    self.binding(binding)
                outputs = ", ".join(self._name(var) for var in block.outputs)
                self.line(f"R.output({outputs})")
                self.depth -= 1
            else:
                for binding in block.bindings:
                    last = rename is not None and binding.var is rename[0]
                    self.binding(binding, rename[1] if rename is not None and last else None)

    def binding(self, binding: r.Binding, name: str | None = None) -> None:
        match binding:
            case r.VarBinding(var, r.If() as value):
                self._branches(var, value, name)
            case r.VarBinding(var, r.Function() as value):
                called = self._define(var)
                self.names.push()
                for text in self.header(called, value, inner=True):
                    self.line(text)
                self.depth += 1
                self.body(value, attrs_of="")
                self.depth -= 1
                self.names.pop()
            case r.VarBinding(var, value):
                text = self.expr(value)  # type: ignore[arg-type]
                called = name or self._define(var)
                if called.startswith("_") and var not in self.used and self._is_nothing(var.type, value):
                    self.line(text)
                    return
                annotation = "" if isinstance(var.type, r.ObjectType) else f": {self.type(var.type)}"
                self.line(f"{called}{annotation} = {text}")
            case r.MatchCast(var, value, kind):
                text = f"R.match_cast({self.expr(value)}, {self.type(kind)})"
                annotation = "" if var.type == kind else f": {self.type(var.type)}"
                self.line(f"{name or self._define(var)}{annotation} = {text}")

    def _is_nothing(self, kind: r.RelaxType, value: n.Node) -> bool:
        """True if a value is an empty tuple, as the text tells without its type."""
        return kind == r.TupleType(()) and type_of(value, self.types) == kind

    def _branches(self, var: r.RelaxVar, value: r.If, name: str | None) -> None:
        """Both branches bind the name of the result last."""
        called = name or self._define(var)
        for word, branch in ((f"if {self.expr(value.condition)}:", value.true_branch), ("else:", value.false_branch)):
            self.line(word)
            self.depth += 1
            self.names.push()
            self.blocks(branch, rename=(branch.body, called))
            self.names.pop()
            self.depth -= 1

    # --------------------------------------------------------------------------------------- types, sizes

    def size(self, size: n.Expr) -> str:
        text = self._sizes.show(size)
        if self.quoted and any(isinstance(part, n.Var) for part in walk(size)):
            return quote(text)
        return text

    def shape(self, sizes: tuple[n.Expr, ...]) -> str:
        text = ", ".join(map(self.size, sizes))
        return f"({text}{',' if len(sizes) == 1 else ''})"

    def type(self, kind: r.RelaxType) -> str:
        match kind:
            case r.TensorType(shape, dtype, ndim, device):
                parts = [] if shape is None else [self.shape(shape)]
                if dtype is not None:
                    parts.append(f"dtype={quote(str(dtype))}")
                if shape is None and ndim >= 0:
                    parts.append(f"ndim={ndim}")
                if device is not None:
                    parts.append(f"vdevice={quote(device)}")
                return f"R.Tensor({', '.join(parts)})" if parts else "R.Tensor()"
            case r.ShapeType(None, ndim):
                return f"R.Shape(ndim={ndim})" if ndim >= 0 else "R.Shape()"
            case r.ShapeType(values):
                return f"R.Shape([{', '.join(map(self.size, values or ()))}])"
            case r.TupleType(fields):
                return f"R.Tuple({', '.join(map(self.type, fields))})"
            case r.PrimValueType(dtype):
                return f"R.Prim({quote(str(dtype))})" if self.old else f"T.{dtype}"
            case r.FuncType(None, None):
                return "R.Callable()"
            case r.FuncType(params, ret, pure):
                inside = ", ".join(map(self.type, params or ()))
                items = f"({inside}{',' if len(params or ()) == 1 else ''})" if params is not None else "None"
                result = "None" if ret is None else self.type(ret)
                return f"R.Callable({items}, {result}, {pure})"
            case _:
                return "R.Object" if self.old else "R.Any"

    # ----------------------------------------------------------------------------------------- expressions

    def expr(self, expr: r.RelaxExpr) -> str:
        match expr:
            case r.RelaxVar():
                return self._name(expr)
            case r.Constant(data, dtype):
                return f"R.const({_data(data)}, {quote(str(dtype))})"
            case r.MetadataConstant(key, index):
                return f"metadata[{quote(key)}][{index}]"
            case r.Tuple(fields):
                items = ", ".join(map(self.expr, fields))
                return "R.tuple()" if not fields else f"({items}{',' if len(fields) == 1 else ''})"
            case r.TupleGetItem(value, index):
                return f"{self.expr(value)}[{index}]"
            case r.ShapeExpr(values):
                return f"R.shape([{', '.join(map(self.size, values))}])"
            case r.PrimValue(value):
                return self._sizes.show(value)
            case r.StringValue(value):
                return f"R.str({quote(value)})"
            case r.DataTypeValue(value):
                return f"R.dtype({quote(str(value))})"
            case r.FunctionRef(name):
                return f"cls.{name}"
            case r.ExternFunc(name):
                return f"R.ExternFunc({quote(name)})"
            case r.Call():
                return self._call(expr)
            case _:
                return f"<{type(expr).__name__}>"

    def _call(self, call: r.Call) -> str:
        if not isinstance(call.op, str):
            return f"{self.expr(call.op)}({', '.join(map(self.expr, call.args))})"
        row = OPERATORS.get(call.op)
        # An empty list that is the default is left out, as in TVM, which does not read some of them back.
        shown = {k: v for k, v in call.attrs.items() if row is None or not (v == () == row.attributes.get(k))}
        attrs = [f"{key}={self._attribute(value)}" for key, value in shown.items()]
        if row is not None:
            return f"R.{call.op}({', '.join([*map(self._argument, call.args), *attrs])})"
        return self._typed_call(call, attrs)

    def _argument(self, value: r.RelaxExpr) -> str:
        """Tuples of plain numbers stand as such."""
        if isinstance(value, r.Tuple) and value.fields and all(isinstance(f, r.PrimValue) for f in value.fields):
            items = [self._sizes.show(f.value) for f in value.fields if isinstance(f, r.PrimValue)]
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        return self.expr(value)

    def _typed_call(self, call: r.Call, attrs: list[str]) -> str:
        first, *rest = call.args
        callee = quote(first.name) if isinstance(first, r.ExternFunc) else self.expr(first)
        if call.op == "call_tir" and isinstance(first, r.ExternFunc):
            callee = self.expr(first)
        args = [callee, *map(self.expr, rest)]
        if call.op == "call_tir" and len(rest) == 2:
            args[-1] = f"tir_vars={args[-1]}"
        types = [self.type(kind) for kind in call.types]
        inside = types[0] if len(types) == 1 else f"[{', '.join(types)}]"
        packed = ("packed" in str(call.op) and "dps" not in str(call.op)) or "closure" in str(call.op)
        if packed:
            key = "sinfo_args" if self.old else "ty_args"
            inside = f"({', '.join(types)}{',' if len(types) == 1 else ''})"
        else:
            key = "out_sinfo" if self.old else "out_ty"
        stated = [f"{key}={inside}"] if types else []
        named = [arg for arg in args if arg.startswith("tir_vars=")]
        plain = [arg for arg in args if not arg.startswith("tir_vars=")]
        return f"R.{call.op}({', '.join([*plain, *stated, *named, *attrs])})"

    def _attribute(self, value: n.Attribute) -> str:
        return self._plain.attribute(value)


def _data(data: r.Data) -> str:
    if isinstance(data, tuple):
        return f"[{', '.join(map(_data, data))}]"
    if isinstance(data, float):
        return number_text(data) if data - data == 0 else f"float({quote(str(data))})"
    return str(data)

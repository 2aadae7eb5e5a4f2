"""Extension points: what a lower layer of the package asks of an upper one, which provides it.

Nodes print themselves, errors draw pages, and fencils are called; printing, drawing and calling are written in terms
of nodes, and so stand above them. The lower layer calls an extension point; the upper layer's function is named in one
table, `tensorir.assembly`, and imported when it is first asked for.

>>> shout = ExtensionPoint("a word in capitals")
>>> shout.provided_by("builtins", "repr")
>>> shout("word")
"'word'"
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

__all__ = [
    "ExtensionPoint", "bind_program", "call_program", "check_fencil", "check_graph_function", "compile_expression",
    "compile_statement", "define_builtin", "device_array", "draw_traceback", "equal_tile", "equal_tir",
    "estimate_tensix", "hash_tir", "inline_program", "interpret_graph_function", "lift_graph_function",
    "needed_parameters", "parse_program", "place_tensix", "print_expression", "print_graph_function",
    "print_graph_node", "print_iterator", "print_program", "print_tensix", "print_tile", "print_tir", "read_call",
    "read_graph_function", "read_returned", "read_statement", "schedule_statements", "solve_sizes",
]  # fmt: skip


class ExtensionPoint:
    """A function that another module provides."""

    def __init__(self, purpose: str) -> None:
        self.purpose = purpose
        self._place: tuple[str, str] | None = None
        self._function: Callable[..., Any] | None = None

    def provided_by(self, module: str, name: str) -> None:
        """Name the function; its module is imported when it is first called."""
        self._place, self._function = (module, name), None

    def __call__(self, *args: Any, **options: Any) -> Any:
        if self._function is None:
            assert self._place is not None, f"nothing provides {self.purpose}"
            module, name = self._place
            self._function = getattr(importlib.import_module(module), name)
        assert self._function is not None
        return self._function(*args, **options)

    def __repr__(self) -> str:
        return f"<extension point: {self.purpose}, {'.'.join(self._place or ('nobody',))}>"


print_expression: ExtensionPoint = ExtensionPoint("the notation of an expression")
print_program: ExtensionPoint = ExtensionPoint("the notation of a fencil or a template")
parse_program: ExtensionPoint = ExtensionPoint("a program from its notation")
solve_sizes: ExtensionPoint = ExtensionPoint("the sizes of a template from shapes")
check_fencil: ExtensionPoint = ExtensionPoint("what makes a fencil well-formed")
define_builtin: ExtensionPoint = ExtensionPoint("a builtin in terms of others")
needed_parameters: ExtensionPoint = ExtensionPoint("the parameters that a fencil reads before it writes them")
call_program: ExtensionPoint = ExtensionPoint("a call of a program on arrays")
bind_program: ExtensionPoint = ExtensionPoint("a program with constants")
device_array: ExtensionPoint = ExtensionPoint("the backend's array of what lies on a device")
inline_program: ExtensionPoint = ExtensionPoint("a program called on the symbols of an operator")
draw_traceback: ExtensionPoint = ExtensionPoint("what a notebook shows in place of a traceback")

print_tir: ExtensionPoint = ExtensionPoint("the text of a node of TIR")
equal_tir: ExtensionPoint = ExtensionPoint("whether two trees of TIR are equal up to names")
hash_tir: ExtensionPoint = ExtensionPoint("a hash that equal trees of TIR share")
print_tile: ExtensionPoint = ExtensionPoint("the text of a module of Tile IR")
equal_tile: ExtensionPoint = ExtensionPoint("whether two modules of Tile IR say the same")
print_iterator: ExtensionPoint = ExtensionPoint("the text of a program of iterator IR")
print_tensix: ExtensionPoint = ExtensionPoint("the files of a program of Tensix kernels")
estimate_tensix: ExtensionPoint = ExtensionPoint("what a program of Tensix kernels costs at least")
place_tensix: ExtensionPoint = ExtensionPoint("the file and line that print a statement of Tensix kernels")
schedule_statements: ExtensionPoint = ExtensionPoint("how statements under the same loops run")
compile_expression: ExtensionPoint = ExtensionPoint("the function of an expression in the interpreter of TIR")
compile_statement: ExtensionPoint = ExtensionPoint("the function of a statement in the interpreter of TIR")
read_statement: ExtensionPoint = ExtensionPoint("a statement of TIR as nests")
read_call: ExtensionPoint = ExtensionPoint("a call of a function of TIR as nests")
read_returned: ExtensionPoint = ExtensionPoint("what a function of TIR returns as a scalar term")

print_graph_function: ExtensionPoint = ExtensionPoint("the lines of a function of Relax")
print_graph_node: ExtensionPoint = ExtensionPoint("the text of any node of Relax")
read_graph_function: ExtensionPoint = ExtensionPoint("a function of Relax from its syntax tree")
check_graph_function: ExtensionPoint = ExtensionPoint("what is wrong with a function of Relax")
interpret_graph_function: ExtensionPoint = ExtensionPoint("what a function of Relax computes, operator by operator")
lift_graph_function: ExtensionPoint = ExtensionPoint("a function of Relax as a tensor program")

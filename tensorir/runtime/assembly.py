"""Extension points, who provides each of them, and what waits for a library to be imported.

Extension points: what a lower layer of the package asks of an upper one, which provides it.

Nodes print themselves, errors draw pages, and fencils are called; printing, drawing and calling are written in terms
of nodes, and so stand above them. The lower layer calls an extension point; the upper layer's function is named in one
table, `tensorir.runtime.assembly`, and imported when it is first asked for.

>>> shout = ExtensionPoint("a word in capitals")
>>> shout.provided_by("builtins", "repr")
>>> shout("word")
"'word'"

What waits for a library to be imported by somebody else, and then runs; nothing is imported for its sake.

>>> import sys
>>> when_imported("sys", lambda: print("it is there already"))
it is there already
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


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

# The assembly of the package: which module provides each extension point of the layers below it.

PROVIDERS = {
    print_expression: ("tensorir.text.printer", "print_expr"),
    print_program: ("tensorir.text.printer", "print_fencil"),
    parse_program: ("tensorir.text", "parse"),
    solve_sizes: ("tensorir.text", "solve"),
    check_fencil: ("tensorir.ir.wellformed", "check_fencil"),
    define_builtin: ("tensorir.ir.build", "definition"),
    needed_parameters: ("tensorir.ir.wellformed", "needed_parameters"),
    call_program: ("tensorir.binding.calls", "call"),
    bind_program: ("tensorir.binding.calls", "bind"),
    device_array: ("tensorir.backends", "device_array"),
    inline_program: ("tensorir.fieldview.recorder", "called"),
    draw_traceback: ("tensorir.inspect.pages", "traceback_of"),
    print_tir: ("tensorir.tir.printer", "show"),
    equal_tir: ("tensorir.tir.trees", "structurally_equal"),
    hash_tir: ("tensorir.tir.trees", "structural_hash"),
    compile_expression: ("tensorir.tir.interpret.expressions", "compile_expression"),
    compile_statement: ("tensorir.tir.interpret.statements", "compile_statement"),
    read_statement: ("tensorir.tir.lift.statements", "statement"),
    read_call: ("tensorir.tir.lift.calls", "called"),
    read_returned: ("tensorir.tir.lift.calls", "returned"),
    print_tile: ("tensorir.tile.text.printing", "print_module"),
    equal_tile: ("tensorir.tile.equality", "same_modules"),
    print_iterator: ("tensorir.iterator.text.printer", "show"),
    estimate_tensix: ("tensorir.tenstorrent.estimate", "estimate"),
    print_tensix: ("tensorir.tenstorrent.kernels.host", "files"),
    place_tensix: ("tensorir.tenstorrent.kernels.printing", "line_of"),
    print_graph_function: ("tensorir.relax.printing", "function_lines"),
    print_graph_node: ("tensorir.relax.printing", "show"),
    read_graph_function: ("tensorir.relax.parse", "read_function"),
    check_graph_function: ("tensorir.relax.check", "check_relax"),
    interpret_graph_function: ("tensorir.relax.interpret", "run_function"),
    lift_graph_function: ("tensorir.relax.lift", "lift_relax"),
}
"""Module and name by extension point."""


def assemble() -> None:
    """Tell every extension point who provides it; nothing is imported yet."""
    for point, (module, name) in PROVIDERS.items():
        point.provided_by(module, name)


def when_imported(name: str, then: Callable[[], object]) -> None:
    """Call `then` once, now if the library is imported, or right after it is."""
    if name in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _Waiting(name, then))


class _Waiting:
    """A finder that finds nothing itself: it leaves a note on what the others find, and goes."""

    def __init__(self, name: str, then: Callable[[], object]) -> None:
        self.name, self.then = name, then

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def execute_and_then(module: ModuleType) -> None:
                execute(module)
                self.then()

            loader.exec_module = execute_and_then
        return spec

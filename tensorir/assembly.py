"""The assembly of the package: which module provides each extension point of the layers below it."""

from __future__ import annotations

from tensorir import extension_points as points

__all__ = ["assemble"]

PROVIDERS = {
    points.print_expression: ("tensorir.text.printer", "print_expr"),
    points.print_program: ("tensorir.text.printer", "print_fencil"),
    points.parse_program: ("tensorir.text", "parse"),
    points.solve_sizes: ("tensorir.text", "solve"),
    points.check_fencil: ("tensorir.wellformed", "check_fencil"),
    points.define_builtin: ("tensorir.definitions", "definition"),
    points.needed_parameters: ("tensorir.wellformed", "needed_parameters"),
    points.call_program: ("tensorir.binding.calls", "call"),
    points.bind_program: ("tensorir.binding.bound", "bind"),
    points.device_array: ("tensorir.backends", "device_array"),
    points.inline_program: ("tensorir.fieldview.called", "called"),
    points.draw_traceback: ("tensorir.inspect.messages", "traceback_of"),
    points.print_tir: ("tensorir.tir.printer", "show"),
    points.equal_tir: ("tensorir.tir.equality", "structurally_equal"),
    points.hash_tir: ("tensorir.tir.equality", "structural_hash"),
    points.schedule_statements: ("tensorir.lifting.loops.schedule", "schedule"),
    points.compile_expression: ("tensorir.tir.interpret.expressions", "compile_expression"),
    points.compile_statement: ("tensorir.tir.interpret.statements", "compile_statement"),
    points.read_statement: ("tensorir.tir.lift.statements", "statement"),
    points.read_call: ("tensorir.tir.lift.calls", "called"),
    points.read_returned: ("tensorir.tir.lift.returned", "returned"),
    points.print_tile: ("tensorir.tile.text.printing", "print_module"),
    points.equal_tile: ("tensorir.tile.equality", "same_modules"),
    points.print_iterator: ("tensorir.iterator.text.printer", "show"),
    points.estimate_tensix: ("tensorir.tenstorrent.estimate", "estimate"),
    points.print_tensix: ("tensorir.tenstorrent.kernels.host", "files"),
    points.place_tensix: ("tensorir.tenstorrent.kernels.printing", "line_of"),
    points.print_graph_function: ("tensorir.relax.printing", "function_lines"),
    points.print_graph_node: ("tensorir.relax.printing", "show"),
    points.read_graph_function: ("tensorir.relax.parse", "read_function"),
    points.check_graph_function: ("tensorir.relax.check", "check_relax"),
    points.interpret_graph_function: ("tensorir.relax.interpret", "run_function"),
    points.lift_graph_function: ("tensorir.relax.lift", "lift_relax"),
}
"""Module and name by extension point."""


def assemble() -> None:
    """Tell every extension point who provides it; nothing is imported yet."""
    for point, (module, name) in PROVIDERS.items():
        point.provided_by(module, name)

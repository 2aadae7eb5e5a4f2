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
}
"""Module and name by extension point."""


def assemble() -> None:
    """Tell every extension point who provides it; nothing is imported yet."""
    for point, (module, name) in PROVIDERS.items():
        point.provided_by(module, name)

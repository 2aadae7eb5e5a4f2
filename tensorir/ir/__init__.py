"""The IR: types, nodes, the table of builtins, typing rules, makers, rewriting, well-formedness.

It imports `runtime` and `integers` alone. Begin with `types` and `nodes`, then `builtins`, the table that parser,
printer, checker, oracle and lowering read; nodes are made by `build`, and walked by `rewrite`.
"""

"""Calls of TVMScript: what `T.name(...)`, a method of a buffer, or a function of the module makes.

`form.MAKERS` is the table of names with a grammar of their own; every other name is looked up among the builtins.
"""

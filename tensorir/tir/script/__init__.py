"""TVMScript text to TIR: pre-scan, Python's grammar, names, expressions, statements, functions and modules.

Nothing here executes, imports or opens what a text names: Python's parser makes a tree, and a white list reads it.
"""

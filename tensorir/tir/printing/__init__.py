"""TIR to TVMScript: names, expressions, statements, functions and modules, as of TVM 0.27 or older."""

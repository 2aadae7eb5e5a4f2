"""TIR to TVMScript: names, expressions, statements, functions and modules, in the form of TVM 0.27 or in an older one."""

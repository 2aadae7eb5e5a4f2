"""A caller's arrays and a program's parameters: from NumPy, JAX, xarray and Field to checked arrays, and back.

`arrays` says what may be passed and with which intervals, `labels`, `coordinates` and `quantities` what xarray knows of
it, `tables` validates neighbour tables, `bound` fixes tables and sizes of a program, and `calls` is one call of it.
"""

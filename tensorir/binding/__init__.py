"""A caller's arrays and a program's parameters: from NumPy, JAX, xarray and Field to checked arrays, and back.

`arrays` says what may be passed and validates neighbour tables, `labels` with which intervals; `coordinates`, `units`,
`quantities` and `angles` are what xarray knows of it, `results` what it gets back. `programs` have tables and sizes
fixed, `calls` is one call, and `repeated` what a call like one before does again.
"""

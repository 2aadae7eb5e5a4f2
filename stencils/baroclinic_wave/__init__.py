"""A baroclinic wave on the sphere: the hydrostatic primitive equations as programs of GT4Py, which must be installed.

`gt4py_model` has the model, `gt4py_programs` its programs, `initial` the state at its start, `staggering` the
tangential velocity that belongs to velocities at faces.
"""

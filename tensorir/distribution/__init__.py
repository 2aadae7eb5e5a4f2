"""Programs on many devices: who owns which points, what each device computes, and what it needs of the others.

Nothing here knows a field's numbers: a decomposition parts intervals into blocks, subdomains deal out the points of a
mesh by their owners, `localised` makes the program that every device runs on its part, and `exchange` says from types
and tables which points go where before it runs. `lowering` emits them.
"""

"""Programs on many devices: who owns which points, what each device computes, and what it needs of the others.

Nothing here knows an array: a decomposition parts intervals into blocks, `localised` makes the program that every
device runs on its block, and `exchanges` says from the types which points go where before it runs. `lowering`
emits them.
"""

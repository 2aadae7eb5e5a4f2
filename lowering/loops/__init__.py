"""Time loops and transformations at the edge: many steps as one program, labelled states, snapshots, checkpoints.

Begin with `iterate`.
"""

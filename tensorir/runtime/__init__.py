"""Start-up, before any program is read: diagnostics, sources, locations, caches, extension points.

Nothing here knows a node of any IR. It imports nothing of the package; begin with `errors`.
"""

"""Stencil programs, meshes, data sets and the command line."""

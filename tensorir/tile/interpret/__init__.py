"""Interpreter."""

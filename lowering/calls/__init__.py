"""Calls of compiled programs: executables per sizes and tables, the plan of a compilation, its estimate, its export.

Begin with `compiled`, which a user holds, then `engine` and `executable`, which a call goes through.
"""

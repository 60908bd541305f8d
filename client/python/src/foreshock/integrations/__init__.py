"""Adapters for training frameworks; each module imports its framework only where it is installed.

None of them has been run against the real library: their tests replay the documented order of
calls.
"""

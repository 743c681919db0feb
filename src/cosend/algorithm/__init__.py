"""The rules by which one site chooses and learns, compiled: numbers in, numbers out, no items, names or models.

May import: checks, compiled, alone, errors.
Touches: nothing.
"""

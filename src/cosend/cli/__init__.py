"""The commands of `cosend`; what they share is in shared.py. Imports are made when a command runs.

May import: everything.
Touches: terminal, clock, files, processes.
"""

"""Charts as SVG, for the dashboard and the report.

May import: text.
Touches: its own files (styles).
"""

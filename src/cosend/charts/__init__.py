"""Charts as SVG, for the dashboard and the report.

May import: text.
Touches: files of its own (styles).
"""

"""The dashboard of a site: rendered on the server with Jinja2, kept live by server-sent events and a short script.

May import: algorithm, axes, axis_format, charts, engine, errors, report, runtime, server, text.
Touches: clock, network, its own files (templates); a running site through site_view.py.
"""

"""One folder for each table or figure, each with the same three files: settings.py, run.py, report.py."""

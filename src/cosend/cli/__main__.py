"""`python -m cosend.cli` is `cosend`."""

from cosend.cli.main import app

if __name__ == "__main__":
    app()

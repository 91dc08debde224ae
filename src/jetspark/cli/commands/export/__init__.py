"""`jetspark export`: command.py reads the stream, files.py writes JSON lines or Parquet."""

from jetspark.cli.commands.export.command import app

__all__ = ["app"]

"""`jetspark demo`: command.py runs the demo, view.py shows its progress."""

from jetspark.cli.commands.demo.command import app

__all__ = ["app"]

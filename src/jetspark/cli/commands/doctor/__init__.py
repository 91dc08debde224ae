"""`jetspark doctor`: command.py prints the checks of checks.py."""

from jetspark.cli.commands.doctor.command import app

__all__ = ["app"]

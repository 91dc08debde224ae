"""`jetspark pipeline`: command.py has the commands, live.py the progress line of a running job."""

from jetspark.cli.commands.pipeline.command import app

__all__ = ["app"]

"""`jetspark consumer`: command.py has the commands, options.py the table of their configuration flags."""

from jetspark.cli.commands.consumer.command import app

__all__ = ["app"]

"""`jetspark consumer`: the commands in command.py and change.py, their flags in options.py."""

from jetspark.cli.commands.consumer import change
from jetspark.cli.commands.consumer.command import app

__all__ = ["app", "change"]

"""`jetspark stream`: the commands in command.py, backup.py and contents.py, their flags in options.py."""

from jetspark.cli.commands.stream import backup, contents
from jetspark.cli.commands.stream.command import app

__all__ = ["app", "backup", "contents"]

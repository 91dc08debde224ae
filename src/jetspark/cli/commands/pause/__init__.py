"""`jetspark pause`: command.py sets the switch, report.py is what resume.py uses, too: waiting and status."""

from jetspark.cli.commands.pause.command import app

__all__ = ["app"]

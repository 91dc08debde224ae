"""`jetspark server`: command.py runs a nats-server, check.py checks one."""

from jetspark.cli.commands.server import check
from jetspark.cli.commands.server.command import app

__all__ = ["app", "check"]

"""`jetspark kv`: buckets in command.py, keys in keys.py; the settings of a bucket as flags in options.py."""

from jetspark.cli.commands.kv import keys
from jetspark.cli.commands.kv.command import app

__all__ = ["app", "keys"]

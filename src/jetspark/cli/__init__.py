"""The command line: `jetspark`, in the manner of the `nats` CLI. One file per noun.

`main.py` has the tree of commands and loads what runs; `command.py` gives every command the options that all
have. Nothing here is imported by the rest of the package; it needs `jetspark[cli]`.
"""

from importlib.util import find_spec

# The script is installed also without the extra: who starts it is told what is missing, in one line.
if find_spec("typer") is None or find_spec("rich") is None:
    raise SystemExit("jetspark: the command line needs typer and rich: pip install 'jetspark[cli]'")

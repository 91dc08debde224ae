"""The command line `jetspark`, in the style of the `nats` CLI. It needs `jetspark[cli]`.

ui/          what a command prints: text, tables, JSON, errors and exit codes, progress; signals
args/        how arguments are declared and parsed: option types, units, start positions, templates, stdin
settings.py  the options of every command, merged with environment and context
complete.py  arguments that name a stream or a consumer, completed from the server
tracing.py   `--otel`: the spans of a command
long_running.py  for commands that run until they are stopped: their end, log format and metrics
command.py   `@command` registers a command and runs it; `Run` connects and prints for it
commands/    one file or folder per command
main.py      the list of commands, and the entry point

Each line may import the lines above it. No other package imports this one. `jetspark --help` imports no
command. To add a command, write `commands/<name>.py` with an `app` and add one line to `TREE` in main.py.
"""

from importlib.util import find_spec

# The script is installed without the extra, too: say in one line what is missing.
if find_spec("typer") is None or find_spec("rich") is None:
    raise SystemExit("jetspark: the command line needs typer and rich: pip install 'jetspark[cli]'")

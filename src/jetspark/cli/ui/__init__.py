"""What a command prints, and how it ends.

escape.py    makes names and data from the network safe for a terminal
log.py       lines on stderr, as text or as JSON
streams.py   standard output and error, whatever the shell made of them
failure.py   `Failure`, the exit codes, and the one-line text of every error
table.py     the widths of columns that fit a terminal
output.py    `Output`: results on stdout, remarks and progress on stderr, questions
json.py      the fields of `--json`
messages.py  messages as text
trace.py     `--trace`: the protocol, one line per frame
signals.py   Ctrl-C and SIGTERM

Each line may import the lines above it; nothing here imports the rest of the command line.
"""

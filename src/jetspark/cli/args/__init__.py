"""How arguments and options are declared and parsed.

units.py       durations, sizes, counts and times: parsing and formatting
parameters.py  option types that several commands use
table.py       options declared as a table instead of a signature
buckets.py     options that key-value buckets and object stores share
start.py       `--deliver`: where reading starts
template.py    `{{Count}}` and the like in published messages
stdin.py       standard input for coroutines

Each line may import the lines above it. Nothing here connects to a server; `complete.py` does, one level up.
"""

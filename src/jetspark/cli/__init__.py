"""The command line: `jetspark`, in the manner of the `nats` CLI. One file per noun.

`main.py` has the tree of commands and loads what runs; `command.py` gives every command the options that all
have. Nothing here is imported by the rest of the package; it needs `jetspark[cli]`.
"""

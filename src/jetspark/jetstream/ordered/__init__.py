"""Ordered readers: every message of a stream once, in order, whatever the server does.

In reading order:

- `chain`: the consumers behind a reader, one after another: states, sequence check, back-off.
- `pull`: the ordered consumer, with fetch, messages and consume; a pull buffer that a chain drives.
- `push`: the ordered push subscription; a push subscription that a chain drives.

It imports `pull` and `push`. `subscribe`, `read` and the context import it.
"""

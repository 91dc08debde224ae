"""The ways to publish to a stream.

In reading order:

- `headers`: the options of a publish as headers.
- `attempts`: when a publish is repeated, and how a permanent reason is found.
- `one`: one message and its acknowledgement (`js.publish`).
- `atomic`: a batch that a stream stores completely or not at all (`js.atomic_batch`).
- `ack_window`: the messages without an acknowledgement, as pure data.
- `in_flight`: sends the messages of an ack window, repeats them, settles their futures.
- `publisher`: many messages in flight, a future for each (`js.publisher`).
- `bulk`: many messages in flight, one result for all of them (the Spark writer and the log agent).

Each file imports only those above it. `publisher` and `bulk` share `in_flight`, and do not know each other.
"""

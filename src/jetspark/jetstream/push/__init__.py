"""Push subscriptions: the server sends, the client listens on a deliver subject.

In reading order:

- `options`: the options of a push subscription, and their defaults.
- `flow_control`: which flow control requests are answered, and when. Pure.
- `gaps`: the sequence check, which ordered readers use too. Pure.
- `reader`: the queue of messages, and what statuses between them do.
- `subscription`: the public class: missed heartbeats, reconnects, and the end of its consumer.

It imports `pull` (for targets and handler types) and what both stand on. `ordered` and `subscribe` import it.
"""

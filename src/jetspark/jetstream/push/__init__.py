"""Push subscriptions: the server sends, the client listens on a deliver subject.

In reading order:

- `options`: the options of a push subscription, and their defaults.
- `flow_control`: which flow control requests are answered, and when. Pure.
- `gaps`: the sequence check, which ordered readers use too. Pure.
- `reader`: the queue of messages, and the effect of the statuses between them.
- `subscription`: the public class: missed heartbeats, reconnects, and the end of its consumer.

It imports `pull` (for targets and handler types). `ordered` and `subscribe` import it.
"""

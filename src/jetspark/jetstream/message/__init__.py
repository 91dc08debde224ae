"""Messages of JetStream, in reading order:

- `metadata`: what the reply subject of a delivered message says. Pure.
- `delivered`: a message from a consumer, and its acknowledgements.
- `foreign`: counts messages that a consumer did not send.
- `stored`: a message read from a stream, by direct get or through the leader.
- `status`: the table of statuses: what each means for every kind of request. Pure.

They import `model` alone.
"""

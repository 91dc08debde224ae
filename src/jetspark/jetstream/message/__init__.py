"""Messages of JetStream, in reading order:

- `metadata`: the metadata in the reply subject of a delivered message. Pure.
- `delivered`: a message from a consumer, and its acknowledgements.
- `foreign`: counts messages that a consumer did not send.
- `stored`: a message read from a stream, by direct get or through the leader.
- `status`: the table of statuses: the effect of each on every kind of request. Pure.

They import `model` alone.
"""

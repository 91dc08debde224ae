"""The JSON of the JetStream API as typed structs. No I/O.

In reading order:

- `base`: how structs are read and written: durations, times, unknown fields.
- `stream`, `consumer`: the configurations, checked when they are made.
- `info`: the answers about streams, consumers and the account.
- `requests`: the bodies of requests, and the smaller answers.
- `advisories`: the events that JetStream publishes, and their subjects.

They import `jetspark.errors` and `jetspark.wire`; everything else in JetStream may import them.
"""

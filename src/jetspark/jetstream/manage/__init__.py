"""Managing streams and consumers: functions that take the `API`, below everything that reads or publishes.

- `streams`: create, update, look up, list, purge and delete streams.
- `consumers`: the same for consumers; pause, reset, unpin.
- `presence`: finds out whether a consumer that does not answer was deleted.
- `ownership`: deletes the consumer that a subscription created, when the subscription ends.

They import `api` and `model` alone. Users call them as methods of `JetStream`, `Stream` and `Consumer`.
"""

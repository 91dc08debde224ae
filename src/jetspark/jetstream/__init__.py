"""JetStream over a connection: streams, consumers, messages, acknowledgements, publishing.

In reading order, from the socket to the user; a part imports only parts above it:

- `model/`: configurations, requests and answers, as the JSON of the API.
- `timing`, `retry`, `heartbeat`: waits; back-off and deadlines; missed heartbeats.
- `on_error`: errors that no call can raise.
- `lazy_reader`: readers that start at the first read.
- `inbox`: requests with several answers.
- `message/`: delivered and stored messages, their metadata, and the table of statuses.
- `api`: every subject of the API, and the one way to call it.
- `manage/`: one function for each request about streams and consumers.
- `publish/`: one message, many messages, atomic batches.
- `pull/`: pull requests: fetch, and the buffer behind `messages` and `consume`.
- `push/`: push subscriptions.
- `ordered/`: readers without gaps, through a chain of consumers.
- `read/`: stored messages without acknowledgements: direct gets, ranges of sequences.
- `kv/`: key-value buckets.
- `objects/`: object stores.
- `advisories`, `dead_letters`: the events that JetStream publishes, and the messages that consumers gave up.
- `counters`, `backup`: numbers that a stream keeps; a stream as files.
- `subscribe/`: the classic `subscribe` and `pull_subscribe`.
- `consumer`, `stream`, `context`: the classes that users hold: `Consumer`, `Stream`, `JetStream`.

Below `consumer` nothing knows these three: everything takes the `API`, with its connection and timeout.
`tests/rules/test_layers.py` checks the order.
"""

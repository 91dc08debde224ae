"""Key-value buckets (ADR-8, ADR-48): a bucket is a stream, a key is a subject, a value is a message.

In reading order:

- `names`: which buckets, keys and filters are valid. Pure.
- `codecs`: other text as keys. Pure.
- `keyspace`: the keys of one bucket as subjects. Pure.
- `config`: the settings of a bucket, and the stream that they make.
- `entry`: a revision of a key: a value, or the tombstone of one.
- `backing`: the stream of a bucket, of keys or of objects, and its state.
- `feed`: the current messages of some subjects, then each new one; once and in order.
- `watch`: a feed, as entries.
- `cache`: the current entries, kept by a watch.
- `status`: the state of a bucket.
- `reader`: reading a bucket.
- `store`: the bucket, as users hold it: `KeyValue`, which also writes.
- `buckets`: creating, finding, listing and deleting buckets.

It imports `read` and `ordered`. The context and `objects` import it.
"""

"""Object stores (ADR-20): a bucket is a stream, an object is a message of metadata and messages of chunks.

In reading order:

- `names`: the stream and the subjects of a bucket. Pure.
- `config`: the settings of a bucket, and the stream that they make.
- `info`: the metadata of an object, as it is stored.
- `source`: the data to store, in blocks, from wherever it comes.
- `upload`: storing chunks: windowed, in order, and removed again if something fails.
- `orphans`: removing chunks that belong to no object.
- `reader`: reading chunks, with the digest checked.
- `save`: an object as a file.
- `status`: the state of a bucket.
- `store`: the bucket, as users hold it: `ObjectStore`.
- `stores`: creating, finding, listing and deleting buckets.

It imports `kv` (feeds and watches), `read` and `ordered`. The context imports it.
"""

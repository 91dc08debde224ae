"""Reading stored messages, without acknowledgements, in reading order:

- `direct`: one message, or batches of them, by direct get.
- `lookup`: where something is in a stream, as its leader knows it.
- `leader`: many messages from the leader, for streams that do not allow direct gets.
- `loss`: which gaps in a stream are losses, and their cause. Pure.
- `ranges`: the sequences [first, next) of a stream, each message once, with every loss reported.
- `listing`: the names and infos of many streams.
- `packed`: many ranges, the small ones concurrently.

They import `manage` and `ordered`. `Stream`, `dead_letters`, the Spark source and the CLI import them.
"""

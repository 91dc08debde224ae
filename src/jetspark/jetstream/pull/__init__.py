"""Pulling messages from a consumer, in reading order:

- `bounds`: the largest request that a consumer accepts. Pure.
- `options`: the options of `messages` and `consume`, their defaults and limits. Pure.
- `pin`: the pinned client of a priority group.
- `request`: the target of a request, and building it: shared by everything that pulls.
- `receiver`: inboxes, statuses, leaving without loss, left-over messages: shared in the same way.
- `fetch`: one request, returned as a batch.
- `accounting`: how much to ask for, and when. Pure.
- `pacing`: the waits after refusals, and the look for a consumer that does not answer.
- `buffer`: the pull buffer, which refills itself.
- `iterate`: `Messages` and `Consuming`, through which users read the buffer.

Each imports only those above it. `Consumer`, the handle with these methods, is in `jetstream/consumer.py`.
"""

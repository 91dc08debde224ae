"""The classic API, `js.subscribe` and `js.pull_subscribe`, in reading order:

- `rules`: which arguments are valid, and whether an existing consumer matches them. Pure.
- `classic_fetch`: the fetch of a pull subscription.
- `pull`: the pull subscription. The push subscription is in `push/`, the ordered one in `ordered/`.
- `workflow`: the requests that make a subscription.

They may import `manage`, `pull`, `push` and `ordered`; only the context imports them.
"""

"""The asyncio API without `await`: the same nouns and signatures, on one background event loop per process.

    with jetspark.blocking.connect(url) as nc:
        js = nc.jetstream()

Everything can be used from several threads at once. Handlers, callbacks and listeners run in their
own threads and may block. After a fork, connect again in the child.

The map, in reading order; each file may import those above it (`context` also names `Connection` as a type):

    threads/            how threads and the event loop work together; knows none of the nouns
    mirror              derives blocking methods and docstrings from the asynchronous classes
    message             twin of core/message and jetstream/message/delivered
    subscription        twin of core/subscription
    fetch               fetches that keep their messages when interrupted
    lazy_reader         twin of jetstream/lazy_reader
    iterate             twin of jetstream/pull/iterate: `Messages`, `Consuming`
    consumer, ordered   twins of jetstream/consumer, jetstream/ordered/pull
    stream              twin of jetstream/stream
    publisher, atomic   twins of the files of those names in jetstream/publish
    push_subscription   twin of jetstream/push/subscription
    pull_subscription   twin of jetstream/subscribe/pull
    kv                  twin of jetstream/kv
    objects             twin of jetstream/objects
    advisories          twin of jetstream/advisories
    context             twin of jetstream/context
    connection          twin of core/connection and client: `Connection`, `connect`, `from_env`

tests/rules/test_parity.py compares every class with its twin.
"""

from jetspark.blocking.advisories import Advisories
from jetspark.blocking.atomic import AtomicBatch
from jetspark.blocking.connection import Connection, connect, from_env
from jetspark.blocking.consumer import Consumer
from jetspark.blocking.context import JetStream
from jetspark.blocking.iterate import Consuming, Messages
from jetspark.blocking.kv import KeyValue, KeyValueCache, KeyValueWatch
from jetspark.blocking.message import Batch, JetStreamMsg, Msg, ack_all
from jetspark.blocking.objects import ObjectReader, ObjectStore, ObjectWatch
from jetspark.blocking.ordered import OrderedConsumer
from jetspark.blocking.publisher import Publisher
from jetspark.blocking.pull_subscription import PullSubscription
from jetspark.blocking.push_subscription import PushSubscription
from jetspark.blocking.stream import Stream
from jetspark.blocking.subscription import Subscription

__all__ = [
    "Advisories",
    "AtomicBatch",
    "Batch",
    "Connection",
    "Consumer",
    "Consuming",
    "JetStream",
    "JetStreamMsg",
    "KeyValue",
    "KeyValueCache",
    "KeyValueWatch",
    "Messages",
    "Msg",
    "ObjectReader",
    "ObjectStore",
    "ObjectWatch",
    "OrderedConsumer",
    "Publisher",
    "PullSubscription",
    "PushSubscription",
    "Stream",
    "Subscription",
    "ack_all",
    "connect",
    "from_env",
]

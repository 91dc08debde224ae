"""The same nouns and signatures without `await`, on one background loop per process.

    with jetspark.blocking.connect(url) as nc:
        js = nc.jetstream()

Everything can be used from several threads at once. Handlers, callbacks and listeners run in threads of
their own and may block. After a fork, connect again in the child.
"""

from jetspark.blocking.advisory import Advisories
from jetspark.blocking.connect import connect
from jetspark.blocking.connection import Connection
from jetspark.blocking.consumer import Consumer, OrderedConsumer
from jetspark.blocking.consuming import Consuming, Messages
from jetspark.blocking.context import JetStream
from jetspark.blocking.message import Batch, JetStreamMsg, Msg, ack_all
from jetspark.blocking.publisher import AtomicBatch, Publisher
from jetspark.blocking.pull_subscribe import PullSubscription
from jetspark.blocking.push import PushSubscription
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
    "Messages",
    "Msg",
    "OrderedConsumer",
    "Publisher",
    "PullSubscription",
    "PushSubscription",
    "Stream",
    "Subscription",
    "ack_all",
    "connect",
]

"""NATS JetStream for Python and for Spark. The public names, nothing else.

They are loaded on first use, so that a program that needs few of them, above all the command line, starts
at once. The errors are always loaded.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from jetspark import errors as errors
from jetspark._version import __version__ as __version__
from jetspark.errors import *  # noqa: F403

if TYPE_CHECKING:  # The same names as in _NAMES: type checkers and editors read only imports.
    from jetspark import blocking as blocking
    from jetspark import server as server
    from jetspark.client import Connection as Connection
    from jetspark.client import connect as connect
    from jetspark.client import from_env as from_env
    from jetspark.core.connection import Statistics as Statistics
    from jetspark.core.events import Event as Event
    from jetspark.core.link import State as State
    from jetspark.core.message import Msg as Msg
    from jetspark.core.server_info import ServerInfo as ServerInfo
    from jetspark.core.subscription import Subscription as Subscription
    from jetspark.jetstream.advisories import Advisories as Advisories
    from jetspark.jetstream.consumer import Consumer as Consumer
    from jetspark.jetstream.context import JetStream as JetStream
    from jetspark.jetstream.dead_letters import DeadLetter as DeadLetter
    from jetspark.jetstream.kv.cache import KeyValueCache as KeyValueCache
    from jetspark.jetstream.kv.codecs import Base64Keys as Base64Keys
    from jetspark.jetstream.kv.codecs import EscapedKeys as EscapedKeys
    from jetspark.jetstream.kv.codecs import KeyCodec as KeyCodec
    from jetspark.jetstream.kv.codecs import PathKeys as PathKeys
    from jetspark.jetstream.kv.config import KeyValueConfig as KeyValueConfig
    from jetspark.jetstream.kv.entry import KeyValueEntry as KeyValueEntry
    from jetspark.jetstream.kv.entry import KeyValueOperation as KeyValueOperation
    from jetspark.jetstream.kv.status import KeyValueStatus as KeyValueStatus
    from jetspark.jetstream.kv.store import KeyValue as KeyValue
    from jetspark.jetstream.kv.watch import KeyValueWatch as KeyValueWatch
    from jetspark.jetstream.message.delivered import Batch as Batch
    from jetspark.jetstream.message.delivered import JetStreamMsg as JetStreamMsg
    from jetspark.jetstream.message.delivered import ack_all as ack_all
    from jetspark.jetstream.message.metadata import Metadata as Metadata
    from jetspark.jetstream.message.metadata import SequencePair as SequencePair
    from jetspark.jetstream.message.stored import StoredMessage as StoredMessage
    from jetspark.jetstream.model.advisories import Advisory as Advisory
    from jetspark.jetstream.model.consumer import AckPolicy as AckPolicy
    from jetspark.jetstream.model.consumer import ConsumerConfig as ConsumerConfig
    from jetspark.jetstream.model.consumer import DeliverPolicy as DeliverPolicy
    from jetspark.jetstream.model.consumer import PriorityPolicy as PriorityPolicy
    from jetspark.jetstream.model.consumer import ReplayPolicy as ReplayPolicy
    from jetspark.jetstream.model.info import AccountInfo as AccountInfo
    from jetspark.jetstream.model.info import ConsumerInfo as ConsumerInfo
    from jetspark.jetstream.model.info import StreamInfo as StreamInfo
    from jetspark.jetstream.model.info import StreamState as StreamState
    from jetspark.jetstream.model.requests import PubAck as PubAck
    from jetspark.jetstream.model.stream import DiscardPolicy as DiscardPolicy
    from jetspark.jetstream.model.stream import ExternalStream as ExternalStream
    from jetspark.jetstream.model.stream import PersistMode as PersistMode
    from jetspark.jetstream.model.stream import Placement as Placement
    from jetspark.jetstream.model.stream import RePublish as RePublish
    from jetspark.jetstream.model.stream import RetentionPolicy as RetentionPolicy
    from jetspark.jetstream.model.stream import StorageType as StorageType
    from jetspark.jetstream.model.stream import StoreCompression as StoreCompression
    from jetspark.jetstream.model.stream import StreamConfig as StreamConfig
    from jetspark.jetstream.model.stream import StreamConsumerLimits as StreamConsumerLimits
    from jetspark.jetstream.model.stream import StreamSource as StreamSource
    from jetspark.jetstream.model.stream import SubjectTransform as SubjectTransform
    from jetspark.jetstream.objects.config import ObjectStoreConfig as ObjectStoreConfig
    from jetspark.jetstream.objects.info import ObjectInfo as ObjectInfo
    from jetspark.jetstream.objects.info import ObjectLink as ObjectLink
    from jetspark.jetstream.objects.info import ObjectMeta as ObjectMeta
    from jetspark.jetstream.objects.reader import ObjectReader as ObjectReader
    from jetspark.jetstream.objects.status import ObjectStoreStatus as ObjectStoreStatus
    from jetspark.jetstream.objects.store import ObjectStore as ObjectStore
    from jetspark.jetstream.objects.store import ObjectWatch as ObjectWatch
    from jetspark.jetstream.ordered.pull import OrderedConsumer as OrderedConsumer
    from jetspark.jetstream.publish.atomic import AtomicBatch as AtomicBatch
    from jetspark.jetstream.publish.publisher import Publisher as Publisher
    from jetspark.jetstream.pull.iterate import Consuming as Consuming
    from jetspark.jetstream.pull.iterate import Messages as Messages
    from jetspark.jetstream.pull.pin import PinEvent as PinEvent
    from jetspark.jetstream.push.subscription import PushSubscription as PushSubscription
    from jetspark.jetstream.stream import Stream as Stream
    from jetspark.jetstream.subscribe.pull import PullSubscription as PullSubscription
    from jetspark.wire.headers import Headers as Headers

    #: Whether the compiled part is used, and not its twin in Python.
    __compiled__: bool

#: The names that are loaded on first use, by module.
_NAMES: Final = {
    "client": "Connection connect from_env",
    "core.connection": "Statistics",
    "core.events": "Event",
    "core.link": "State",
    "core.message": "Msg",
    "core.server_info": "ServerInfo",
    "core.subscription": "Subscription",
    "jetstream.advisories": "Advisories",
    "jetstream.consumer": "Consumer",
    "jetstream.context": "JetStream",
    "jetstream.dead_letters": "DeadLetter",
    "jetstream.kv.cache": "KeyValueCache",
    "jetstream.kv.codecs": "Base64Keys EscapedKeys KeyCodec PathKeys",
    "jetstream.kv.config": "KeyValueConfig",
    "jetstream.kv.entry": "KeyValueEntry KeyValueOperation",
    "jetstream.kv.status": "KeyValueStatus",
    "jetstream.kv.store": "KeyValue",
    "jetstream.kv.watch": "KeyValueWatch",
    "jetstream.message.delivered": "Batch JetStreamMsg ack_all",
    "jetstream.message.metadata": "Metadata SequencePair",
    "jetstream.message.stored": "StoredMessage",
    "jetstream.model.advisories": "Advisory",
    "jetstream.model.consumer": "AckPolicy ConsumerConfig DeliverPolicy PriorityPolicy ReplayPolicy",
    "jetstream.model.info": "AccountInfo ConsumerInfo StreamInfo StreamState",
    "jetstream.model.requests": "PubAck",
    "jetstream.model.stream": (
        "DiscardPolicy ExternalStream PersistMode Placement RePublish RetentionPolicy StorageType "
        "StoreCompression StreamConfig StreamConsumerLimits StreamSource SubjectTransform"
    ),
    "jetstream.objects.config": "ObjectStoreConfig",
    "jetstream.objects.info": "ObjectInfo ObjectLink ObjectMeta",
    "jetstream.objects.reader": "ObjectReader",
    "jetstream.objects.status": "ObjectStoreStatus",
    "jetstream.objects.store": "ObjectStore ObjectWatch",
    "jetstream.ordered.pull": "OrderedConsumer",
    "jetstream.publish.atomic": "AtomicBatch",
    "jetstream.publish.publisher": "Publisher",
    "jetstream.pull.iterate": "Consuming Messages",
    "jetstream.pull.pin": "PinEvent",
    "jetstream.push.subscription": "PushSubscription",
    "jetstream.stream": "Stream",
    "jetstream.subscribe.pull": "PullSubscription",
    "wire.headers": "Headers",
}
_HOMES: Final = {name: home for home, names in _NAMES.items() for name in names.split()}
#: Parts that are used under their own name.
_PARTS: Final = ("blocking", "client", "core", "jetstream", "server", "wire")


if not TYPE_CHECKING:  # A type checker that sees __getattr__ would accept any name.
    __all__ = sorted(["__compiled__", "__version__", "blocking", "server", *errors.__all__, *_HOMES])  # noqa: PLE0605

    def __getattr__(name: str) -> object:
        """Load a public name, or a part of the package, when it is first used."""
        if name in _PARTS:
            if name != "server":
                importlib.import_module("jetspark.client")  # with all layers below it
            return importlib.import_module(f"jetspark.{name}")
        if name == "__compiled__":
            return importlib.import_module("jetspark.wire").COMPILED
        if name in _HOMES:
            value = globals()[name] = getattr(importlib.import_module(f"jetspark.{_HOMES[name]}"), name)
            return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})

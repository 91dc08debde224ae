"""The rules of `subscribe` and `pull_subscribe`: valid arguments, and whether a consumer matches them.

Everything here is decided from the arguments and the answers of the server. No I/O, no clock.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from jetspark.errors import (
    ConsumerIsPull,
    ConsumerIsPush,
    ConsumerMismatch,
    DuplicateSubscription,
    NoMatchingStream,
    UsageError,
)
from jetspark.jetstream.model.base import to_ns
from jetspark.jetstream.model.consumer import AckPolicy, ConsumerConfig
from jetspark.jetstream.model.info import ConsumerInfo
from jetspark.wire.subjects import check_filter, check_name, check_queue

__all__ = ["Asked", "ask", "ask_ordered", "check_found", "differences", "only_stream", "to_create"]

#: Seconds between the heartbeats that flow control needs, unless given.
DEFAULT_HEARTBEAT: Final = 5.0

#: ADR-17: nothing is acknowledged, so a missing acknowledgement must not cause a redelivery.
_ORDERED_ACK_WAIT: Final = 22 * 3600.0
#: The values that a given field may have in an ordered subscription (ADR-17).
_ORDERED: Final[dict[str, tuple[object, ...]]] = {
    "ack_policy": (AckPolicy.NONE,),
    "backoff": ([],),
    "deliver_group": (),
    "deliver_subject": (),
    "direct": (False,),
    "flow_control": (True,),
    "max_ack_pending": (),
    "max_deliver": (1,),
    "mem_storage": (True,),
    "num_replicas": (1,),
    "sourcing": (False,),
}

_DEFAULTS: Final = ConsumerConfig()
#: Fields that have their own rules and are not compared.
_NOT_COMPARED: Final = frozenset({"name", "deliver_group", "filter_subject", "filter_subjects", "extra"})
_SECONDS: Final = frozenset(
    {"ack_wait", "idle_heartbeat", "inactive_threshold", "max_expires", "priority_timeout"}
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asked:
    """The arguments of a subscription, checked and merged."""

    #: Empty when not given.
    subject: str
    #: Empty when the stream is looked up by subject.
    stream: str
    #: Empty when the consumer is not shared.
    queue: str
    #: The name to look up; empty for a new consumer without a name.
    name: str
    #: Whether the consumer must exist.
    bound: bool
    pull: bool
    #: The wanted configuration, without the fields that the subscription sets itself.
    config: ConsumerConfig
    #: The fields of the configuration that the caller gave, also where they equal their default.
    given: frozenset[str]


def ask(
    *,
    pull: bool,
    subject: str = "",
    queue: str = "",
    durable: str | None = None,
    stream: str | None = None,
    consumer: str | None = None,
    config: ConsumerConfig | None = None,
    idle_heartbeat: float | None = None,
    flow_control: bool = False,
    changes: dict[str, object] | None = None,
) -> Asked:
    """Check and merge the arguments. Raises `UsageError` for contradictory or invalid ones."""
    config = _DEFAULTS if config is None else config
    if not isinstance(config, ConsumerConfig):
        raise UsageError(f"config must be a ConsumerConfig, not {type(config).__name__}")
    if subject:
        check_filter(subject)
    elif not stream:
        raise UsageError(
            "neither subject nor stream is given, so the consumer cannot be found",
            hint="Give a subject that one stream stores, or stream=",
        )
    queue = _same("queue", queue, "ConsumerConfig.deliver_group", config.deliver_group) or ""
    if queue:
        check_queue(queue)
    durable = _same("durable", durable, "ConsumerConfig.durable_name", config.durable_name)
    name = _same("consumer", consumer, "durable", durable) or config.name or ""
    if name and config.name and config.name != name:
        raise UsageError(f"ConsumerConfig.name={config.name!r} differs from {name!r}")
    if queue and not name:
        # Otherwise each member would get its own consumer, and so every message.
        durable = name = queue
    for argument, value in (("stream", stream), ("consumer", name)):
        if value:
            check_name(value, argument)
    filters = _filter_of(config, subject)
    given = config.given | (changes or {}).keys()
    if pull:
        _check_pull(config)
    else:
        config = _push(config, queue, idle_heartbeat, flow_control)
    config = config.replace(durable_name=durable or None, **filters, **(changes or {}))
    return Asked(
        subject=subject,
        stream=stream or "",
        queue=queue,
        name=name,
        bound=bool(consumer),
        pull=pull,
        config=config,
        given=given,
    )


def ask_ordered(asked: Asked) -> ConsumerConfig:
    """The configuration of an ordered subscription's consumers. Raises `UsageError` for invalid arguments.

    Settings that such a consumer cannot have are refused by name. ADR-17 has two exceptions: `ack_wait` is
    set to its value without an error, and so is a missing `idle_heartbeat`.
    """
    config = asked.config
    for argument, value in (("queue", asked.queue), ("durable or consumer", asked.name)):
        if value:
            raise _not_ordered(argument)
    for field, allowed in _ORDERED.items():
        value = getattr(config, field)
        given = field in asked.given or value != getattr(_DEFAULTS, field)
        if given and value not in (None, _STAND_IN, *allowed):
            raise _not_ordered(f"ConsumerConfig.{field}={value!s}")
    return config.replace(
        ack_policy=AckPolicy.NONE,
        ack_wait=_ORDERED_ACK_WAIT,
        max_deliver=1,
        mem_storage=True,
        num_replicas=1,
        flow_control=True,
        idle_heartbeat=config.idle_heartbeat or DEFAULT_HEARTBEAT,
    )


def _not_ordered(argument: str) -> UsageError:
    return UsageError(
        f"{argument} excludes ordered=True",
        hint="An ordered subscription creates and replaces its own consumers. Omit the argument",
    )


def only_stream(subject: str, names: Sequence[str]) -> str:
    """The stream that stores a subject. Raises `NoMatchingStream` unless there is exactly one."""
    if len(names) == 1:
        return names[0]
    if names:
        raise NoMatchingStream(
            f"{len(names)} streams store subjects of {subject!r}: {', '.join(sorted(names))}",
            subject=subject,
            streams=tuple(sorted(names)),
            hint="Choose one with stream=",
        )
    raise NoMatchingStream(
        f"no stream stores {subject!r}",
        subject=subject,
        hint="Create one with js.create_stream(...), or check the subject, `domain` and the account",
    )


def to_create(asked: Asked, deliver_subject: str) -> ConsumerConfig:
    """The configuration to create; `deliver_subject` is for a push consumer that has none."""
    changes: dict[str, object] = {}
    if not asked.pull:
        if asked.config.deliver_subject == _STAND_IN:
            changes["deliver_subject"] = deliver_subject
        changes["deliver_group"] = asked.queue or None
    if asked.name and not asked.config.durable_name:
        changes["name"] = asked.name
    return asked.config.replace(**changes)


def check_found(asked: Asked, info: ConsumerInfo) -> None:
    """Raise a `SubscribeError` or `ConsumerIsPush` unless the consumer matches the arguments."""
    found = info.config
    label = f"consumer {info.name} of stream {info.stream_name}"
    if asked.pull and found.is_push:
        raise ConsumerIsPush(
            f"{label} pushes to {found.deliver_subject!r} and cannot be pulled from",
            status=409,
            description="Consumer is push based",
            hint="Use js.subscribe(...)",
        )
    if not asked.pull:
        if not found.is_push:
            raise ConsumerIsPull(
                f"{label} has no deliver subject: it can only be pulled from",
                hint="Use js.pull_subscribe(...)",
            )
        _check_group(asked, info, label)
    wanted, filters = _filters(asked.config), _filters(found)
    if wanted and filters and wanted != filters:
        raise ConsumerMismatch(
            f"{label} delivers {_listed(filters)}, not {_listed(wanted)}",
            differences={"filter_subject": (_listed(wanted), _listed(filters))},
            hint="Subscribe to a subject that it delivers, or use another consumer",
        )
    changed = differences(asked.config, found, asked.given)
    if changed:
        listed = "; ".join(
            f"{field} is {theirs!r}, not {ours!r}" for field, (ours, theirs) in changed.items()
        )
        raise ConsumerMismatch(
            f"{label} exists with another configuration: {listed}",
            differences=changed,
            hint="It was not changed. Use js.update_consumer(...), omit these settings, or use another name",
        )


def differences(
    asked: ConsumerConfig, found: ConsumerConfig, given: frozenset[str]
) -> dict[str, tuple[object, object]]:
    """The fields that differ from the wanted configuration, with both values.

    The `given` fields are compared, also where they equal the default. None leaves a field to the server,
    and values that the server adds (defaults, its own metadata) are not compared.
    """
    changed: dict[str, tuple[object, object]] = {}
    for field in asked.__struct_fields__:
        ours, theirs = getattr(asked, field), getattr(found, field)
        if field in _NOT_COMPARED or ours is None:
            continue
        if field not in given and ours == getattr(_DEFAULTS, field):
            continue
        if field == "deliver_subject" and ours == _STAND_IN:
            continue
        if _comparable(field, ours, ours) != _comparable(field, theirs, ours):
            changed[field] = (ours, theirs)
    return changed


def _comparable(field: str, value: object, ours: object) -> object:
    if value is not None and field in _SECONDS:
        assert isinstance(value, float | int)
        return to_ns(value)
    if field == "backoff":
        assert isinstance(value, list)
        return [to_ns(wait) for wait in value]
    if field == "metadata":
        assert isinstance(value, dict)
        assert isinstance(ours, dict)
        return {key: value.get(key) for key in ours}
    if field == "sample_freq":
        return str(value or "").rstrip("%")
    return value


# --- a push consumer

#: Settings of push consumers require a deliver subject, and the real one is not known yet.
_STAND_IN: Final = "_JETSPARK.to-be-chosen"


def _push(
    config: ConsumerConfig, queue: str, idle_heartbeat: float | None, flow_control: bool
) -> ConsumerConfig:
    heartbeat = config.idle_heartbeat if idle_heartbeat is None else idle_heartbeat
    flow_control = flow_control or config.flow_control
    if queue and (heartbeat or flow_control):
        which = "flow_control" if flow_control else "idle_heartbeat"
        raise UsageError(
            f"{which} excludes queue={queue!r}: the server would send it to only one of the members",
            hint="Omit idle_heartbeat and flow_control for a queue",
        )
    if flow_control and not heartbeat:
        heartbeat = DEFAULT_HEARTBEAT
    return config.replace(
        deliver_subject=config.deliver_subject or _STAND_IN,
        idle_heartbeat=heartbeat or None,
        flow_control=flow_control,
    )


def _check_group(asked: Asked, info: ConsumerInfo, label: str) -> None:
    found = info.config
    group, queue = found.deliver_group or "", asked.queue
    if queue != group:
        if not queue:
            reason = f"is for the queue group {group!r}, and this is not a queue subscription"
            hint = f"Subscribe with queue={group!r}"
        elif not group:
            reason = "has no deliver group: a queue cannot share it"
            hint = "Use another consumer, or subscribe without queue"
        else:
            reason = f"is for the queue group {group!r}, not {queue!r}"
            hint = f"Subscribe with queue={group!r}, or use another consumer"
        differs = {"deliver_group": (queue or None, group or None)}
        raise ConsumerMismatch(f"{label} {reason}", differences=differs, hint=hint)
    if not queue and info.push_bound:
        raise DuplicateSubscription(
            f"{label} already has a subscriber",
            hint="Unsubscribe the other one, or share the messages with queue=",
        )
    if queue:
        for field, value in (("flow_control", found.flow_control), ("idle_heartbeat", found.idle_heartbeat)):
            if value:
                raise ConsumerMismatch(
                    f"{label} has {field}, which does not work with a queue",
                    differences={field: (None, value)},
                    hint="Create the consumer without it",
                )


# --- a pull consumer


def _check_pull(config: ConsumerConfig) -> None:
    if config.ack_policy in (AckPolicy.NONE, AckPolicy.ALL):
        raise UsageError(
            f"ConsumerConfig.ack_policy={str(config.ack_policy)!r} is not for pull subscriptions",
            hint="Use 'explicit'; consumer.fetch(...) of the simplified API takes any",
        )
    for field in ("deliver_subject", "deliver_group"):
        if getattr(config, field):
            raise UsageError(
                f"ConsumerConfig.{field} is not for pull subscriptions", hint="Use js.subscribe(...)"
            )


# --- filters


def _filters(config: ConsumerConfig) -> set[str]:
    return {*config.filter_subjects, *([config.filter_subject] if config.filter_subject else [])}


def _filter_of(config: ConsumerConfig, subject: str) -> dict[str, object]:
    filters = _filters(config)
    if not filters:
        return {"filter_subject": subject or None}
    if subject and filters != {subject}:
        raise UsageError(
            f"subject={subject!r} differs from the filter of the configuration: {_listed(filters)}",
            hint="Omit one of them; without a subject, give stream=",
        )
    return {}


def _listed(subjects: set[str]) -> str:
    return ", ".join(sorted(subjects))


def _same(argument: str, value: str | None, other: str, its_value: str | None) -> str | None:
    if value and its_value and value != its_value:
        raise UsageError(f"{argument}={value!r} differs from {other}={its_value!r}")
    return value or its_value

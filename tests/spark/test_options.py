"""The options of `format("jetstream")`: accepted values, refused values, and the errors."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.errors import UsageError
from jetspark.spark.options import ConnectionOptions, SourceOptions, Use, parse_options, stream_matches
from tests.support.cases import for_each
from tests.support.golden import Golden, Refusals

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)

# Option, text, what is read from it.
GOOD: list[tuple[str, str, object]] = [
    ("stream", "ORDERS", ("ORDERS",)),
    ("stream", " ORDERS , EVENTS ", ("ORDERS", "EVENTS")),
    ("stream", "ORDERS_*,E*", ("ORDERS_*", "E*")),
    ("stream", "*", ("*",)),
    ("bucket", " prices ", "prices"),
    ("keys", "eur.*, us.>", ("eur.*", "us.>")),
    ("includeHistory", "true", True),
    ("objectStore", "models", "models"),
    ("subjects", "orders.new", ("orders.new",)),
    ("subjects", "orders.*.eu, orders.*.us,events.>", ("orders.*.eu", "orders.*.us", "events.>")),
    ("startingPosition", "earliest", "earliest"),
    ("startingPosition", " Latest ", "latest"),
    ("startingPosition", '{"ORDERS": 1234}', (("ORDERS", 1234),)),
    ("startingPosition", '{"B": 2, "A": 1}', (("A", 1), ("B", 2))),
    ("endingPosition", "EARLIEST", "earliest"),
    ("endingPosition", "latest", "latest"),
    ("endingPosition", '{"ORDERS": 1}', (("ORDERS", 1),)),
    ("startingTimestamp", "2026-01-31T12:00:00Z", NOON),
    ("startingTimestamp", "2026-01-31T12:00:00", NOON),
    ("startingTimestamp", "2026-01-31", NOON.replace(hour=0)),
    ("endingTimestamp", "2026-01-31T13:30:00+01:30", NOON),
    ("endingTimestamp", " 2026-01-31 12:00:00.000001 ", NOON.replace(microsecond=1)),
    ("startingTimestamp", '{"B": "2026-01-31T12:00:00Z"}', (("B", NOON),)),
    ("retrySeconds", "90", 90.0),
    ("retrySeconds", "5m", 300.0),
    ("minMessagesPerTrigger", "100", 100),
    ("includeData", "false", False),
    ("maxMessagesPerTrigger", "1", 1),
    ("maxMessagesPerTrigger", " 100000 ", 100_000),
    ("maxBytesPerTrigger", "1", 1),
    ("minPartitions", "8", 8),
    ("maxMessagesPerPartition", "50000", 50_000),
    ("failOnDataLoss", "false", False),
    ("failOnDataLoss", "TRUE", True),
    ("includeHeaders", "False", False),
    ("includeHeaders", "true", True),
    ("headerColumns", "host=Log-Host, Trace", (("host", "Log-Host"), ("Trace", "Trace"))),
    ("progressConsumer", "spark-orders", "spark-orders"),
    ("consumer", " worker ", "worker"),
    ("allowNak", "TRUE", True),
    ("deadLetters", " ORDERS/worker ", ("ORDERS", "worker")),
    ("subject", " orders.new ", "orders.new"),
    ("maxPending", "1", 1),
    ("publishMode", "Atomic", "atomic"),
    ("publishMode", "async", "async"),
    ("controlHeaders", "Keep", "keep"),
    ("controlHeaders", "strip", "strip"),
    ("deadLetterSubject", " dead.rows ", "dead.rows"),
    ("msgIdPrefix", "job-7/", "job-7/"),
    ("minDuplicateWindow", "0", 0.0),
    ("minDuplicateWindow", "1.5", 1.5),
]
GOOD_CONNECTION: list[tuple[str, str, object]] = [
    ("servers", "nats://127.0.0.1:4222", ("nats://127.0.0.1:4222",)),
    ("servers", "tls://one:4222, two", ("tls://one:4222", "two")),
    ("credentialsFile", "/etc/nats/me.creds", "/etc/nats/me.creds"),
    ("user", "me", "me"),
    ("token", "t0k3n", "t0k3n"),
    ("tokenFile", "secrets/token", "secrets/token"),
    ("nkeySecretFile", "me.nk", "me.nk"),
    ("tlsCaFile", "ca.pem", "ca.pem"),
    ("tlsCertFile", "cert.pem", "cert.pem"),
    ("tlsHostname", "nats.example", "nats.example"),
    ("tlsHandshakeFirst", "true", True),
    ("context", "prod", "prod"),
    ("domain", "hub", "hub"),
    ("apiPrefix", "$JS.hub.API", "$JS.hub.API"),
    ("inboxPrefix", "_INBOX_me", "_INBOX_me"),
]

# Option, text, what the error says is accepted or wrong.
BAD = [
    ("bucket", "a b"),
    ("keys", "a b"),
    ("keys", "a.>,a.b"),
    ("includeHistory", "yes"),
    ("objectStore", "a.b"),
    ("servers", ""),
    ("servers", "http://127.0.0.1"),
    ("servers", "nats://:4222"),
    ("servers", "a,a"),
    ("credentialsFile", " "),
    ("user", ""),
    ("password", ""),
    ("passwordFile", ""),
    ("token", " "),
    ("tokenFile", " "),
    ("nkeySecretFile", ""),
    ("tlsCaFile", ""),
    ("tlsCertFile", ""),
    ("tlsKeyFile", ""),
    ("tlsHostname", "a b"),
    ("tlsHandshakeFirst", "yes"),
    ("context", " "),
    ("retrySeconds", "0"),
    ("retrySeconds", "soon"),
    ("minMessagesPerTrigger", "0"),
    ("maxTriggerDelay", "-5m"),
    ("includeData", "no"),
    ("startingTimestamp", '{"A": 5}'),
    ("startingTimestamp", "{}"),
    ("startingTimestamp", '{"A": "noon"}'),
    ("domain", "a.b"),
    ("apiPrefix", "$JS.*.API"),
    ("apiPrefix", "a b"),
    ("inboxPrefix", "me.>"),
    ("startingPosition", '{"A":' * 100_000),
    ("stream", ""),
    ("stream", "A,,B"),
    ("stream", "A,A"),
    ("stream", "A.B"),
    ("stream", "A>"),
    ("stream", "A/B"),
    ("subjects", "a..b"),
    ("subjects", "a.>.b"),
    ("subjects", "a.*,a.b"),
    ("subjects", "a,a"),
    ("startingPosition", "first"),
    ("startingPosition", "5"),
    ("startingPosition", "{}"),
    ("startingPosition", "[1]"),
    ("startingPosition", '{"A": 0}'),
    ("startingPosition", '{"A": -1}'),
    ("startingPosition", '{"A": 1.5}'),
    ("startingPosition", '{"A": "5"}'),
    ("startingPosition", '{"A": true}'),
    ("startingPosition", '{"A*": 1}'),
    ("endingPosition", "last"),
    ("endingPosition", '{"A": null}'),
    ("startingTimestamp", "yesterday"),
    ("startingTimestamp", "1769860800"),
    ("endingTimestamp", "2026-02-30"),
    ("maxMessagesPerTrigger", "0"),
    ("maxMessagesPerTrigger", "many"),
    ("maxMessagesPerTrigger", "1.5"),
    ("maxBytesPerTrigger", "-1"),
    ("maxBytesPerTrigger", "10m"),
    ("minPartitions", "0"),
    ("maxMessagesPerPartition", ""),
    ("failOnDataLoss", "yes"),
    ("failOnDataLoss", ""),
    ("includeHeaders", "1"),
    ("headerColumns", ""),
    ("headerColumns", "a b=Log-Host,=Trace"),
    ("headerColumns", "Data=Log-Host"),
    ("headerColumns", "a=Log Host"),
    ("headerColumns", "a=X,A=Y"),
    ("progressConsumer", "a.b"),
    ("consumer", "a.b"),
    ("allowNak", "perhaps"),
    ("deadLetters", "ORDERS"),
    ("deadLetters", "ORDERS/a.b"),
    ("deadLetters", "/worker"),
    ("progressConsumer", ""),
    ("subject", "orders.*"),
    ("subject", ""),
    ("maxPending", "0"),
    ("publishMode", "sync"),
    ("controlHeaders", "drop"),
    ("deadLetterSubject", "dead.*"),
    ("msgIdPrefix", "a\nb"),
    ("msgIdPrefix", " "),
    ("minDuplicateWindow", "inf"),
    ("minDuplicateWindow", "-1"),
    ("minDuplicateWindow", "nan"),
    ("minDuplicateWindow", "2m"),
]

ALL = {
    "servers",
    "credentialsFile",
    "user",
    "password",
    "passwordFile",
    "token",
    "tokenFile",
    "nkeySecretFile",
    "tlsCaFile",
    "tlsCertFile",
    "tlsKeyFile",
    "domain",
    "apiPrefix",
    "inboxPrefix",
    "tlsHostname",
    "tlsHandshakeFirst",
    "context",
    "retrySeconds",
    "minMessagesPerTrigger",
    "maxTriggerDelay",
    "includeData",
    "stream",
    "subjects",
    "startingPosition",
    "endingPosition",
    "startingTimestamp",
    "endingTimestamp",
    "maxMessagesPerTrigger",
    "maxBytesPerTrigger",
    "minPartitions",
    "maxMessagesPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "headerColumns",
    "bucket",
    "keys",
    "includeHistory",
    "objectStore",
    "progressConsumer",
    "consumer",
    "allowNak",
    "deadLetters",
    "subject",
    "maxPending",
    "publishMode",
    "controlHeaders",
    "deadLetterSubject",
    "msgIdPrefix",
    "minDuplicateWindow",
}


def snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def test_these_are_all_options() -> None:
    with pytest.raises(UsageError) as caught:
        parse_options({"nonsense": ""})
    assert set(str(caught.value).partition("The options are: ")[2].split(", ")) == ALL
    assert {name for name, _, _ in [*GOOD, *GOOD_CONNECTION]} | {
        "password",
        "passwordFile",
        "tlsKeyFile",
        "maxTriggerDelay",
    } == ALL
    assert {name for name, _ in BAD} == ALL


def test_without_options_the_defaults_hold() -> None:
    parsed = parse_options({})
    assert parsed == SourceOptions()
    assert parsed.connection.servers == ("nats://127.0.0.1:4222",)
    assert (parsed.fail_on_data_loss, parsed.include_headers) == (True, True)
    assert (parsed.subject, parsed.max_pending, parsed.publish_mode) == (None, 4096, "async")
    assert (parsed.msg_id_prefix, parsed.min_duplicate_window) == ("", 120.0)


@for_each(("name", "text", "value"), GOOD, ids=str)
@for_each("spelled", [str, str.lower, str.upper], ids=["as-is", "lower", "upper"])
def test_an_option_is_read_however_its_name_is_written(
    name: str, text: str, value: object, spelled: Any
) -> None:
    parsed = parse_options({spelled(name): text})
    assert getattr(parsed, snake(name)) == value
    assert parsed.given == (name,)


@for_each(("name", "text", "value"), GOOD_CONNECTION, ids=str)
def test_an_option_of_the_connection_is_read(name: str, text: str, value: object) -> None:
    assert getattr(parse_options({name.lower(): text}).connection, snake(name)) == value


def test_passwords_and_keys_are_read_with_what_they_belong_to() -> None:
    connection = parse_options(
        {"user": "me", "password": "s3cret", "tlscertfile": "c.pem", "tlskeyfile": "k.pem"}
    ).connection
    assert (connection.user, connection.password) == ("me", "s3cret")
    assert (connection.tls_cert_file, connection.tls_key_file) == ("c.pem", "k.pem")


def test_bad_options_are_refused_with_their_names_and_what_is_accepted(golden: Golden) -> None:
    told = Refusals()
    for name, text in BAD:
        with told.refusal({name: text}, names=f"option {name}"):
            parse_options({name.lower(): text})
    told.section("Options that do not go together")
    for options in TOGETHER:
        with told.refusal(options, hides="s3cret"):
            parse_options(options)
    golden("errors-spark", told.text())


@for_each(
    ("written", "meant"),
    [
        ("streams", "stream"),
        ("startPosition", "startingPosition"),
        ("maxMessagesPerTriger", "maxMessagesPerTrigger"),
        ("fail_on_data_loss", "failOnDataLoss"),
        ("server", "servers"),
    ],
)
def test_a_misspelled_option_is_refused_with_the_likely_one(written: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"unknown option '{written}'. Did you mean {meant}\\?"):
        parse_options({written: "1"})


@for_each("name", ["group", "kafka.bootstrap.servers", "", "maxRecordsPerTrigger"])
def test_an_unknown_option_is_refused_with_the_list_of_all(name: str) -> None:
    with pytest.raises(UsageError, match="unknown option") as caught:
        parse_options({name: "x"})
    assert all(option in str(caught.value) for option in ALL)


def test_a_path_is_refused_with_the_option_that_is_meant() -> None:
    with pytest.raises(UsageError, match=r"load\(\) takes no path.*option\(.stream"):
        parse_options({"path": "ORDERS"})


# --- secrets


def test_secrets_are_not_shown() -> None:
    parsed = parse_options({"stream": "A", "user": "me", "password": "s3cret"})
    assert "s3cret" not in repr(parsed) + str(parsed) + repr(parsed.connection)
    token = parse_options({"token": "s3cret"})
    assert "s3cret" not in repr(token) + str(token)


@for_each(
    "url",
    [
        "nats://me:s3cret@127.0.0.1:4222",
        "nats://s3cret@127.0.0.1",
        "tls://one, tls://me:s3cret@two",
        "me:s3cret@127.0.0.1",
        "nats://:s3cret@127.0.0.1",
    ],
)
def test_a_url_with_a_secret_in_it_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(UsageError, match="servers must not contain") as caught:
        parse_options({"servers": url})
    assert "s3cret" not in str(caught.value)
    assert "credentialsFile" in str(caught.value)


@for_each(
    "url",
    [
        "nats://me:s3cret@",
        "http://me:s3cret@host",
        "nats://me:s3cret@host:port",
        "nats://me:s3cret@host,nats://me:s3cret@host",
        "nats://me:s3cret@host,",
    ],
)
def test_a_bad_url_is_refused_without_showing_its_secret(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_options({"servers": url})
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


# --- options that exclude each other


TOGETHER: list[dict[str, str]] = [
    {"user": "me", "token": "s3cret"},
    {"credentialsFile": "a", "nkeySecretFile": "b"},
    {"password": "s3cret"},
    {"passwordFile": "secret"},
    {"user": "me", "password": "x", "passwordFile": "y"},
    {"token": "x", "tokenFile": "y"},
    {"tlsKeyFile": "k.pem"},
    {"domain": "hub", "apiPrefix": "$JS.hub.API"},
    {"startingPosition": "latest", "startingTimestamp": "2026-01-31"},
    {"endingPosition": "latest", "endingTimestamp": "2026-01-31"},
    {"startingTimestamp": "2026-01-31", "endingTimestamp": "2026-01-30"},
    {"stream": "A,B*", "startingPosition": '{"C": 1}'},
    {"stream": "A,B*", "startingTimestamp": '{"C": "2026-01-31"}'},
    {"maxTriggerDelay": "5m"},
    {"minMessagesPerTrigger": "5", "maxMessagesPerTrigger": "4"},
    {"includeData": "false", "headerColumns": "Size=X"},
    {"stream": "A,B*", "endingPosition": '{"A": 1, "CB": 1}'},
    {"consumer": "w", "startingPosition": "latest"},
    {"consumer": "w", "startingTimestamp": "2026-01-31"},
    {"consumer": "w", "maxBytesPerTrigger": "9"},
    {"consumer": "w", "progressConsumer": "p"},
    {"deadLetters": "A/b", "stream": "A"},
    {"deadLetters": "A/b", "headerColumns": "X"},
    {"deadLetters": "A/b", "includeData": "false"},
    {"deadLetters": "A/b", "bucket": "b"},
    {"deadLetters": "A/b", "objectStore": "b"},
    {"consumer": "w", "headerColumns": "Num_Delivered=X"},
]


@for_each(
    "options",
    [
        {"startingTimestamp": "2026-01-31", "endingTimestamp": "2026-01-31"},
        {"startingPosition": "earliest", "endingTimestamp": "2026-01-31"},
        {"minMessagesPerTrigger": "5", "maxTriggerDelay": "30s", "maxMessagesPerTrigger": "5"},
        {"stream": "A,B*", "startingPosition": '{"A": 1, "BCD": 5}'},
    ],
    ids=str,
)
def test_options_that_go_together_are_taken(options: dict[str, str]) -> None:
    assert set(parse_options(options).given) == options.keys()


#: Options that are not for everything, and what they are for; the connection and `stream` are for all.
USES = {
    ("endingPosition", "endingTimestamp"): Use.BATCH,
    ("maxMessagesPerTrigger", "maxBytesPerTrigger", "progressConsumer", "consumer"): Use.STREAM,
    ("minMessagesPerTrigger", "allowNak"): Use.STREAM,
    ("subjects", "startingPosition", "startingTimestamp"): Use.READ,
    ("minPartitions", "maxMessagesPerPartition", "failOnDataLoss"): Use.READ,
    ("includeHeaders", "includeData", "headerColumns", "keys", "deadLetters"): Use.READ,
    ("includeHistory", "objectStore"): Use.BATCH,
    ("subject", "maxPending", "publishMode", "msgIdPrefix", "minDuplicateWindow"): Use.WRITE,
    ("controlHeaders", "deadLetterSubject"): Use.WRITE,
}


def test_an_option_without_effect_is_refused_by_name() -> None:
    texts = {name: text for name, text, _ in [*GOOD, *GOOD_CONNECTION]}
    for name, text in texts.items():
        suits = next((use for names, use in USES.items() if name in names), Use.ALL)
        parsed = parse_options({name: text})
        for use in (Use.BATCH, Use.STREAM, Use.WRITE):
            if use in suits:
                parsed.check_use(use)
            else:
                with pytest.raises(UsageError, match=f"option {name} is for .*, not for "):
                    parsed.check_use(use)


def test_the_error_says_what_the_option_is_for() -> None:
    for name, text, use, said in (
        ("endingPosition", "latest", Use.STREAM, "is for read, not for readStream"),
        ("maxBytesPerTrigger", "5", Use.BATCH, "is for readStream, not for read"),
        ("subject", "a", Use.BATCH, "is for write and writeStream, not for read"),
        ("subjects", "a", Use.WRITE, "is for read and readStream, not for write and writeStream"),
    ):
        with pytest.raises(UsageError, match=f"option {name} {said}"):
            parse_options({name: text}).check_use(use)


# --- how parsed options are used


def test_options_can_be_pickled_and_be_a_key() -> None:
    texts = {"stream": "A", "startingposition": '{"A": 1}', "user": "me", "password": "s3cret"}
    one, other = parse_options(texts), parse_options(texts)
    assert pickle.loads(pickle.dumps(one)) == one
    assert len({one, other}) == 1
    assert one.connection != parse_options({**texts, "password": "other"}).connection
    assert one.connection == ConnectionOptions(user="me", password="s3cret")


def test_a_time_without_a_zone_is_utc_and_one_with_a_zone_keeps_it() -> None:
    assert parse_options({"startingTimestamp": "2026-01-31T12:00"}).starting_timestamp == NOON
    parsed = parse_options({"startingTimestamp": "2026-01-31T14:00+02:00"}).starting_timestamp
    assert parsed == NOON
    assert isinstance(parsed, datetime)
    assert parsed.tzinfo == timezone(timedelta(hours=2))


@for_each(
    ("pattern", "meant", "not_meant"),
    [
        ("A", ["A"], ["AB", "a", ""]),
        ("A*", ["A", "AB", "A*"], ["BA"]),
        ("*A", ["A", "BA"], ["AB"]),
        ("A*A", ["AA", "ABA", "AAA"], ["A", "AB"]),
        ("A*B*C", ["ABC", "AxBxC", "ABBC"], ["AC", "ACB", "ABCx"]),
        ("*", ["A", ""], []),
        ("A**B", ["AB", "AxB"], ["A"]),
        ("A+", ["A+"], ["AA"]),
    ],
)
def test_a_star_stands_for_any_part_of_a_name(pattern: str, meant: list[str], not_meant: list[str]) -> None:
    assert all(stream_matches(name, [pattern]) for name in meant)
    assert not any(stream_matches(name, [pattern]) for name in not_meant)
    assert all(stream_matches(name, ["other", pattern]) for name in meant)


@given(st.lists(st.text("AB", max_size=3), min_size=1, max_size=4), st.data())
def test_what_stars_are_replaced_by_is_meant(parts: list[str], data: st.DataObject) -> None:
    name = parts[0] + "".join(data.draw(st.text("AB", max_size=3)) + part for part in parts[1:])
    assert stream_matches(name, ["*".join(parts)])


@for_each("name", sorted(ALL))
def test_whatever_an_option_is_the_error_is_about_its_use(name: str) -> None:
    for text in ("a\ud800", "a\0b", "{" * 100_000, "9" * 5000, "nats://[::1", "0001-01-01T00:00+23:59", "\n"):
        try:
            parse_options({"user": "me", name: text})
        except UsageError:
            pass

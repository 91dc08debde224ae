"""The options of tables in Spark's catalog: found again in the columns, and used for what they are for."""

from __future__ import annotations

import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from jetspark.errors import UsageError
from jetspark.spark.options import Use, parse_options
from jetspark.spark.schema import read_schema
from jetspark.spark.source import JetStreamDataSource
from jetspark.spark.table import insert_options, read_options
from tests.support.cases import for_each

URL = "nats://10.0.0.1:4222"
TABLE = {
    "servers": URL,
    "stream": "ORDERS",
    "subject": "orders.eu",
    "startingposition": "earliest",
    "endingposition": "latest",
    "maxmessagespertrigger": "10",
}
#: As `CREATE TABLE` passes it: properties, options, and these once more with a prefix.
CREATED = {
    **{"provider": "jetstream", "owner": "me", "comment": "c", "location": "/x", "path": "/x", "foo": "bar"},
    **TABLE,
    **{f"option.{name}": text for name, text in TABLE.items()},
}


def created(options: dict[str, str]) -> StructType:
    """The columns of a table, as the catalog gives them back."""
    schema = JetStreamDataSource(options).schema()
    return StructType.fromJson(schema.jsonValue())


def test_a_table_is_read_with_those_of_its_options_that_are_for_reading() -> None:
    schema = created(CREATED)
    of_both = {"servers": URL, "stream": "ORDERS", "startingposition": "earliest"}
    assert read_options(schema, {}, Use.BATCH) == {**of_both, "endingposition": "latest"}
    assert read_options(schema, {}, Use.STREAM) == {**of_both, "maxmessagespertrigger": "10"}


def test_options_of_a_statement_replace_those_of_the_table() -> None:
    merged = read_options(created(CREATED), {"startingposition": "latest", "minpartitions": "2"}, Use.STREAM)
    assert (merged["startingposition"], merged["minpartitions"]) == ("latest", "2")


def test_a_table_is_written_with_those_of_its_options_that_are_for_writing() -> None:
    merged = insert_options(created(CREATED), {"maxpending": "7"})
    assert merged == {"servers": URL, "stream": "ORDERS", "subject": "orders.eu", "maxpending": "7"}


def test_other_columns_carry_nothing() -> None:
    schema = read_schema(parse_options({"stream": "ORDERS"}))
    assert read_options(schema, {"stream": "A"}, Use.BATCH) == {"stream": "A"}
    assert insert_options(schema, {}) is None
    assert insert_options(StructType([]), {}) is None


def test_rows_of_a_table_may_go_elsewhere() -> None:
    schema = created(CREATED)
    assert insert_options(schema, {"servers": URL, "subject": "copies.a"}) is None
    assert insert_options(schema, {"context": "prod"}) is None
    assert insert_options(StructType(schema.fields[:2]), {"subject": "copies.a"}) is None
    mixed = StructType([schema[0], StructField("data", BinaryType()), StructField("msg_id", StringType())])
    assert insert_options(mixed, {}) is None


@for_each("option", [{"subject": "a"}, {"stream": "A"}, {"user": "me"}, {"domain": "hub"}], ids=str)
def test_rows_that_may_be_for_the_table_or_not_are_refused(option: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"not clear where they should go.*add option servers"):
        insert_options(created(CREATED), option)


@pytest.mark.parametrize("name", ["password", "token"])
def test_a_secret_is_no_option_of_a_table(name: str) -> None:
    options = {"provider": "jetstream", name: "s3cret", f"option.{name}": "s3cret", "option.stream": "A"}
    with pytest.raises(
        UsageError, match=f"option {name} cannot be an option of a table.*{name}File"
    ) as caught:
        JetStreamDataSource(options)
    assert "s3cret" not in str(caught.value)


def test_properties_of_a_table_are_no_options() -> None:
    assert created({**CREATED, "subjects": "a property", "collation": "UTF8_BINARY"}) == created(CREATED)


def test_a_kind_of_rows_is_never_left_out() -> None:
    schema = created({"provider": "jetstream", "option.objectstore": "models"})
    with pytest.raises(UsageError, match="option objectStore is for read, not for readStream"):
        JetStreamDataSource({}).streamReader(schema)


def test_a_table_with_columns_of_its_own_says_what_is_wrong() -> None:
    columns = StructType([StructField("subject", StringType())])
    with pytest.raises(UsageError, match=r"missing option stream.*without a list of columns"):
        JetStreamDataSource({}).reader(columns)


def test_a_write_without_options_is_refused() -> None:
    columns = StructType([StructField("subject", StringType()), StructField("data", BinaryType())])
    with pytest.raises(UsageError, match="a write without options"):
        JetStreamDataSource({}).writer(columns, overwrite=False)
    with pytest.raises(UsageError, match="a write without options"):
        JetStreamDataSource({"checkpointLocation": "/x"}).streamWriter(columns, overwrite=False)

"""Read one stream, transform it and write to another, in several runs with one checkpoint: exactly once."""

import os
import sys
import tempfile

from pyspark.sql import SparkSession

import jetspark
from jetspark import StreamConfig

# Spark's workers run this Python, and all sockets listen on loopback only.
os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
builder = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
)


def run(spark: SparkSession, url: str, directory: str) -> None:
    """Bill the new orders, and stop. Without the trigger, the query runs until it is stopped."""
    orders = (
        spark.readStream.format("jetstream")
        .option("servers", url)
        .option("stream", "ORDERS")
        .option("startingPosition", "earliest")
        .load()
        .selectExpr("sequence", "from_json(string(data), 'id long, country string, amount long') AS item")
    )
    bills = orders.where("item.amount > 0").selectExpr(
        "concat('bills.', item.country) AS subject",
        "to_json(struct(item.id, item.amount * 119 / 100 AS gross)) AS data",
        "map('Order-Sequence', string(sequence)) AS headers",
    )
    query = (
        bills.writeStream.format("jetstream")
        .option("servers", url)
        .option("stream", "BILLS")  # Rows that another stream would store are refused.
        .option("checkpointLocation", directory)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print("orders per batch:", [progress.numInputRows for progress in query.recentProgress])


with (
    jetspark.server.run() as server,
    tempfile.TemporaryDirectory() as directory,
    builder.getOrCreate() as spark,
    jetspark.blocking.connect(server.url) as nc,
):
    spark.sparkContext.setLogLevel("ERROR")
    js = nc.jetstream()
    js.create_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
    js.create_stream(StreamConfig(name="BILLS", subjects=["bills.>"]))
    for first, count in ((1, 3000), (3001, 1000)):
        with js.publisher() as publisher:
            for number in range(first, first + count):
                country = "se" if number % 3 else "no"
                order = f'{{"id": {number}, "country": "{country}", "amount": {number % 10}}}'
                publisher.send("orders.new", order.encode())
        run(spark, server.url, directory)

    # If the driver dies after a batch is written but before Spark commits it, the batch is repeated. Removing
    # the commit file simulates that. The stream drops the duplicates by their ids.
    last = max(int(name) for name in os.listdir(f"{directory}/commits") if name.isdigit())
    for name in (f"{last}", f".{last}.crc"):
        os.remove(f"{directory}/commits/{name}")
    run(spark, server.url, directory)

    bills = spark.read.format("jetstream").option("servers", server.url).option("stream", "BILLS").load()
    table = bills.selectExpr("subject", "headers['Order-Sequence'][0] AS sequence")
    print(f"{table.count()} bills for {table.distinct().count()} orders")

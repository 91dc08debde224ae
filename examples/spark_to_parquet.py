"""A stream to Parquet files, in two runs with one checkpoint: exactly once."""

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
    """Write the new messages, and stop. Without the trigger, the query runs until it is stopped."""
    query = (
        spark.readStream.format("jetstream")
        .option("servers", url)
        .option("stream", "ORDERS")
        .option("startingPosition", "earliest")
        .option("maxMessagesPerTrigger", 2000)
        .load()
        .selectExpr("subject", "string(data) AS text", "stream", "sequence", "timestamp")
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{directory}/orders")
    )
    query.awaitTermination()
    print("rows per batch:", [progress.numInputRows for progress in query.recentProgress])


with (
    jetspark.server.run() as server,
    tempfile.TemporaryDirectory() as directory,
    builder.getOrCreate() as spark,
):
    spark.sparkContext.setLogLevel("ERROR")
    with jetspark.blocking.connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
        for count in (5000, 1000):
            with js.publisher() as publisher:
                for number in range(count):
                    publisher.send("orders.new", f"order {number}".encode())
            run(spark, server.url, directory)

    table = spark.read.parquet(f"{directory}/orders")
    print(f"{table.count()} rows, {table.select('sequence').distinct().count()} different sequences")

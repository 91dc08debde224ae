"""A stream as a Spark table: the whole stream, a range, one subject."""

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import jetspark
from jetspark import StreamConfig

# Spark's workers run this Python, and all sockets listen on loopback only.
os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
builder = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.sql.shuffle.partitions", "2")
)

with jetspark.server.run() as server, builder.getOrCreate() as spark:
    spark.sparkContext.setLogLevel("ERROR")
    with jetspark.blocking.connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
        with js.publisher() as publisher:
            for number in range(1, 1001):
                publisher.send(
                    f"orders.{'eu' if number % 4 else 'us'}",
                    f'{{"id": {number}, "amount": {number % 90}}}'.encode(),
                )

    orders = spark.read.format("jetstream").option("servers", server.url).option("stream", "ORDERS")

    # The whole stream. The payload is bytes: decode it as you need.
    table = orders.load().selectExpr(
        "subject", "sequence", "from_json(string(data), 'id long, amount long') AS item"
    )
    table.orderBy("sequence").select("subject", "sequence", "item.*").show(3)
    totals = table.groupBy("subject").agg(f.count("*").alias("orders"), f.sum("item.amount").alias("amount"))
    totals.orderBy("subject").show()

    # A range of sequences of one subject: the server sends nothing else.
    some = orders.option("subjects", "orders.us").option("startingPosition", '{"ORDERS": 900}')
    print(f"{some.load().count()} orders from the US since sequence 900")

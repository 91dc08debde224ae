"""Spark as one worker of a queue, beside a plain one: the queue ends empty, and each job is done once."""

import os
import sys
import tempfile

from pyspark.sql import SparkSession

import jetspark
from jetspark import ConsumerConfig, StreamConfig

# Spark's workers run this Python, and all sockets listen on loopback only.
os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
builder = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
)


with (
    jetspark.server.run() as server,
    tempfile.TemporaryDirectory() as directory,
    builder.getOrCreate() as spark,
    jetspark.blocking.connect(server.url) as nc,
):
    spark.sparkContext.setLogLevel("ERROR")
    js = nc.jetstream()
    # Spark reads by direct get, so that it needs no second consumer.
    js.create_stream(StreamConfig(name="JOBS", subjects=["jobs.>"], retention="workqueue", allow_direct=True))
    js.create_consumer("JOBS", ConsumerConfig(durable_name="worker", max_ack_pending=20_000))
    with js.publisher() as publisher:
        for number in range(3000):
            publisher.send("jobs.resize", f"image {number}".encode())

    handled = 0
    for message in js.get_consumer("JOBS", "worker").fetch(500, expires=10):
        handled += 1
        message.ack_sync()

    query = (
        spark.readStream.format("jetstream")
        .option("servers", server.url)
        .option("stream", "JOBS")
        .option("consumer", "worker")
        .option("maxMessagesPerTrigger", 1000)
        .load()
        .selectExpr("string(data) AS text", "sequence", "num_delivered")
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{directory}/jobs")
    )
    query.awaitTermination()
    table = spark.read.parquet(f"{directory}/jobs")
    left = js.get_stream("JOBS").info().state.messages
    print(f"{handled} by the plain worker, {table.count()} by Spark, {left} left in the queue")

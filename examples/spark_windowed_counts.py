"""Messages of a stream counted by second and subject, with a watermark on the time they were stored."""

import os
import sys
import tempfile
import time

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

with (
    jetspark.server.run() as server,
    tempfile.TemporaryDirectory() as directory,
    builder.getOrCreate() as spark,
):
    spark.sparkContext.setLogLevel("ERROR")
    with jetspark.blocking.connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream(StreamConfig(name="LOGS", subjects=["logs.>"]))
        with js.publisher() as publisher:
            for number in range(3000):
                publisher.send(f"logs.web{number % 3}", f"line {number}".encode())
        # A window closes when a message arrives that is newer than its end plus the watermark: a last line.
        time.sleep(2)
        js.publish("logs.web0", b"the last line")

    lines = (
        spark.readStream.format("jetstream")
        .option("servers", server.url)
        .option("stream", "LOGS")
        .option("startingPosition", "earliest")
        .load()
    )
    # A stream stores messages in the order of their timestamps, so a short watermark is enough.
    counts = (
        lines.withWatermark("timestamp", "500 milliseconds")
        .groupBy(f.window("timestamp", "1 second"), "subject")
        .count()
    )
    query = (
        counts.writeStream.format("memory")
        .queryName("counts")
        .outputMode("append")
        .option("checkpointLocation", directory)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    totals = spark.table("counts").groupBy("subject").agg(f.sum("count").alias("lines")).orderBy("subject")
    for row in totals.collect():
        print(f"{row.subject}: {row.lines} lines in windows that are done")

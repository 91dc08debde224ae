"""The Spark job of the log pipeline, configured by `pipeline.toml`.

patterns        regular expressions for Java, of the formats and of the user
backtracking    how long a pattern of the user can take on a line
grok            patterns by name
sql             Spark's functions and types, loaded when they are used
errors          Spark's errors in one line
storage         small files on any file system of Spark
jars            classes that Spark may lack
target          subjects to publish to, each message stored once
config          the configuration as types, and the base classes of formats, sources and sinks
layout          partition columns, and their values as directory names
attempts        the files of a batch before they belong to a table
sources/        one file for each source, and their registry
sinks/          one file for each sink, and their registry
parse/          lines into rows
checkpoint      ids and planned batches in a checkpoint, and its lock
spark_home      where Spark starts from, and an archive of its classes
session         starts Spark
config_file     reads and checks `pipeline.toml`
dead_letters    lines that do not parse, as messages
trial           parses a few lines as the job would, without writing
preflight       checks against the server before Spark starts
job             the streaming queries
runner          runs the queries, and reports progress
report          reports to the control stream

Each file imports files above it only. `pipeline check` works without Spark: it imports `config_file`, and
with it `config`, `target`, `sources`, `sinks` and `parse/formats`. These, and the files that they import,
import pyspark through `sql`, for type checkers, or in functions.
"""

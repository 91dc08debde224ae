"""The Spark job of the log pipeline, configured by `pipeline.toml`.

toml_lines      lines of keys in the file, for error messages
target          subjects to publish to, each message stored once
parse/          lines into rows
config          the configuration as types, and the base classes of sources and sinks
storage         small files on any file system of Spark
sources/        one file for each source, and their registry
sinks/          one file for each sink, and their registry
config_file     reads and checks `pipeline.toml`
errors          Spark's errors in one line
dead_letters    lines that do not parse, as messages
checkpoint      ids and planned batches in a checkpoint, and its lock
session         starts Spark
preflight       checks against the server before Spark starts
job             the streaming queries
runner          runs the queries, and reports progress

Each file imports files above it only; `config` uses `parse/patterns`, and the rest of `parse` uses `config`
and `errors`. `pipeline check` stops at `config_file`, and starts no Spark.
"""

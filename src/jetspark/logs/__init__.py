"""The log pipeline: log files to JetStream, and from there to files or through Spark to tables.

format/        how a line becomes a message: names, subject, id, headers
compression    gzip and zstd payloads
toml_lines     lines of keys in a TOML file, for error messages
toml_file      reads a TOML file and its tables as types
control/       the pause switch and the status reports, in the stream JETSPARK_CONTROL
agent/         `jetspark ship`: follows files and publishes their lines
files/         `jetspark consume-logs`: writes lines to one file for each host
job/           `jetspark pipeline`: the Spark job that parses lines into rows
demo/          `jetspark demo`: all of the above on one machine

Imports point up this list: `demo` uses everything, `format` nothing of `logs`. `agent`, `files` and `job`
do not import each other. Only `job` and `demo` need Spark.
"""

"""Lines into rows, with Spark's own functions.

times       columns for times
match       columns for the groups of a match, and for JSON values
decode      messages into lines: decompressed, as text
containers  unwraps the lines of container runtimes
fields      columns that the user names and types, and their time
formats/    one file for each `parse.format`, and their registry
rows        puts it together: `parse_lines`

Each file imports files above it only.
"""

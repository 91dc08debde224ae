"""Lines into rows, with Spark's own functions.

times       columns for times
decode      messages into lines: decompressed, as text
formats     one function for each `parse.format`, and their registry
rows        puts it together: `parse_lines`

Each file imports files above it only.
"""

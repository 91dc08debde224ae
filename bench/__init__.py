"""Benchmarks: jetspark compared with its peers and with a raw socket, interleaved in one run.

`make bench` runs all suites, `make bench ARGS="core --rounds 3"` one. Absolute figures depend on the
machine and its load; compare the ratios within one run.
"""

"""Benchmarks: jetspark compared with its peers and with a raw socket, interleaved in one run.

`make bench` measures everything and writes docs/benchmarks.md; `make bench ARGS="fetch --rounds 3"` measures
and prints one part. Absolute figures depend on the machine and its load; compare the ratios within one run.

The map, in reading order; each file may import those above it:

    cpu           CPU time of processes
    harness       what a measurement is, and the loop that runs one: contenders in turn, several rounds
    results       what was measured, as JSON, with the machine and the versions
    processor     work with Spark: its session, its rate, CPU by process
    raw           a client that only moves bytes: the ceiling
    fast_ingest   the same for fast ingest
    delay         a proxy that delays every byte
    measurements  one file per subject; `everything` lists them
    report        the page: targets, tables, plots
    __main__      the command line
"""

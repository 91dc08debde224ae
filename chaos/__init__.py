"""Chaos: random workloads under random faults of real servers, and a judge that compares what they did.

`make chaos` runs cells for 20 minutes. In each cell several workloads write and read one stream while servers
are killed and stopped, leaders step down and connections break. When everything is healed, the judge compares
sets: what was attempted, acknowledged, stored and delivered. A seed determines the plan of a cell, not the
moments at which the operating system does things: repeat a cell several times to see a rare failure again.

The map, in reading order; each file may import those above it:

    record      what the workloads did: messages written, stored and delivered, errors raised
    judge       what is wrong with a record; pure
    site        the servers, one or a cluster, each behind a proxy
    faults      what is done to them; `FAULTS` lists it
    stage       what a workload works with
    workloads   what clients do; `WORKLOADS` lists it
    plan        from a seed to the workloads, the faults and their times; pure
    leaks       tasks, threads, sockets and consumers that are left over
    cell        runs one plan
    report      the table of the cells
    __main__    the command line
"""

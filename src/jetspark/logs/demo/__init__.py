"""The demo: hosts that write logs, agents, a server, a Spark job that is killed, and a final count.

hosts        log sources: simulated hosts, or files of the user
processes    `jetspark` commands as child processes
pipeline     starts, samples and stops everything; imports the two above
plot         throughput and lag as a picture
counts       compares written lines with rows and dead letters
"""

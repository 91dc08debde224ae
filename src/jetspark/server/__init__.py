"""Run the real nats-server, alone or as a cluster: on loopback, on a free port, until this process ends.

    with jetspark.server.run() as server:
        print(server.url)

The map, in reading order; each file may import those above it:

    options   options of a server, their defaults and checks
    config    text of the configuration file
    binary    path of the executable
    files     private directory: configuration, log, ports, temporary store
    ports     keeps ports while their server is down
    guard     a child process that cannot outlive this one
    ready     waits for the log, the ports and the first answer
    process   `Server` and `run`
    probe     whether a cluster can replicate
    cluster   `Cluster` and `run_cluster`
    fixtures  pytest fixtures; the only file that imports pytest

The package imports only the standard library and `jetspark.errors`.
"""

from jetspark.server.cluster import Cluster, run_cluster
from jetspark.server.options import TLS, Member, Options, User
from jetspark.server.process import Server, run

__all__ = ["TLS", "Cluster", "Member", "Options", "Server", "User", "run", "run_cluster"]

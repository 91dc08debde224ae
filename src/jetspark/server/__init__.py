"""Run the real nats-server, alone or as a cluster: on loopback, on a free port, gone when we are.

    with jetspark.server.run() as server:
        print(server.url)

Imports nothing but the standard library and `jetspark.errors`. As pytest fixtures: see
`jetspark.server.fixtures`.
"""

from jetspark.server.cluster import Cluster, run_cluster
from jetspark.server.options import TLS, Member, Options, User
from jetspark.server.process import Server, run

__all__ = ["TLS", "Cluster", "Member", "Options", "Server", "User", "run", "run_cluster"]

"""The demo: simulated hosts, agents, a server and the Spark job; it ends with books that balance, or not."""

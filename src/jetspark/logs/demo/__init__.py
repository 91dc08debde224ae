"""The demo: hosts that write logs, agents, a server, the Spark job that is killed on the way, the books."""

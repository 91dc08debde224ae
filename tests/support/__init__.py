"""Helpers that the tests share, in reading order:

waiting, watch        wait for conditions and for events of a connection
raw                   a client on a plain socket
certs, jwt            certificates, nkeys and JWTs
ports                 ports of servers that are down
proxy                 a TCP proxy that breaks connections
scripted              a NATS server that follows a script; scripted_jetstream and scripted_push build on it
consuming, publishing streams, consumers and lost frames
leaders               who leads a stream or a consumer of a cluster
ledger, traffic       count what was published, acknowledged and read
interrupts            SIGINT for child processes
quick_spark           Spark that starts quickly
extras                processes without optional dependencies
"""

"""What the tests share: a proxy that breaks connections, a server that follows a script, certificates,
JWTs, a raw client."""

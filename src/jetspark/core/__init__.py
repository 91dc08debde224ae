"""The NATS connection on asyncio: from the socket to a message in a subscription.

In reading order:

- `connection`: the connection as users see it. Uses everything below.
- `subscription`, `message`, `events`: what users receive from it.
- `request`, `request_many`: requests and their answers.
- `link`: keeps a session connected: chooses servers, reconnects, gives up.
- `handshake`, with `dial`, `auth` and `tls`: from a server's address to an accepted connection.
- `contexts`, `environment`, `paths`: options of `connect` from the `nats` CLI's contexts and variables.
- `servers`, `server_info`, `options`: the known servers, the INFO of a server, the options of `connect`.
- `session`: dispatches frames to receivers. It outlives the transports.
- `receiver`: the interface of everything that receives messages. `tally`: counts for metrics.
- `outbox`: the frames that wait to be written, with back-pressure.
- `transport`: one TCP or TLS connection, around the parser; `websocket`: the same through WebSocket.
- `proxy`: asks a proxy for the way to a server.
- `headers`: the header blocks of published messages. `json`: decodes the JSON that others send.
- `callbacks`: users' functions that are called with events. `signal`: how tasks wait for a change.
- `numbers`: checks of counts and durations.

Imports point from `connection` down this list. `core` imports `wire` and `errors`, and knows no JetStream.
"""

"""The web console, `jetspark console`. It needs `jetspark[console]`.

text          values as text for people, bounded and safe to show
series        counters and levels over the last 15 minutes
security      the token, the cookie, and what is refused
options       how the console runs: address, token, TLS
listing       streams and consumers as the server lists them, in few requests
reports       the switch, the agents and the jobs in the control stream
messages      messages of a stream: a page of previews, one in full
buckets       keys, revisions and objects
letters       dead letters in pages
collector     polls the server, for all browser tabs together
actions       what the console can change, refused unless it may write, and recorded
problems      what an operator should look at
metrics       `/metrics`
pages/        one file per page, on NiceGUI
app           the web server: `Console`

Imports point up this list. Only `pages` and `app` import NiceGUI, `metrics` prometheus-client. Text from
messages, names and headers is shown as text: no page uses HTML or Markdown elements with data.
"""

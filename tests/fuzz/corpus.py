"""Documents as nats-server 2.15 sends them, the start of every mutation."""

from __future__ import annotations

__all__ = [
    "ADVISORIES",
    "API",
    "CONTROL",
    "DIRECT",
    "INFO",
    "KEYS",
    "OBJECTS",
    "PUB_ACKS",
    "WEBSOCKET",
    "WEBSOCKET_KEY",
]

INFO = (
    b'{"server_id":"NCX","server_name":"n1","version":"2.15.1","proto":1,"git_commit":"a","go":"go1.25",'
    b'"host":"127.0.0.1","port":4222,"headers":true,"max_payload":1048576,"jetstream":true,"client_id":5,'
    b'"client_ip":"127.0.0.1","nonce":"q_ab","auth_required":true,"tls_required":false,"cluster":"C",'
    b'"connect_urls":["10.0.0.1:4222","10.0.0.2:4222"],"domain":"hub","ldm":true,"xkey":"XA"}',
    b"{}",
)

_CONFIG = (
    b'{"name":"S1","subjects":["s1.>"],"retention":"workqueue","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,'
    b'"max_age":0,"max_msgs_per_subject":-1,"max_msg_size":-1,"discard":"old","storage":"file",'
    b'"num_replicas":1,"duplicate_window":120000000000,"compression":"none","allow_direct":false,'
    b'"mirror_direct":false,"consumer_limits":{"inactive_threshold":5},"placement":{"cluster":"C","tags":["x"]},'
    b'"republish":{"src":">","dest":"r.>"},"sources":[{"name":"O","filter_subject":"o","opt_start_time":'
    b'"2026-11-15T10:09:52.492599697Z","external":{"api":"$JS.x.API","deliver":"d"}}],'
    b'"metadata":{"_nats.level":"5"}}'
)
_STREAM = (
    b'{"type":"io.nats.jetstream.api.v1.stream_info_response","config":%b,'
    b'"created":"2026-11-15T10:09:52.492599697Z","state":{"messages":4,"bytes":140,"first_seq":1,'
    b'"first_ts":"2026-11-15T10:17:42.583514238Z","last_seq":5,"last_ts":"2026-11-15T10:17:42.584986925Z",'
    b'"num_subjects":1,"subjects":{"t.x":4},"num_deleted":1,"deleted":[2],"lost":{"msgs":[3],"bytes":7},'
    b'"consumer_count":1},"cluster":{"name":"C","leader":"n1","replicas":[{"name":"n2","current":true,'
    b'"active":5000,"lag":1}]},"mirror":{"name":"M","lag":1,"active":-1,"error":{"code":404,"err_code":10059,'
    b'"description":"stream not found"}},"alternates":[{"name":"S1","cluster":"C"}],'
    b'"ts":"2026-11-15T10:09:52.493351543Z","did_create":true,"total":1,"offset":0,"limit":100000}' % _CONFIG
)
_CONSUMER = (
    b'{"type":"io.nats.jetstream.api.v1.consumer_info_response","stream_name":"T","name":"c",'
    b'"created":"2026-11-15T10:17:42.594926432Z","config":{"durable_name":"c","name":"c",'
    b'"deliver_policy":"by_start_time","opt_start_time":"2026-11-15T10:17:42.5Z","ack_policy":"explicit",'
    b'"ack_wait":30000000000,"max_deliver":-1,"backoff":[1000000000,2000000000],"filter_subjects":["a","b"],'
    b'"replay_policy":"instant","max_waiting":512,"max_ack_pending":1000,"num_replicas":0},'
    b'"delivered":{"consumer_seq":3,"stream_seq":5,"last_active":"2026-11-15T10:17:42.5Z"},'
    b'"ack_floor":{"consumer_seq":0,"stream_seq":0},"num_ack_pending":2,"num_redelivered":0,'
    b'"num_waiting":1,"num_pending":4,"paused":true,"pause_remaining":1500000000,"reset_seq":4,'
    b'"priority_groups":[{"group":"g","pinned_ts":"0001-01-01T00:00:00Z"}],'
    b'"ts":"2026-11-15T10:17:42.59839376Z"}'
)
_PAGE = b'"total":2,"offset":0,"limit":1024'
_ERROR = b'{"error":{"code":%d,"err_code":%d,"description":"%b"}}'

#: By the call that they answer; see `targets.py`. Every call may also be refused.
API = {
    "stream": (_STREAM,),
    "consumer": (_CONSUMER,),
    "streams": (b'{"streams":[%b,%b],%b}' % (_STREAM, _STREAM, _PAGE),),
    "consumers": (b'{"consumers":[%b],"missing":["d"],%b}' % (_CONSUMER, _PAGE),),
    "names": (b'{"streams":["a","b"],"consumers":["c","d"],%b}' % _PAGE, b'{"streams":null,%b}' % _PAGE),
    "account": (
        b'{"type":"io.nats.jetstream.api.v1.account_info_response","memory":1,"storage":2,"streams":3,'
        b'"limits":{"max_streams":10,"max_bytes_required":true},"api":{"level":5,"total":478,"errors":164},'
        b'"tiers":{"R3":{"storage":7,"limits":{"max_storage":8}}}}',
    ),
    "message": (
        b'{"message":{"subject":"t.x","seq":2,"hdrs":"TkFUUy8xLjANCkE6IGINCg0K","data":"aGk=",'
        b'"time":"2026-11-15T10:17:42.123456789Z"}}',
    ),
    "small": (b'{"success":true,"purged":5,"paused":true,"pause_until":"2026-11-15T10:17:42Z"}',),
    "refusal": tuple(
        _ERROR % each
        for each in (
            (404, 10059, b"stream not found"),
            (400, 10071, b"wrong last sequence: 5"),
            (400, 10077, b"maximum messages exceeded"),
            (500, 10012, b"ack policy can not be updated"),
        )
    ),
}

PUB_ACKS = (
    b'{"stream":"ORDERS","seq":7}',
    b'{"stream":"ORDERS", "domain":"hub", "seq":7,"duplicate": true}',
    b'{"stream":"B","seq":1,"batch":"y","count":3,"val":"7"}',
    b'{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 5"},"stream":"T","seq":0}',
)

_ABOUT = b'"id":"PaHCNbTTheCoC3IEqolbQp","timestamp":"2026-11-15T10:22:31.711900128Z"'
_EVENT = b'{"type":"io.nats.jetstream.%b",%b,"stream":"T","consumer":"c",%b}'
ADVISORIES = (
    _EVENT % (b"advisory.v1.max_deliver", _ABOUT, b'"stream_seq":5,"deliveries":1'),
    _EVENT % (b"advisory.v1.terminated", _ABOUT, b'"consumer_seq":2,"stream_seq":3,"reason":"bad"'),
    _EVENT % (b"metric.v1.consumer_ack", _ABOUT, b'"stream_seq":4,"ack_time":855119'),
    _EVENT % (b"advisory.v1.stream_action", _ABOUT, b'"action":"create","template":""'),
    _EVENT
    % (
        b"advisory.v1.consumer_leader_elected",
        _ABOUT,
        b'"leader":"n1","replicas":[{"name":"n2","current":true,"active":5}]',
    ),
    _EVENT
    % (
        b"advisory.v1.api_audit",
        _ABOUT,
        b'"server":"n1","client":{"start":"2026-11-15T10:22:31Z","host":"127.0.0.1","id":5,"acc":"$G",'
        b'"user":"u","rtt":5000},"subject":"$JS.API.INFO","request":"{}","response":"{}"',
    ),
    _EVENT
    % (b"advisory.v1.of_2031", _ABOUT, b'"replicas":[{"name":"x"}],"client":{"user":"u"},"ack_time":5'),
)

CONTROL = (
    b'{"paused":true,"until":"2099-01-01T00:00:00Z","at":"2026-11-15T10:22:31Z","by":"root@host"}',
    b'{"name":"a","host":"h","pid":5,"state":"shipping","obeys":3,"lines":1,"bytes":2,"behind":0}',
    b'{"name":"access","host":"web1","pid":7,"state":"running","source":"LOGS","sink":"out","rows":10,'
    b'"bad_lines":1,"rate":5.5,"lag":3,"error":"","batches":[{"id":4,"at":1.5,"rows":10,"seconds":2.0,'
    b'"lag":3,"bad_lines":1}]}',
)

#: The metadata of objects, as nats.go and nats-py store it.
OBJECTS = (
    b'{"name":"a","description":"d","headers":{"H":["1","2"]},"metadata":{"m":"x"},"options":{"max_chunk_size":'
    b'131072},"bucket":"b","nuid":"CkuyLEX4z2hbyjj1aWCfiH","size":344000,"mtime":"0001-01-01T00:00:00Z",'
    b'"chunks":3,"digest":"SHA-256=IdgP4UYMGt47rgecOqFoLrd24AXukHf5-SVzqQ5Psg8="}',
    b'{"name":"l","options":{"link":{"bucket":"o","name":"t"}},"bucket":"b","nuid":"x","size":0,"mtime":"",'
    b'"chunks":0,"digest":"","deleted":true}',
)

#: The header blocks of revisions of keys.
KEYS = (
    b"NATS/1.0\r\nKV-Operation: PURGE\r\nNats-Rollup: sub\r\nNats-TTL: 1h30m0.5s\r\n\r\n",
    b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: 60\r\n\r\n",
)

#: The header blocks of messages and statuses, as direct gets answer with them.
DIRECT = (
    b"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: a.b\r\nNats-Sequence: 5\r\n"
    b"Nats-Time-Stamp: 2026-11-15T10:17:42.123456789Z\r\n\r\n",
    b"NATS/1.0\r\nTeam: a\r\nNats-Msg-Id: 5\r\nNats-Stream: S\r\nNats-Subject: a.b\r\nNats-Sequence: 5\r\n"
    b"Nats-Time-Stamp: 2026-11-15T10:17:42.12345678Z\r\nNats-Num-Pending: 3\r\nNats-Last-Sequence: 0\r\n\r\n",
    b"NATS/1.0\r\nNats-Sequence: 5\r\nNats-Num-Pending: 3\r\nNats-Last-Sequence: 4\r\nNats-Stream: S\r\n"
    b"Nats-Subject: a.b\r\nNats-Time-Stamp: 2026-11-15T10:17:42Z\r\n\r\n",
    b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 5\r\nNats-UpTo-Sequence: 7\r\n\r\n",
    b"NATS/1.0 404 Message Not Found\r\n\r\n",
    b"NATS/1.0 413 Too Many Results\r\n\r\n",
)

WEBSOCKET_KEY = bytes(16)
#: The answer to an upgrade with this key, and frames: two parts of a message, a ping between, a close.
WEBSOCKET = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n\r\n",
    b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
    b"\x02\x05INFO \x89\x01?\x80\x04{}\r\n\x88\x02\x03\xe8",
    b"\x82\x7e\x00\x80" + b"x" * 128 + b"\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00yyy",
)

"""
Qdrant's own embedded engine (qdrant-edge-py) behind the part of Qdrant's REST API that its clients use here.

`python -m hayrecall.local.engine --dir DIR --port 0 --ports-file FILE` serves it on loopback. Unmodified
qdrant-client, mem0 and qdrant-haystack talk to it as to a Qdrant server. What it does not know it refuses with a 400
that names the field; nothing is ignored.

Edge holds Python's global lock during every call. So one thread, the event loop, makes them all: requests never
wait for a lock or see a half-applied write, and only the disk is waited for elsewhere.
"""

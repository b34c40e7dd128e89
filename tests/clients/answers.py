"""What a memory answers, and what it was asked."""

FACT = {
    "namespace": "default",
    "key": "sky",
    "value": "blue",
    "version": 3,
    "tags": ["a", "b"],
    "metadata": {},
    "expires_at": None,
    "created_at": "2026-01-31T12:00:00.000Z",
    "updated_at": "2026-01-31T12:00:01.000Z",
    "source_client": "cursor",
    "principal": "local",
    "self_reported": True,
    "index": "ready",
}
EVENT = {
    "id": 1,
    "at": "2026-01-31T12:00:01.000Z",
    "namespace": "default",
    "kind": "set",
    "key": "sky",
    "version": 3,
    "value_before": "grey",
    "value_after": "blue",
    "source_client": "cursor",
    "principal": "local",
    "self_reported": True,
    "claimed_client": None,
    "request_id": None,
    "detail": {},
}


def arguments(peer):
    return peer.sent("tools/call")[-1][1]["params"]["arguments"]


def problem(code, **more):
    return {"code": code, "message": "A sentence.", "retryable": False, "current": None, **more}

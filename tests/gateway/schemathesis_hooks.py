"""Leaves out the requests that are refused for reasons which no document can give."""

import re

import schemathesis

TAG = re.compile(r'"[1-9][0-9]{0,9}"')


@schemathesis.hook
def filter_case(_context, case):
    return not (_has_cursor(case) or _contradicts_itself(case) or _expires_in_the_past(case))


def _has_cursor(case):
    """No cursor is good that the server did not give."""
    return "cursor" in (case.query or {})


def _contradicts_itself(case):
    """Conditions exclude each other. And one of the header is at times not the pattern's own."""
    headers = {name.lower(): value for name, value in (case.headers or {}).items()}
    given = [name for name in ("if-match", "if-none-match") if name in headers]
    if _member(case, "expected_value") is not None:
        given.append("expected_value")
    spoiled = not TAG.fullmatch(str(headers.get("if-match", '"1"')))
    return len(given) > 1 or (spoiled and case.meta.generation.mode.is_positive)


def _expires_in_the_past(case):
    return str(_member(case, "expires_at") or "9") < "2027"


def _member(case, name):
    return case.body.get(name) if isinstance(case.body, dict) else None

"""Every field of a request with values below its minimum, above its maximum, not finite, and of other types."""

import json

import fields
import httpx
import pytest


def body_with(route, name, value, extra=()):
    """The body as text, so that `value` may be anything."""
    base = {k: v for k, v in fields.BODIES[route].items() if k != name}
    base.update(extra)
    text = json.dumps(base)
    return text[:-1] + (", " if base else "") + json.dumps(name) + ": " + value + "}"


@pytest.fixture(scope="module")
def http(target):
    with httpx.Client(base_url=target.url, timeout=60, headers={"Content-Type": "application/json"}) as client:
        yield client


@pytest.fixture(scope="module")
def vocab_size(http):
    message = http.post("/detokenize", content='{"tokens":[2000000000]}').json()["error"]["message"]
    return int(message.rstrip(".").rsplit(" ", 1)[1]) + 1


def assert_refused(http, route, name, value, extra=()):
    response = http.post(route, content=body_with(route, name, value, extra))
    shown = f"{route} {name}={value[:60]}: {response.status_code} {response.text[:200]}"
    # 404: an unknown model.
    assert response.status_code in (400, 404, 413), shown
    error = response.json()["error"]
    assert error["message"], shown
    assert "0x0" not in error["message"], shown


def each_number():
    for number in fields.NUMBERS:
        for route in number.routes:
            yield pytest.param(number, route, id=f"{number.name}-{route}")


@pytest.mark.parametrize("number,route", list(each_number()))
def test_numbers_are_checked(http, number, route):
    step = 1 if number.integer else 0.5
    bad = list(fields.NOT_A_NUMBER)
    bad.append(str(number.low if number.open_low else number.low - step))
    bad.append(str(number.high + 1) if number.integer else ("1e39" if number.high > 1e30 else str(number.high + step)))
    if number.integer:
        bad += ["0.5", "1e30", "-1e30"]
        if number.name != "seed":
            bad += ["9223372036854775807", "-9223372036854775808"]
    bad += ["9223372036854775808", "-9223372036854775809", "18446744073709551616"] if number.high < 1e30 else []
    for value in bad:
        assert_refused(http, route, number.name, value, number.with_)
    good = ["null"]
    if number.serve_low and not number.open_low:
        good.append(str(number.low))
    if number.serve_high:
        good.append(str(number.high))
    for value in good:
        extra = dict(number.with_)
        if number.name == "n":
            extra["temperature"] = 1
        response = http.post(route, content=body_with(route, number.name, value, extra))
        assert response.status_code == 200, f"{number.name}={value}: {response.text[:200]}"


@pytest.mark.parametrize("table,values", [
    (fields.BOOLEANS, fields.NOT_A_BOOLEAN), (fields.STRINGS, fields.NOT_A_STRING), (fields.OBJECTS, fields.NOT_AN_OBJECT),
], ids=["booleans", "strings", "objects"])
def test_types_are_checked(http, table, values):
    for name, routes in table.items():
        for route in routes:
            for value in values:
                if name == "user":
                    continue
                assert_refused(http, route, name, value)


def test_lists_are_checked(http, vocab_size):
    for name, (routes, values) in fields.LISTS.items():
        for route in routes:
            for value in values:
                assert_refused(http, route, name, value.replace("@", str(vocab_size)))


def test_lengths_of_labels_are_checked(http):
    for route in fields.GENERATION:
        for name in ("cache_salt", "request_id"):
            assert_refused(http, route, name, '""')
            assert_refused(http, route, name, json.dumps("x" * 129))


def test_duplicate_and_unknown_fields_are_harmless(http):
    assert http.post("/v1/completions", content='{"prompt":"a","prompt":"b","max_tokens":1}').status_code == 200
    response = http.post("/v1/completions", content=json.dumps({"prompt": "a", "max_tokens": 1, "x\r\ny": 1, "é": 2}))
    assert response.status_code == 200
    assert "\n" not in response.headers["x-ignored-params"]

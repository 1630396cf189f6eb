"""The answer that the events of a stream make up, in the form of the unstreamed one."""

import json


def ask(client, route, fields, stream):
    """The status and the answer, also of a stream."""
    if not stream:
        response = client.post(route, json=fields)
        return response.status_code, response.json()
    body = {**fields, "stream": True, "stream_options": {"include_usage": True}}
    with client.stream("POST", route, json=body) as response:
        if response.status_code != 200:
            response.read()
            return response.status_code, response.json()
        # iter_lines() also splits at characters such as U+2028, which JSON strings may contain.
        lines = [line[6:].decode() for line in response.read().split(b"\n") if line.startswith(b"data: ")]
    chunks = [json.loads(line) for line in lines if line.strip() != "[DONE]"]
    for chunk in chunks:
        if "error" in chunk:  # after the response has begun
            return 500 if chunk["error"]["type"] == "server_error" else 400, chunk
    assert lines[-1].strip() == "[DONE]"
    return 200, fold(chunks)


def add_to(whole, part):
    """Appends texts and lists of a delta, and what it has inside."""
    for name, value in part.items():
        if isinstance(value, (str, list)) and name not in ("role", "id", "type", "finish_reason") and isinstance(whole.get(name), type(value)):
            whole[name] = whole[name] + value
        elif isinstance(value, dict) and isinstance(whole.get(name), dict):
            add_to(whole[name], value)
        elif value is not None or name not in whole:
            whole[name] = value


def add_calls(message, calls):
    for call in calls:
        while len(message.setdefault("tool_calls", [])) <= call["index"]:
            message["tool_calls"].append({})
        add_to(message["tool_calls"][call["index"]], {name: value for name, value in call.items() if name != "index"})


def fold(chunks):
    answer = {"choices": []}
    for chunk in chunks:
        if chunk.get("usage"):
            answer["usage"] = chunk["usage"]
        for part in chunk["choices"]:
            part = dict(part)
            while len(answer["choices"]) <= part["index"]:
                answer["choices"].append({})
            choice, index = answer["choices"][part["index"]], part.pop("index")
            if "delta" in part:
                delta = part.pop("delta")
                message = choice.setdefault("message", {})
                add_calls(message, delta.pop("tool_calls", None) or [])
                add_to(message, delta)
            add_to(choice, part)
            choice["index"] = index
    return answer


def comparable(answer):
    """What has to be the same, streamed or not: all but ids, empty parts and what the cache held."""
    def without(value):
        if isinstance(value, dict):
            kept = {name: without(one) for name, one in value.items() if name not in ("id", "refusal", "annotations", "type", "cached_tokens")}
            return {name: one for name, one in kept.items() if one not in (None, "", [], {})}
        return [without(one) for one in value] if isinstance(value, list) else value
    # The tokens of a prompt come once in a stream.
    choices = [{name: value for name, value in choice.items() if name != "prompt_token_ids"} for choice in answer["choices"]]
    return without({"choices": choices, "usage": answer["usage"]})

"""A small model with the chat template and the marker tokens of a model that reasons and calls tools."""

import functools
import json
import pathlib
import shutil
import tempfile

from server_process import ROOT

MARKERS = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
TEMPLATE = """
{%- if tools %}<|im_start|>system
Tools: {{ tools | tojson }}<|im_end|>
{% endif %}
{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}
{%- for call in m.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking %}<think>
{% endif %}{% endif %}"""

_folder = tempfile.TemporaryDirectory(prefix="quire-tools-")


@functools.cache
def tool_model():
    """The directory of quire-tiny, in which the last tokens are the markers. Ids: marker_ids()."""
    path = pathlib.Path(_folder.name) / "tiny"
    shutil.copytree(ROOT / "models" / "quire-tiny", path)
    tokenizer = json.loads((path / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    # They are the results of the last merges.
    del tokenizer["model"]["merges"][-len(MARKERS):]
    for marker, token in marker_ids().items():
        old = next(text for text, id in vocabulary.items() if id == token)
        del vocabulary[old]
        vocabulary[marker] = token
        tokenizer["added_tokens"].append({"id": token, "content": marker, "single_word": False, "lstrip": False, "rstrip": False,
                                          "normalized": False, "special": False})
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    config = json.loads((path / "tokenizer_config.json").read_text())
    config["chat_template"] = TEMPLATE
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    return path


def marker_ids():
    return {marker: 4096 - len(MARKERS) + i for i, marker in enumerate(MARKERS)}

"""Writes the OpenAPI document as HTML, for the site: complete when it is loaded."""

from __future__ import annotations

import html
import json
from typing import Any

from markdown_it import MarkdownIt

_METHODS = ("get", "put", "post", "delete")
_JSON = "application/json"
_MARKDOWN = MarkdownIt()
_SEARCH = """
<p><input type="search" class="operations" placeholder="Search, as: episodes"
 aria-label="Search operations"></p>
<script>
document.querySelector("input.operations").addEventListener("input", ({ target }) => {
  const words = target.value.toLowerCase().split(/\\s+/);
  for (const each of document.querySelectorAll("details.operation")) {
    const text = each.dataset.words;
    each.hidden = !words.every((word) => text.includes(word));
  }
});
</script>
"""


def page(document: dict[str, Any]) -> str:
    """Return a heading for each tag, in Markdown, with its operations as raw HTML."""
    parts = [_raw(_SEARCH)]
    for tag in document["tags"]:
        parts.append(f"## {tag['name'].capitalize()}\n\n{tag.get('description', '')}\n")
        rows = (
            _operation(document, method, path, item)
            for path, methods in document["paths"].items()
            for method, item in methods.items()
            if method in _METHODS and item["tags"][0] == tag["name"]
        )
        parts.append(_raw("".join(rows)))
    return "\n".join(parts)


def _raw(text: str) -> str:
    return f"```{{raw}} html\n{text}\n```\n"


def _operation(
    document: dict[str, Any], method: str, path: str, item: dict[str, Any]
) -> str:
    words = f"{method} {path} {item['summary']} {item['operationId']}".lower()
    parts = [
        f'<details class="operation" data-words="{html.escape(words)}">',
        f'<summary><code class="{method}">{method.upper()}</code> '
        f"<code>{html.escape(path)}</code> {html.escape(item['summary'])}</summary>",
        _MARKDOWN.render(item.get("description", "")),
        _parameters(document, item.get("parameters", [])),
    ]
    body = _found(document, item.get("requestBody", {})).get("content", {})
    if body:
        parts.append(_content(document, "Body", body))
    for status, answer in item["responses"].items():
        found = _found(document, answer)
        words = html.escape(found["description"].splitlines()[0])
        if status.startswith("2"):
            parts.append(f"<p><strong>{status}</strong> {words}</p>")
            parts.append(_content(document, "Answer", found.get("content", {})))
        else:
            parts.append(f'<p class="other"><code>{status}</code> {words}</p>')
    return "\n".join([*parts, "</details>\n"])


def _parameters(document: dict[str, Any], parameters: list[dict[str, Any]]) -> str:
    found = [_found(document, each) for each in parameters]
    rows = [
        (f"{each['name']}", each["in"], each.get("description", "")) for each in found
    ]
    return _table(("Parameter", "In", "Meaning"), rows) if rows else ""


def _content(document: dict[str, Any], name: str, content: dict[str, Any]) -> str:
    kinds = ", ".join(f"<code>{html.escape(kind)}</code>" for kind in content)
    parts = [f"<p>{name}: {kinds}</p>"] if content else []
    described = content.get(_JSON, {})
    properties = _members(document, described.get("schema", {}))
    if properties:
        parts.append(_table(("Member", "Type", "Meaning"), properties))
    examples = [each.get("value") for each in described.get("examples", {}).values()]
    for example in [described["example"]] if "example" in described else examples:
        text = html.escape(json.dumps(example, indent=1, ensure_ascii=False))
        parts.append(f"<pre>{text}</pre>")
    return "\n".join(parts)


def _members(document: dict[str, Any], schema: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return name, type and meaning of the members of an object."""
    found = _found(document, schema)
    members: dict[str, Any] = {}
    for each in (found, *found.get("allOf", [])):
        members |= _found(document, each).get("properties", {})
    rows = []
    for name, member in members.items():
        member = {**_found(document, member), **member}
        kind = member.get("type", member.get("enum", ""))
        words = kind if isinstance(kind, str) else " or ".join(map(str, kind))
        rows.append((name, words, member.get("description", "")))
    return rows


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    heads = "".join(f"<th>{each}</th>" for each in head)
    lines = "".join(
        f"<tr><td><code>{html.escape(name)}</code></td>"
        f"<td>{html.escape(kind)}</td><td>{_MARKDOWN.render(words)}</td></tr>"
        for name, kind, words in rows
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


def _found(document: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Follow a reference."""
    while "$ref" in part:
        found: Any = document
        for name in part["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        part = found
    return part

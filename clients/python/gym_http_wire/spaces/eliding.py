"""Show in a message what came, however long it is."""

import json

_SHOWN = 80
_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, default=repr)


def elided(value: object) -> str:
    """Write the beginning of a value as JSON, 80 characters at most."""
    text = ""
    try:
        # The encoder goes no further, nor deeper, than it is asked to.
        for chunk in _ENCODER.iterencode(value):
            text += chunk[: _SHOWN + 1]
            if len(text) > _SHOWN:
                return f"{text[: _SHOWN - 3]}..."
    except ValueError:  # Python refuses to write thousands of digits.
        return "too long to show"
    return text

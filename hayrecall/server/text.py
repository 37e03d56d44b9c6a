"""Text from outside, made safe to encode, store and send."""

import math
from typing import Any

_DEEPEST = 64  # levels; whatever is on the way to a model has to read it again


def cleaned(text: str) -> str:
    """
    Remove what no UTF-8 consumer takes: NUL goes, lone surrogates become U+FFFD, split pairs are joined.

    :param text: Anything that JSON can express.
    :returns: The same text, encodable as UTF-8.
    """
    return text.replace("\0", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def cleaned_json(value: Any, *, levels: int = _DEEPEST) -> Any:
    """
    Copy a JSON value with every text in it `cleaned`.

    :param value: What a JSON document was read into.
    :param levels: How deep it may be nested.
    :returns: The same value, in a form that every reader of JSON takes.
    :raises ValueError: For `NaN` and `Infinity`, which JSON has not, and for what is nested deeper.
    """
    if isinstance(value, str):
        return cleaned(value)
    if isinstance(value, float) and not math.isfinite(value):
        msg = f"{value} is no JSON"
        raise ValueError(msg)
    if isinstance(value, dict | list) and not levels:
        msg = f"it is nested deeper than {_DEEPEST} levels"
        raise ValueError(msg)
    if isinstance(value, dict):
        return {cleaned(name): cleaned_json(inner, levels=levels - 1) for name, inner in value.items()}
    if isinstance(value, list):
        return [cleaned_json(inner, levels=levels - 1) for inner in value]
    return value

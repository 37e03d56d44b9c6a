"""YAML that cannot lie: duplicate keys are refused, and every value knows its line."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from contracts.errors import ConfigurationError

Place = tuple[str | int, ...]

_MERGE = "tag:yaml.org,2002:merge"
_REFERENCE = re.compile(r"\$\{([^}]*)\}")


class YamlFile:
    """The content of one YAML file, and where in it each value stands."""

    def __init__(self, path: Path) -> None:
        """
        Read the file.

        :param path: A YAML file whose top is a mapping.
        :raises ConfigurationError: If it cannot be read, is no YAML, repeats a key, or is no mapping at the top.
        """
        self.path = path
        self._lines: dict[Place, int] = {}
        self._origins: dict[Place, str] = {}  # what a value came from, where it was nothing but a reference
        self._places: Mapping[str, str] = {}  # file and line of what references stand for
        try:
            text = path.read_text(encoding="utf-8")
            loader = yaml.SafeLoader(text)
        except OSError as error:
            msg = f"{path}: cannot be read ({error.strerror}); check the path"
            raise ConfigurationError(msg) from None
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            msg = f"{path}:{line}: is not UTF-8; save the file as UTF-8"
            raise ConfigurationError(msg) from None
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            msg = f"{path}:{line}: not valid YAML: it holds a control character; remove it"
            raise ConfigurationError(msg) from None
        try:
            node = loader.get_single_node()
            self.data: dict[str, Any] = self._build(loader, node, ()) if node else {}
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            msg = f"{path}:{mark.line + 1 if mark else 1}: not valid YAML: {error.problem or error.context}"
            raise ConfigurationError(msg) from None
        except RecursionError:
            msg = f"{path}:1: is nested too deep to be read"
            raise ConfigurationError(msg) from None
        finally:
            loader.dispose()
        if not isinstance(self.data, dict) or not self.data:
            msg = "must hold a mapping (`key: value` lines)"
            raise self.error(msg)

    def line(self, *place: str | int) -> int:
        """Give the line of a value, from 1; that of the nearest enclosing value where it has none of its own."""
        while place and place not in self._lines:
            place = place[:-1]
        return self._lines.get(place, 1)

    def error(self, message: str, *place: str | int) -> ConfigurationError:
        """Make an error that names file and line of a value, and those of the variable that it came from."""
        return self._error(message, place, [self._origins[place]] if place in self._origins else [])

    def error_within(self, message: str, *place: str | int) -> ConfigurationError:
        """Make an error about values that do not fit each other: names the variables of all below a place."""
        below = {name for inner, name in self._origins.items() if inner[: len(place)] == place}
        return self._error(message, place, sorted(below & self._places.keys()))

    def _error(self, message: str, place: Place, names: list[str]) -> ConfigurationError:
        told = [f"`${{{name}}}`" + (f", {self._places[name]}" if name in self._places else "") for name in names]
        origins = f" (from {' and '.join(told)})" if told else ""
        return ConfigurationError(f"{self.path}:{self.line(*place)}: {message}{origins}")

    def _build(self, loader: yaml.SafeLoader, node: yaml.Node, place: Place) -> Any:
        self._lines.setdefault(place, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            mapping: dict[Any, Any] = {}
            merged: dict[Any, Any] = {}
            for key_node, value_node in node.value:
                if key_node.tag == _MERGE:
                    merged |= self._merged(loader, value_node, place)
                    continue
                if not isinstance(key_node, yaml.ScalarNode):
                    msg = "a key must be a word, not a list or a mapping"
                    raise self.error(msg, *place)
                key = self._scalar(loader, key_node, place)
                self._lines[(*place, key)] = key_node.start_mark.line + 1
                if key in mapping:
                    msg = f"the key `{key}` stands here twice; remove one"
                    raise self.error(msg, *place, key)
                mapping[key] = self._build(loader, value_node, (*place, key))
            return merged | mapping
        if isinstance(node, yaml.SequenceNode):
            return [self._build(loader, item, (*place, index)) for index, item in enumerate(node.value)]
        return self._scalar(loader, node, place)

    def _scalar(self, loader: yaml.SafeLoader, node: yaml.Node, place: Place) -> Any:
        try:
            return loader.construct_object(node, deep=True)
        except ValueError as error:  # a date that does not exist, for one
            msg = f"`{node.value}` cannot be read ({error}); put it in quotes if it is a text"
            raise self.error(msg, *place) from None

    def _merged(self, loader: yaml.SafeLoader, node: yaml.Node, place: Place) -> dict[Any, Any]:
        """Read what `<<:` takes over; keys that stand beside it win."""
        if not isinstance(node, yaml.MappingNode):
            msg = "`<<` takes over one mapping, as in `<<: *name`"
            raise self.error(msg, *place)
        taken: dict[Any, Any] = self._build(loader, node, place)
        return taken

    def substituted(self, values: Mapping[str, Any], places: Mapping[str, str] | None = None) -> "YamlFile":
        """
        Replace every `${name}` in the file's values.

        A value that is nothing but one reference takes the referenced value as it is, with its type.

        :param values: What each name stands for.
        :param places: File and line where a name's value is written, for messages.
        :returns: A copy with the same lines.
        :raises ConfigurationError: If a name is unknown; the message lists the nearest ones.
        """
        copy = object.__new__(YamlFile)
        copy.path, copy._lines, copy._origins, copy._places = self.path, self._lines, {}, places or {}
        copy.data = copy._replace(self.data, values, ())
        return copy

    def _replace(self, value: Any, values: Mapping[str, Any], place: Place) -> Any:
        if isinstance(value, dict):
            return {key: self._replace(item, values, (*place, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self._replace(item, values, (*place, index)) for index, item in enumerate(value)]
        if not isinstance(value, str):
            return value
        for name in _REFERENCE.findall(value):
            if name not in values:
                group = name.split(".")[0]
                known = sorted(key for key in values if key.startswith(f"{group}.")) or sorted(values)
                msg = f"`${{{name}}}` is not known; there are: {', '.join(known)}"
                raise self.error(msg, *place)
        if match := _REFERENCE.fullmatch(value):
            self._origins[place] = match[1]
            return values[match[1]]
        return _REFERENCE.sub(lambda found: str(values[found[1]]), value)

    def references(self) -> set[str]:
        """Give the names of all `${name}` in the file's values."""
        return set(_REFERENCE.findall("\n".join(_strings(self.data))))


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for item in value for text in _strings(item)]
    return [value] if isinstance(value, str) else []

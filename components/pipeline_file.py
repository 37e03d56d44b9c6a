"""Load a pipeline's YAML file, strictly: what Haystack would accept silently is refused here, with its line."""

import inspect
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from haystack import Pipeline
from haystack.core.errors import DeserializationError, PipelineError
from haystack.core.serialization import allow_deserialization_module, component_from_dict, import_class_by_name
from haystack.core.type_utils import _types_are_compatible
from pydantic import ConfigDict, PydanticSchemaGenerationError, TypeAdapter, ValidationError

from contracts.errors import ConfigurationError
from contracts.manifest import PipelineEntry
from contracts.strict_yaml import Place, YamlFile

# Faults of types that a YAML cannot write down: nested objects, dataclasses, callables.
_CODE_ONLY = {"is_instance_of", "callable_type", "dataclass_type", "model_type", "tuple_type", "set_type"}
_COMPONENT_KEYS = {"type", "init_parameters"}
_KEYS = ("components", "connections", "inputs", "outputs", "max_runs_per_component")


@dataclass(frozen=True)
class LoadedPipeline:
    """
    A pipeline, and the interface that its file declares.

    `inputs` names, for each value that a caller gives, the sockets that take it; `outputs`, for each value that it
    gives back, the socket that it comes from; `stages` the components in the order of the file.
    """

    pipeline: Pipeline
    inputs: dict[str, tuple[str, ...]]
    outputs: dict[str, str]
    stages: tuple[str, ...]

    @property
    def streamed(self) -> list[str]:
        """The components whose text goes to the user while it is written: those behind outputs named `…answer`."""
        return [socket.split(".")[0] for name, socket in self.outputs.items() if name.endswith("answer")]

    def run_data(self, **values: Any) -> dict[str, dict[str, Any]]:
        """
        Give the `data` of a run.

        :param values: A value for each name of `inputs`.
        :returns: The values by component and socket.
        :raises KeyError: If a name is no input.
        """
        data: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            for target in self.inputs[name]:
                component, socket = target.split(".")
                data.setdefault(component, {})[socket] = value
        return data

    def output(self, result: Mapping[str, Mapping[str, Any]], name: str) -> Any:
        """
        Pick an output from the result of a run.

        :returns: The value; None if the pipeline has no such output, or its component did not run.
        """
        if name not in self.outputs:
            return None
        component, socket = self.outputs[name].split(".")
        return result.get(component, {}).get(socket)

    @property
    def reported(self) -> set[str]:
        """The components to name in `include_outputs_from`, so that every output is in the result."""
        return {socket.split(".")[0] for socket in self.outputs.values()}


def load_pipeline(entry: PipelineEntry) -> LoadedPipeline:
    """
    Build the pipeline of a manifest entry; nothing is opened.

    :raises ConfigurationError: If anything in the file is wrong; the message names file, line and what to change.
    """
    file = entry.read()
    if unknown := [key for key in file.data if key not in _KEYS]:
        msg = f"`{unknown[0]}` is not a key here; there are: {', '.join(_KEYS)}"
        raise file.error(msg, unknown[0])
    allow_deserialization_module("components")
    pipeline = Pipeline(max_runs_per_component=file.data.get("max_runs_per_component", 100))
    components = file.data.get("components") or {}
    for name, content in components.items():
        pipeline.add_component(name, _component(file, content, ("components", name)))
    for index, connection in enumerate(file.data.get("connections") or []):
        _connect(pipeline, file, connection, index)
    inputs = _inputs(pipeline, file)
    return LoadedPipeline(pipeline, inputs, _outputs(pipeline, file), tuple(components))


def _component(file: YamlFile, content: Any, place: Place) -> Any:
    if not isinstance(content, dict) or not isinstance(content.get("type"), str) or content.keys() - _COMPONENT_KEYS:
        msg = f"`{place[-1]}` needs `type:` (module path and class) and, if it has settings, `init_parameters:`"
        raise file.error(msg, *place)
    cls = _check(file, content, place)
    try:
        return component_from_dict(cls, {"init_parameters": {}, **content}, str(place[-1]))
    except ConfigurationError as error:
        raise file.error_within(str(error), *place) from error
    except (DeserializationError, PipelineError, ValueError, TypeError) as error:
        msg = f"`{place[-1]}`: {_root(error)}"
        raise file.error_within(msg, *place) from error


def _root(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error)


def _check(file: YamlFile, content: dict[str, Any], place: Place) -> type[object]:
    """Check class and parameters of a component, and of the components nested in it."""
    path = content["type"]
    try:
        cls = import_class_by_name(path)
    except (ImportError, DeserializationError) as error:
        msg = f"`{path}` cannot be loaded ({_root(error)}); check the module path and the class name"
        raise file.error(msg, *place, "type") from error
    parameters = content.get("init_parameters") or {}
    # Of the method: the signature of a component's class is that of its metaclass, `(*args, **kwargs)`.
    signature = dict(list(inspect.signature(cls.__init__).parameters.items())[1:])
    hints = get_type_hints(cls.__init__, include_extras=True)  # with the range that a setting may have
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.values()):
        for name in parameters:
            if name not in signature:
                msg = f"`{name}` is not a setting of {cls.__name__}; there are: {', '.join(signature)}"
                raise file.error(msg, *place, "init_parameters", name)
    for name, parameter in signature.items():
        if parameter.default is parameter.empty and name not in parameters and not _variable(parameter):
            msg = f"{cls.__name__} needs the setting `{name}`"
            raise file.error(msg, *place)
    for name, value in parameters.items():
        inner = (*place, "init_parameters", name)
        if isinstance(value, dict) and value.get("type") == "env_var":
            _check_secret(file, value, inner)
        elif isinstance(value, dict) and "." in str(value.get("type")):
            _check(file, value, inner)
        elif not isinstance(value, dict) and name in hints:
            _check_type(file, value, hints[name], inner)
    return cls


def _check_secret(file: YamlFile, value: dict[str, Any], place: Place) -> None:
    """Refuse at start what Haystack would only miss at the first request."""
    names = value.get("env_vars") or []
    if value.get("strict", True) and not any(os.environ.get(name) for name in names):
        msg = f"`{place[-1]}` needs the environment variable {' or '.join(names)}; set it, or write `strict: false`"
        raise file.error(msg, *place)


def _variable(parameter: inspect.Parameter) -> bool:
    return parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)


def _check_type(file: YamlFile, value: Any, hint: Any, place: Place) -> None:
    """Refuse a scalar or list of the wrong type; types that only code can make are the component's own business."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(hint, config=ConfigDict(strict=True))
    except (PydanticSchemaGenerationError, TypeError):
        return
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        if any(fault["type"] in _CODE_ONLY for fault in error.errors()):
            return
        msg = f"`{place[-1]}` is {value!r}: {error.errors()[0]['msg']}"
        raise file.error(msg, *place) from error


def _connect(pipeline: Pipeline, file: YamlFile, connection: Any, index: int) -> None:
    place = ("connections", index)
    if not isinstance(connection, dict) or set(connection) != {"sender", "receiver"}:
        msg = "a connection is `{sender: component.output, receiver: component.input}`"
        raise file.error(msg, *place)
    sender, receiver = connection["sender"], connection["receiver"]
    given = _socket(pipeline, file, sender, "output", (*place, "sender"))
    taken = _socket(pipeline, file, receiver, "input", (*place, "receiver"))
    compatible, conversion = _types_are_compatible(given.type, taken.type)
    if not compatible or conversion:
        # Haystack would convert some of these and fail only once a real value does not fit, such as a list of two.
        msg = f"`{sender}` gives {_name(given.type)}, and `{receiver}` takes {_name(taken.type)}"
        raise file.error(msg, *place)
    if taken.senders and not taken.is_variadic:  # joiners take several
        msg = f"`{receiver}` gets a value from `{taken.senders[0]}` already; remove one of the connections"
        raise file.error(msg, *place)
    pipeline.connect(sender, receiver)


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind)


def _socket(pipeline: Pipeline, file: YamlFile, path: Any, direction: str, place: Place) -> Any:
    component, _, name = str(path).partition(".")
    if component not in pipeline.graph.nodes:
        msg = f"there is no component `{component}`; there are: {', '.join(pipeline.graph.nodes)}"
        raise file.error(msg, *place)
    sockets = pipeline.graph.nodes[component][f"{direction}_sockets"]
    if name not in sockets:
        msg = f"`{component}` has no {direction} `{name}`; there are: {', '.join(sockets)}"
        raise file.error(msg, *place)
    return sockets[name]


def _inputs(pipeline: Pipeline, file: YamlFile) -> dict[str, tuple[str, ...]]:
    inputs = {}
    given: set[str] = set()
    for name, targets in (file.data.get("inputs") or {}).items():
        inputs[name] = tuple(targets) if isinstance(targets, list) else (targets,)
        for target in inputs[name]:
            socket = _socket(pipeline, file, target, "input", ("inputs", name))
            if socket.senders or target in given:
                msg = f"`{target}` gets its value elsewhere already; an input names sockets that nothing else fills"
                raise file.error(msg, "inputs", name)
            given.add(target)
    for component, sockets in pipeline.inputs().items():
        for name, socket in sockets.items():
            if socket["is_mandatory"] and f"{component}.{name}" not in given:
                msg = f"nothing fills `{component}.{name}`; connect it, or name it under `inputs:`"
                raise file.error(msg, "components", component)
    return inputs


def _outputs(pipeline: Pipeline, file: YamlFile) -> dict[str, str]:
    outputs = file.data.get("outputs") or {}
    for name, source in outputs.items():
        _socket(pipeline, file, source, "output", ("outputs", name))
    return outputs

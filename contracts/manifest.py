"""Reads and validates pipelines.yaml: which pipelines are served, under which names, from which files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from contracts.errors import ConfigurationError
from contracts.settings import Settings
from contracts.strict_yaml import YamlFile
from contracts.turn import Agent, Locale

RunBy = Literal["server", "writer", "ingest", "experts"]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    file: Path
    run_by: RunBy = "server"
    name: str = ""
    description: str = ""
    locale: Locale | None = None
    vision: bool = True
    prompts: dict[str, Path] = Field(default_factory=dict)
    vars: dict[str, Any] = Field(default_factory=dict)


class _Content(BaseModel):
    model_config = ConfigDict(extra="forbid")

    vars: dict[str, Any] = Field(default_factory=dict)
    prompts: dict[str, Path] = Field(default_factory=dict)
    pipelines: dict[str, _Entry] = Field(min_length=1)


@dataclass(frozen=True, kw_only=True)
class PipelineEntry:
    """
    One entry of the manifest: a pipeline file, and what fills its `${…}`.

    `id` is the served model's name; `locale` the language where none can be told; `vision` whether images go to the
    answer model; `prompts` are the folders that do not lie beside the pipeline file; `own` names what the entry itself
    sets, under `vars` and `prompts`, over what all entries share.
    """

    id: str
    file: Path
    run_by: RunBy
    agent: Agent
    locale: Locale
    vision: bool
    values: dict[str, Any]
    prompts: dict[str, Path]
    own: dict[str, tuple[str, ...]]
    source: YamlFile

    @property
    def wrapper(self) -> Path:
        """The Python file that gives the pipeline its HTTP shape, beside its YAML file."""
        return self.file.parent / "pipeline_wrapper.py"

    def read(self) -> YamlFile:
        """
        Read the pipeline file and fill in its `${…}`.

        :raises ConfigurationError: If the file is not there, is no strict YAML, names an unknown value, or if the
            entry sets a variable or prompt that the file does not use.
        """
        file = YamlFile(self.file)
        used = file.references()
        for kind, names in self.own.items():
            for name in names:
                if f"{kind}.{name}" not in used:
                    msg = f"`{name}` is not used by {self.file}; remove it, or write `${{{kind}.{name}}}` there"
                    raise self.source.error(msg, "pipelines", self.id, kind, name)
        prompts = {name for name in used if name.startswith("prompts.")}
        folders = {name: str(self._prompt_folder(name.removeprefix("prompts."))) for name in prompts}
        stages = list(file.data.get("components") or ())
        return file.substituted({**self.values, **folders, "assistant.stages": stages}, self._places())

    def _places(self) -> dict[str, str]:
        """Tell where each variable has its value."""
        names = [name.removeprefix("vars.") for name in self.values if name.startswith("vars.")]
        places = {
            name: ("pipelines", self.id, "vars", name) if name in self.own["vars"] else ("vars", name) for name in names
        }
        return {f"vars.{name}": f"{self.source.path}:{self.source.line(*place)}" for name, place in places.items()}

    def _prompt_folder(self, name: str) -> Path:
        return self.prompts.get(name, self.file.parent / "prompts" / name)


@dataclass(frozen=True)
class Manifest:
    """All entries of pipelines.yaml, in its order."""

    entries: dict[str, PipelineEntry]

    @classmethod
    def load(cls, settings: Settings) -> Self:
        """
        Read the manifest that the settings name.

        :raises ConfigurationError: If anything in it is wrong; the message names file, line and what to change.
        """
        source = YamlFile(settings.manifest)
        base = settings.manifest.parent
        known = {f"settings.{name}": value for name, value in _plain(settings).items()}
        try:
            content = _Content.model_validate(source.substituted(known).data)
        except ValidationError as error:
            raise _first(error, source) from None
        entries = {}
        for name, entry in content.pipelines.items():
            file = base / entry.file
            if not file.is_file():
                msg = f"there is no file {file}"
                raise source.error(msg, "pipelines", name, "file")
            agent = Agent(name, entry.name or name, entry.description)
            shared = {f"vars.{key}": value for key, value in (content.vars | entry.vars).items()}
            described = {"id": agent.id, "name": agent.name, "description": agent.description}
            entries[name] = PipelineEntry(
                id=name,
                file=file,
                run_by=entry.run_by,
                agent=agent,
                locale=entry.locale or settings.default_locale,
                vision=entry.vision,
                values=known | shared | {f"assistant.{key}": value for key, value in described.items()},
                prompts={key: base / folder for key, folder in (content.prompts | entry.prompts).items()},
                own={"vars": tuple(entry.vars), "prompts": tuple(entry.prompts)},
                source=source,
            )
        return cls(entries)

    def served(self) -> dict[str, PipelineEntry]:
        """Give the entries that the server offers as models."""
        return {name: entry for name, entry in self.entries.items() if entry.run_by == "server"}

    def run_by(self, who: RunBy) -> PipelineEntry:
        """
        Give the one entry that the writer or the ingestion runs.

        :raises ConfigurationError: If there is none, or more than one.
        """
        found = [entry for entry in self.entries.values() if entry.run_by == who]
        if len(found) != 1:
            msg = f"the manifest needs exactly one pipeline with `run_by: {who}`, and has {len(found)}"
            place = ("pipelines", found[1].id, "run_by") if found else ("pipelines",)
            raise next(iter(self.entries.values())).source.error(msg, *place)
        return found[0]


def _plain(settings: Settings) -> dict[str, Any]:
    """Give the settings that a YAML may refer to: all but secrets, which go through the environment."""
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, field in type(settings).model_fields.items()
        if SecretStr not in (field.annotation, *get_args(field.annotation))  # also one that is not set
        for value in [getattr(settings, name)]
    }


def _first(error: ValidationError, source: YamlFile) -> ConfigurationError:
    fault = error.errors(include_url=False, include_input=False)[0]
    place = fault["loc"]
    if fault["type"] == "extra_forbidden":
        model = _Content if len(place) == 1 else _Entry
        message = f"`{place[-1]}` is not a key here; there are: {', '.join(model.model_fields)}"
    else:
        message = f"`{place[-1] if place else 'the file'}`: {fault['msg']}"
    return source.error(message, *place)

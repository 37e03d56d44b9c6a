"""A manifest or pipeline file that is wrong is refused, with the file, the line and what to change."""

from pathlib import Path
from textwrap import dedent

import pytest
from pydantic import SecretStr

from components.pipeline_file import load_pipeline
from contracts.errors import ConfigurationError
from contracts.manifest import Manifest
from contracts.settings import Settings

MANIFEST = """\
vars:
  top_k: 3
pipelines:
  chat:
    description: Answers.
    file: chat/pipeline.yml
"""

PIPELINE = """\
components:
  builder:
    type: haystack.components.builders.prompt_builder.PromptBuilder
    init_parameters:
      template: "{{ question }}"
      required_variables: [question]
  ranker:
    type: haystack.components.rankers.lost_in_the_middle.LostInTheMiddleRanker
    init_parameters:
      top_k: ${vars.top_k}
connections: []
inputs:
  question: builder.question
  documents: ranker.documents
outputs:
  prompt: builder.prompt
"""


def write(folder: Path, manifest: str = MANIFEST, pipeline: str = PIPELINE) -> Settings:
    (folder / "chat").mkdir()
    (folder / "chat/pipeline.yml").write_text(dedent(pipeline))
    (folder / "pipelines.yaml").write_text(dedent(manifest))
    return Settings(manifest=folder / "pipelines.yaml", _env_file=None)


def load(settings: Settings):
    return load_pipeline(Manifest.load(settings).entries["chat"])


def test_a_value_that_is_one_reference_keeps_its_type(tmp_path):
    loaded = load(write(tmp_path))

    assert loaded.pipeline.get_component("ranker").top_k == 3


def test_the_interface_of_the_file_is_what_a_caller_uses(tmp_path):
    loaded = load(write(tmp_path))

    result = loaded.pipeline.run(loaded.run_data(question="why?", documents=[]), loaded.reported)
    assert loaded.output(result, "prompt") == "why?"


def test_an_entry_overrides_shared_vars(tmp_path):
    settings = write(tmp_path, MANIFEST + "    vars: {top_k: 7}\n")

    assert load(settings).pipeline.get_component("ranker").top_k == 7


def test_a_second_assistant_is_one_entry_over_the_same_file(tmp_path):
    second = "  lawyer:\n    description: Answers legal questions.\n    file: chat/pipeline.yml\n    vars: {top_k: 9}\n"
    manifest = Manifest.load(write(tmp_path, MANIFEST + second))

    kept = [load_pipeline(entry).pipeline.get_component("ranker").top_k for entry in manifest.served().values()]
    assert kept == [3, 9]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("vars:", "varz:", "pipelines.yaml:1: `varz` is not a key here; there are: vars, prompts, pipelines"),
        (
            "    description",
            "    descripton",
            "pipelines.yaml:5: `descripton` is not a key here; there are: file, run_by, name, description, locale, "
            "vision, prompts, vars",
        ),
        (
            "    file",
            "    description: Twice.\n    file",
            "pipelines.yaml:6: the key `description` stands here twice; remove one",
        ),
        ("chat/pipeline.yml", "chat/pipe.yml", "pipelines.yaml:6: there is no file {folder}/chat/pipe.yml"),
        (
            "  top_k: 3",
            "  top_k: ${settings.top}",
            "pipelines.yaml:2: `${settings.top}` is not known; there are: settings.",
        ),
        (
            "    file",
            "    vars: {topk: 1}\n    file",
            "pipelines.yaml:6: `topk` is not used by {folder}/chat/pipeline.yml; remove it, or write `${vars.topk}` "
            "there",
        ),
        (
            "    file",
            "    locale: es\n    file",
            "pipelines.yaml:6: `locale`: Input should be 'de', 'fr', 'it' or 'en'",
        ),
        ("vars:\n", "vars: [\n", "pipelines.yaml:3: not valid YAML:"),
        ("  top_k: 3", "  top_k: \0", "pipelines.yaml:2: not valid YAML: it holds a control character; remove it"),
        ("  top_k: 3", "  top_k: " + "[" * 3000, "pipelines.yaml:1: is nested too deep to be read"),
        ("  top_k: 3", "  [top_k]: 3", "pipelines.yaml:1: a key must be a word, not a list or a mapping"),
        ("  top_k: 3", "  top_k: 2026-02-30", "pipelines.yaml:2: `2026-02-30` cannot be read ("),
    ],
)
def test_a_broken_manifest_names_file_line_and_what_to_change(tmp_path, old, new, message):
    settings = write(tmp_path, MANIFEST.replace(old, new, 1))

    with pytest.raises(ConfigurationError) as caught:
        load(settings)
    assert str(caught.value).startswith(f"{tmp_path}/" + message.replace("{folder}", str(tmp_path)))


def test_a_manifest_in_another_encoding_is_refused(tmp_path):
    settings = write(tmp_path)
    path = tmp_path / "pipelines.yaml"
    path.write_bytes(path.read_bytes().replace(b"top_k: 3", "top_k: drü".encode("latin-1")))

    with pytest.raises(ConfigurationError, match=r"pipelines\.yaml:2: is not UTF-8; save the file as UTF-8"):
        load(settings)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("connections: []", "connection: []", ":11: `connection` is not a key here; there are: components,"),
        (
            "prompt_builder.PromptBuilder",
            "prompt_builder.PromptBilder",
            ":3: `haystack.components.builders.prompt_builder.PromptBilder` cannot be loaded (",
        ),
        ("lost_in_the_middle.", "lost.", ":8: `haystack.components.rankers.lost.LostInTheMiddleRanker` cannot be "),
        ("top_k:", "topk:", ":10: `topk` is not a setting of LostInTheMiddleRanker; there are: "),
        ("${vars.top_k}", '"3"', ":10: `top_k` is '3': Input should be a valid integer"),
        ("${vars.top_k}", "-1", ":7: `ranker`: "),
        ("${vars.top_k}", "${vars.topk}", ":10: `${vars.topk}` is not known; there are: vars.top_k"),
        (
            "[]",
            "[{sender: builder.prompt, receiver: ranker.query}]",
            ":11: `ranker` has no input `query`; there are: documents, top_k",
        ),
        (
            "[]",
            "[{sender: ranker.documents, receiver: builder.template}]",
            ":11: `ranker.documents` gives list[haystack.dataclasses.document.Document], and `builder.template` ",
        ),
        (
            "[]",
            "[{sender: joiner.text, receiver: builder.question}]",
            ":11: there is no component `joiner`; there are:",
        ),
        ("  documents: ranker.documents\n", "", ":7: nothing fills `ranker.documents`; connect it, or name it under"),
        ("builder.prompt\n", "builder.promt\n", ":16: `builder` has no output `promt`; there are: prompt"),
        ("builder.question", "builder.questions", ":13: `builder` has no input `questions`; there are: question, "),
        ("    init_parameters:\n      top_k", "    settings:\n      top_k", ":7: `ranker` needs `type:` (module path "),
    ],
)
def test_a_broken_pipeline_names_file_line_and_what_to_change(tmp_path, old, new, message):
    settings = write(tmp_path, pipeline=PIPELINE.replace(old, new, 1))

    with pytest.raises(ConfigurationError) as caught:
        load(settings)
    assert str(caught.value).startswith(f"{tmp_path}/chat/pipeline.yml{message}")


def test_a_list_is_not_wired_into_a_string(tmp_path):
    pipeline = """\
        components:
          splitter:
            type: haystack.components.builders.chat_prompt_builder.ChatPromptBuilder
            init_parameters: {template: "{% message role='user' %}{{ text }}{% endmessage %}", required_variables: "*"}
          builder:
            type: haystack.components.builders.prompt_builder.PromptBuilder
            init_parameters: {template: "{{ question }}"}
        connections:
          - {sender: splitter.prompt, receiver: builder.template}
        inputs: {text: splitter.text}
        """

    with pytest.raises(ConfigurationError, match=r"pipeline\.yml:9: `splitter\.prompt` gives list\[.*ChatMessage\]"):
        load(write(tmp_path, pipeline=pipeline))


def test_a_missing_secret_is_found_at_start(tmp_path):
    pipeline = """\
        components:
          answer:
            type: haystack.components.generators.chat.openai.OpenAIChatGenerator
            init_parameters:
              api_key: {type: env_var, env_vars: [NO_SUCH_KEY], strict: true}
        inputs: {messages: answer.messages}
        """

    with pytest.raises(ConfigurationError, match=r"pipeline\.yml:5: `api_key` needs the environment variable NO_S"):
        load(write(tmp_path, pipeline=pipeline))


def test_repeated_settings_are_written_once_and_taken_over(tmp_path):
    pipeline = """\
        components:
          first:
            type: haystack.components.rankers.lost_in_the_middle.LostInTheMiddleRanker
            init_parameters: &ranker {top_k: 4, word_count_threshold: 100}
          second:
            type: haystack.components.rankers.lost_in_the_middle.LostInTheMiddleRanker
            init_parameters: {<<: *ranker, top_k: 5}
        inputs: {documents: [first.documents, second.documents]}
        """

    loaded = load(write(tmp_path, pipeline=pipeline)).pipeline
    assert [loaded.get_component(name).top_k for name in ("first", "second")] == [4, 5]
    assert loaded.get_component("second").word_count_threshold == 100


def test_a_wrong_value_of_a_variable_is_refused_with_the_variables_name(tmp_path):
    settings = write(tmp_path, MANIFEST.replace("top_k: 3", "top_k: three"))

    with pytest.raises(
        ConfigurationError, match=r"pipeline\.yml:10: .* \(from `\$\{vars\.top_k\}`, .*/pipelines\.yaml:2\)$"
    ):
        load(settings)


def test_a_value_that_only_the_component_refuses_names_the_variables_of_that_component(tmp_path):
    settings = write(tmp_path, MANIFEST + "    vars: {top_k: -1}\n")

    with pytest.raises(
        ConfigurationError, match=r"pipeline\.yml:7: .* \(from `\$\{vars\.top_k\}`, .*/pipelines\.yaml:7\)$"
    ):
        load(settings)


def test_secrets_are_neither_given_nor_named_whether_they_are_set_or_not(tmp_path):
    settings = write(tmp_path, pipeline=PIPELINE.replace("vars.top_k", "settings.llm_api_key"))
    settings = settings.model_copy(update={"qdrant_api_key": SecretStr("hush")})

    with pytest.raises(ConfigurationError, match=r"`\$\{settings\.llm_api_key\}` is not known") as caught:
        load(settings)
    named = str(caught.value).partition("there are:")[2]
    assert "settings.nats_url" in named
    assert not [word for word in ("secret", "api_key,", "webhook_url", "hush") if word in named]


@pytest.mark.parametrize(("writers", "line"), [(0, 3), (2, 12)])
def test_a_manifest_without_its_one_writer_is_refused_with_its_line(tmp_path, writers, line):
    entry = "  w{}:\n    file: chat/pipeline.yml\n    run_by: writer\n"
    manifest = Manifest.load(write(tmp_path, MANIFEST + "".join(entry.format(n) for n in range(writers))))
    wanted = rf"pipelines\.yaml:{line}: the manifest needs exactly one pipeline with `run_by: writer`, and"

    with pytest.raises(ConfigurationError, match=wanted + f" has {writers}"):
        manifest.run_by("writer")

"""The wrappers are for `hayrecall serve`, and say so elsewhere."""

from pathlib import Path

import pytest
from hayhooks.server.exceptions import PipelineWrapperError
from hayhooks.server.utils.module_loader import create_pipeline_wrapper_instance, load_pipeline_module


@pytest.mark.parametrize("wrapper", sorted(Path("pipelines").glob("*/pipeline_wrapper.py")), ids=str)
def test_stock_hayhooks_is_refused_with_the_right_command(wrapper):
    module = load_pipeline_module("stock", wrapper.parent, package_name="_stock_hayhooks")

    with pytest.raises(PipelineWrapperError, match="hayrecall serve"):
        create_pipeline_wrapper_instance(module)


def test_every_served_folder_has_a_wrapper():
    assert {path.parent.name for path in Path("pipelines").glob("*/pipeline_wrapper.py")} == {
        "rag",
        "expert-rag",
        "few-shot",
        "tasks",
    }

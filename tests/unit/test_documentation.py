"""What exists is documented, and what is documented exists."""

import itertools
import re
import tomllib
from pathlib import Path

import pytest

from contracts.settings import Settings

SETTINGS_PAGE = Path("docs/settings.md").read_text()
PAGES = [Path("README.md"), Path("CONTRIBUTING.md"), *sorted(Path("docs").glob("*.md"))]


def test_every_setting_is_documented_with_its_default():
    rows = dict(re.findall(r"^\| `HAYRECALL_(\w+)` \| (.*?) \|", SETTINGS_PAGE, re.MULTILINE))

    assert sorted(rows) == sorted(name.upper() for name in Settings.model_fields)
    for name, field in Settings.model_fields.items():
        default = field.get_default(call_default_factory=True)
        if default not in (None, []):
            assert rows[name.upper()] == f"`{str(default).lower() if isinstance(default, bool) else default}`", name


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?://|#|mailto:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_index_leads_to_every_page():
    index = Path("docs/index.md").read_text()

    assert [page.name for page in sorted(Path("docs").glob("*.md")) if f"({page.name})" not in index] == ["index.md"]


def test_every_dependency_has_its_reason():
    project = tomllib.loads(Path("pyproject.toml").read_text())
    extras = itertools.chain(*project["project"]["optional-dependencies"].values())
    tools = project["tool"]["hatch"]["envs"]["default"]["dependencies"]
    wanted = {re.split(r"[<>=\[]", line)[0] for line in [*project["project"]["dependencies"], *extras, *tools]}
    explained = set(re.split(r"[|, ()`]+", Path("CONTRIBUTING.md").read_text()))

    assert sorted(wanted - explained) == []

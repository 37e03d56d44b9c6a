"""Starts a set of local parts side by side and gives the settings that lead to them."""

from collections.abc import Sequence

from hayrecall.local.child import Child
from hayrecall.local.console import Console
from hayrecall.local.data_folder import DataFolder
from hayrecall.local.model_download import fetch_model
from hayrecall.local.model_files import QWEN_CODER
from hayrecall.local.parts import PARTS, PartName, new_secret
from hayrecall.local.supervisor import Supervisor

_READY_SECONDS = 120

_DEMO_NOTICE = (
    f"No HAYRECALL_LLM_BASE_URL is set: {QWEN_CODER.label} answers on this machine. It is a demo model, slow and "
    "easily wrong. For real work set HAYRECALL_LLM_BASE_URL (with /v1), HAYRECALL_LLM_API_KEY and "
    "HAYRECALL_ANSWER_MODEL."
)


def start_parts(
    names: Sequence[PartName], folder: DataFolder, supervisor: Supervisor, console: Console
) -> dict[str, str]:
    """
    Start the parts and wait until all of them can be used.

    :param names: The parts.
    :param folder: Where they keep their data; locked by the caller.
    :param supervisor: Owns them from now on, also when this fails half-way.
    :param console: Is told what happens.
    :returns: The `HAYRECALL_…` variables that lead to them.
    :raises LocalError: If one cannot be started.
    """
    secrets = {name: new_secret() for name in names}
    children = {name: PARTS[name].build(folder, secrets[name]) for name in names}
    model = children.get("model")
    waiting = [child for child in children.values() if child is not model]
    supervisor.start(waiting)
    if model is not None:
        console.tell(_DEMO_NOTICE)
        if not QWEN_CODER.is_whole(folder.models / QWEN_CODER.file_name):
            _wait(waiting, supervisor, console)
            waiting = []
            with console.download("downloading the model", QWEN_CODER.size_bytes) as progress:
                fetch_model(QWEN_CODER, folder.models, progress=progress, tell=console.tell)
        supervisor.start([model])
        waiting.append(model)
    _wait(waiting, supervisor, console)
    environment: dict[str, str] = {}
    for name, child in children.items():
        environment |= PARTS[name].environment(child, secrets[name])
    return environment


def _wait(children: Sequence[Child], supervisor: Supervisor, console: Console) -> None:
    with console.waiting(f"starting {', '.join(child.name for child in children)}"):
        supervisor.wait_ready(children, timeout_seconds=_READY_SECONDS)

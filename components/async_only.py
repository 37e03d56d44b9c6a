"""What a component says when it is run synchronously although its input and output are asynchronous only."""


def async_only(component: object) -> NotImplementedError:
    """
    Make the error for a synchronous `run`.

    :param component: The component that was run.
    :returns: An error with a sentence that says what to call instead.
    """
    return NotImplementedError(f"{type(component).__name__} talks to a service: run the pipeline with run_async")

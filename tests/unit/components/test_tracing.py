"""Traces hold no chat unless content tracing is on."""

from haystack.tracing import Span
from haystack.tracing.logging_tracer import LoggingTracer

from components.tracing import WithoutContent


class Remembering(LoggingTracer):
    """Keeps the tags that it is given."""

    seen: dict

    def trace(self, operation_name, tags=None, parent_span=None):
        self.seen = dict(tags or {})
        return super().trace(operation_name, tags=tags, parent_span=parent_span)


def test_tags_that_hold_a_chat_are_left_out_and_others_stay():
    inner = Remembering()
    tags = {"haystack.pipeline.input_data": "secret", "haystack.pipeline.output_data": "secret", "haystack.x": 1}

    with WithoutContent(inner).trace("haystack.pipeline.run", tags=tags) as span:
        assert isinstance(span, Span)

    assert inner.seen == {"haystack.x": 1}

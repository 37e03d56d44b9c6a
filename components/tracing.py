"""Traces of runs, where an OpenTelemetry endpoint is set; without user text unless that is switched on."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from haystack.tracing.tracer import Span, Tracer, enable_tracing, tracer
from haystack_integrations.tracing.opentelemetry import OpenTelemetryTracer
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_CONTENT_TAGS = {"haystack.pipeline.input_data", "haystack.pipeline.output_data"}


class WithoutContent(Tracer):
    """Leaves out the tags that hold a whole chat: Haystack sets them whether or not content may be traced."""

    def __init__(self, inner: Tracer) -> None:
        """
        Wrap a tracer.

        :param inner: What makes the spans.
        """
        self._inner = inner

    @contextmanager
    def trace(
        self, operation_name: str, tags: dict[str, Any] | None = None, parent_span: Span | None = None
    ) -> Iterator[Span]:
        """Make a span."""
        kept = {name: value for name, value in (tags or {}).items() if name not in _CONTENT_TAGS}
        with self._inner.trace(operation_name, tags=kept, parent_span=parent_span) as span:
            yield span

    def current_span(self) -> Span | None:
        """Give the span that is open."""
        return self._inner.current_span()


def configure_tracing(*, service: str, content: bool) -> None:
    """
    Send traces to the OpenTelemetry endpoint that the environment names; do nothing without one.

    :param service: Name of this process in the traces.
    :param content: Put user text into them.
    """
    if not any(os.environ.get(name) for name in _ENDPOINTS):
        return
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    spans: Tracer = OpenTelemetryTracer(trace.get_tracer(service))
    tracer.is_content_tracing_enabled = content
    enable_tracing(spans if content else WithoutContent(spans))


def flush_traces() -> None:
    """Send what is left; called at the end of the process."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        provider.shutdown()

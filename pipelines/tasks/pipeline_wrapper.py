"""Serves what does clients' background tasks; `hayrecall serve` gives it keys, queue and memory."""

from hayrecall.server.chat_pipeline import ChatPipelineWrapper


class PipelineWrapper(ChatPipelineWrapper):
    """Hands a client's task to the task model, without documents and memories."""

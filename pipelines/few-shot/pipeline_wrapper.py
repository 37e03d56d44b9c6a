"""Serves the few-shot pipeline; `hayrecall serve` gives it keys, queue and memory."""

from hayrecall.server.chat_pipeline import ChatPipelineWrapper


class PipelineWrapper(ChatPipelineWrapper):
    """Answers as its examples do."""

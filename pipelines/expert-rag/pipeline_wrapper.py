"""Serves the expert-rag pipeline; `hayrecall serve` gives it keys, queue and memory."""

from hayrecall.server.chat_pipeline import ChatPipelineWrapper


class PipelineWrapper(ChatPipelineWrapper):
    """Answers from documents and memories, and asks the experts where they do not suffice."""

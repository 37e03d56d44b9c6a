"""What a writer process imports and loads at its start; done once in the process that test writers are forked from."""

import asyncio

import mem0.vector_stores.qdrant
import openai.resources.chat
import openai.resources.embeddings

import components.fact_extractor
import components.memory_reconciler
import components.memory_writer
import writer.ingest.process
import writer.process
from components.language import load_languages

__all__ = ["components", "mem0", "openai", "writer"]

asyncio.run(load_languages())

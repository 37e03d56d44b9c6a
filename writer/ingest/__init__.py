"""
The ingestion worker: takes documents off the queue and does with each what `hayrecall ingest` does.

Shares the consumer, the pulls and the process frame with the memory writer, and nothing of its work.
"""

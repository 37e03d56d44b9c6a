"""What a collection stores: its creation request, checked, and the same in Edge's terms."""

from typing import Any

import qdrant_edge as edge
from qdrant_client.http import models

from hayrecall.local.engine.refusals import only, refuse

_ALONE = ("shard_number", "replication_factor", "write_consistency_factor")
_DISTANCES = {
    models.Distance.COSINE: edge.Distance.Cosine,
    models.Distance.DOT: edge.Distance.Dot,
    models.Distance.EUCLID: edge.Distance.Euclid,
    models.Distance.MANHATTAN: edge.Distance.Manhattan,
}
_DATATYPES = {
    models.Datatype.FLOAT32: edge.VectorStorageDatatype.Float32,
    models.Datatype.FLOAT16: edge.VectorStorageDatatype.Float16,
    models.Datatype.UINT8: edge.VectorStorageDatatype.Uint8,
}
_HNSW_DEFAULTS = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000}
_UNNAMED = ""
# Any deleted point is reason enough to rewrite its segment: that is how its bytes leave the disk. Only `optimize` does.
_DELETED_THRESHOLD, _VACUUM_MIN_VECTORS = 1e-9, 1


class Schema:
    """The vectors of a collection, by name; the unnamed vector's name is empty."""

    def __init__(self, request: models.CreateCollection) -> None:
        """
        Check a creation request.

        :param request: As the client sent it, or as it was stored.
        :raises EngineError: If it asks for what the engine cannot do.
        """
        only(request, "vectors", "sparse_vectors", "on_disk_payload", "hnsw_config", "metadata", *_ALONE)
        for name in _ALONE:
            if getattr(request, name) not in {None, 1}:
                refuse(f"`{name}` must be 1 in the embedded engine")
        vectors = request.vectors or {}
        self.request = request
        self.dense = {_UNNAMED: vectors} if isinstance(vectors, models.VectorParams) else dict(vectors)
        self.sparse = dict(request.sparse_vectors or {})

    def edge_config(self) -> edge.EdgeConfig:
        """
        Say the same in Edge's terms.

        :returns: Configuration for a new shard.
        :raises EngineError: If a vector asks for what the engine cannot do.
        """
        return edge.EdgeConfig(
            vectors={name: _dense(params) for name, params in self.dense.items()},
            sparse_vectors={name: _sparse(params) for name, params in self.sparse.items()},
            on_disk_payload=self.request.on_disk_payload,
            hnsw_config=_hnsw(self.request.hnsw_config),
            optimizers=edge.EdgeOptimizersConfig(
                deleted_threshold=_DELETED_THRESHOLD, vacuum_min_vector_number=_VACUUM_MIN_VECTORS
            ),
        )

    def describe(self) -> dict[str, Any]:
        """
        Tell a client how the collection was created.

        :returns: `config` of Qdrant's collection info.
        """
        stored = self.request.model_dump(mode="json", exclude_none=True)
        params = {
            "shard_number": 1,
            "replication_factor": 1,
            "write_consistency_factor": 1,
            "on_disk_payload": stored.get("on_disk_payload", True),
            "vectors": stored.get("vectors", {}),
            "sparse_vectors": stored.get("sparse_vectors"),
        }
        return {
            "params": params,
            "hnsw_config": {**_HNSW_DEFAULTS, **stored.get("hnsw_config", {})},
            "optimizer_config": {
                "deleted_threshold": _DELETED_THRESHOLD,
                "vacuum_min_vector_number": _VACUUM_MIN_VECTORS,
                "default_segment_number": 0,
                "flush_interval_sec": 5,
            },
            "metadata": stored.get("metadata"),
        }


def _dense(params: models.VectorParams) -> edge.EdgeVectorParams:
    only(params, "size", "distance", "on_disk", "datatype", "hnsw_config", "multivector_config")
    if params.size < 1:
        refuse("`size` must be 1 or larger")
    multivector = edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim) if params.multivector_config else None
    return edge.EdgeVectorParams(
        params.size,
        _DISTANCES[params.distance],
        params.on_disk,
        multivector_config=multivector,
        datatype=_DATATYPES[params.datatype] if params.datatype else None,
        hnsw_config=_hnsw(params.hnsw_config),
    )


def _sparse(params: models.SparseVectorParams) -> edge.EdgeSparseVectorParams:
    only(params, "modifier", "index")
    index = params.index or models.SparseIndexParams()
    only(index, "on_disk", "full_scan_threshold")
    return edge.EdgeSparseVectorParams(
        full_scan_threshold=index.full_scan_threshold,
        on_disk=index.on_disk,
        modifier=edge.Modifier.Idf if params.modifier == models.Modifier.IDF else None,
    )


def _hnsw(config: models.HnswConfigDiff | None) -> edge.HnswIndexConfig | None:
    if config is None:
        return None
    only(config, "m", "ef_construct", "full_scan_threshold", "max_indexing_threads", "on_disk", "payload_m")
    chosen = {**_HNSW_DEFAULTS, **config.model_dump(exclude_none=True)}
    return edge.HnswIndexConfig(**chosen)

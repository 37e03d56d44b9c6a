"""Two lanes to one model: a question never waits behind an ingestion."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from hayrecall.local.embedder.encoder import Encoder, Tokens, Vectors

_SHORT_TOKENS = 1024


class Lanes:
    """
    Runs short requests beside long ones.

    Long requests run one after the other, in small batches. A short one starts at once in its own thread: onnxruntime
    gives it a share of the cores, so it costs about twice its time alone, not the time of what is before it.
    """

    def __init__(self, encoder: Encoder) -> None:
        """
        Open both lanes.

        :param encoder: The model.
        """
        self._encoder = encoder
        self._short = ThreadPoolExecutor(1, thread_name_prefix="short")
        self._long = ThreadPoolExecutor(1, thread_name_prefix="long")

    async def encode(self, tokens: Tokens) -> Vectors:
        """
        Turn texts into vectors in the lane that fits.

        :param tokens: Texts, cut into tokens.
        :returns: A vector of length 1 for each.
        """
        lane = self._short if tokens.total <= _SHORT_TOKENS else self._long
        return await asyncio.get_running_loop().run_in_executor(lane, self._encoder.encode, tokens)

    def close(self) -> None:
        """Finish what runs, drop what waits."""
        for lane in (self._short, self._long):
            lane.shutdown(cancel_futures=True)

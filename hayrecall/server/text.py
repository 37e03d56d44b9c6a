"""Text from outside, made safe to encode, store and send."""


def cleaned(text: str) -> str:
    """
    Remove what no UTF-8 consumer takes: NUL goes, lone surrogates become U+FFFD, split pairs are joined.

    :param text: Anything that JSON can express.
    :returns: The same text, encodable as UTF-8.
    """
    return text.replace("\0", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")

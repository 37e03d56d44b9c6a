"""Bring text files into UTF-8, which all converters read."""

from charset_normalizer import from_bytes


def as_utf8(data: bytes) -> bytes:
    """
    Guess the encoding of a text file that is not in UTF-8, such as an older Windows one.

    :param data: Content of the file.
    :returns: The same text in UTF-8; the content as it is where no encoding fits.
    """
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        guess = from_bytes(data).best()
        return data if guess is None else str(guess).encode("utf-8", "replace")
    return data

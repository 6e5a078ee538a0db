"""A file is used only if its content is the one that this book was written with."""

import hashlib
from pathlib import Path

__all__ = ["WeightsError", "known_content"]


class WeightsError(RuntimeError):
    """A file of weights is missing, or is not the one that this book was written with."""


def known_content(
    file: Path, sha256: str, *, what: str, remedy: str
) -> bytes:
    """Return the content of ``file``, hashed before anything else looks at it.

    Args:
        file: where it is.
        sha256: of the right content, in hexadecimal digits.
        what: names the file in the error.
        remedy: what helps if it is another, such as a command.

    Raises:
        WeightsError: if the content is another.
    """
    content = file.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise WeightsError(
            f"{what} is not the file that this book knows (another sha256); {remedy}"
        )
    return content

"""Strings that cannot be sent: strings with half of a surrogate pair have no UTF-8 encoding."""

from __future__ import annotations

from collections.abc import Iterable

from chorale_client._errors import InvalidArgumentError


def check_encodable(texts: Iterable[str], what: str, field: str) -> None:
    """Raises InvalidArgumentError if a string has no UTF-8 encoding.

    Args:
        texts: The strings.
        what: The owner of the string, for the message, such as "column 'town': its category".
        field: The name of the argument or column.
    """
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(
                f"{what} {text!r} is not valid Unicode: its character {error.start} is half of a "
                "surrogate pair; read the data in its actual encoding, or replace the character",
                fields=[field],
            ) from None

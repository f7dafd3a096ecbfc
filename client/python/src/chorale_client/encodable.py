"""Texts that cannot be sent: those with half of a surrogate pair, which have no UTF-8."""

from __future__ import annotations

from collections.abc import Iterable

from chorale_client.errors import InvalidArgumentError


def check_encodable(texts: Iterable[str], what: str, field: str) -> None:
    """InvalidArgumentError if one of the texts has no UTF-8.

    Args:
        texts: Of any number.
        what: What has the text, for the message, such as "column 'town': its category".
        field: The name of the argument or column.
    """
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(
                f"{what} {text!r} is no valid Unicode text: its character {error.start} is half of "
                "a surrogate pair; read the texts again in their encoding, or replace it",
                fields=[field],
            ) from None

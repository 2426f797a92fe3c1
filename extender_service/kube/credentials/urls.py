"""URLs in texts. A URL may have a user and a password before its host."""

import re

_USER = re.compile(r"^([^/?#]*//)[^/?#]*@")


def without_user(url: str) -> str:
    """Return a URL as logs, errors and events may show it: without user and password."""
    return _USER.sub(r"\1", url)

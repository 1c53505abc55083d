"""Secrets by reference. A value lives in memory between its look-up and the spawn, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping

from kandev_routing_sdk.errors import SecretUnavailable


class EnvironmentSecrets:
    """Resolves ``env:NAME`` from an environment. Its repr shows no value."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def __repr__(self) -> str:
        return "EnvironmentSecrets()"

    def resolve(self, reference: str) -> str:
        """Return the value of ``env:NAME``.

        Raises :class:`~kandev_routing_sdk.errors.SecretUnavailable`, naming the reference, when the variable is unset or empty.
        """
        scheme, _, name = reference.partition(":")
        if scheme != "env" or not name:
            raise SecretUnavailable(f'secret reference {reference!r} is not of the form "env:NAME"')
        value = self._environ.get(name, "")
        if not value:
            raise SecretUnavailable(
                f"secret reference {reference!r} points at an environment variable that is not set; "
                "set it, or correct the reference"
            )
        return value

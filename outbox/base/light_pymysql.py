"""PyMySQL without the package cryptography, 8 MB of every process, until a login needs it.

PyMySQL loads it at its own import, for one kind of password alone: MySQL's sha256 plugins without TLS, where the
password travels under the server's RSA key.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any, Final

_HEAVY: Final = "cryptography"
_LOGINS: Final = "pymysql._auth"


def load_pymysql() -> None:
    """Import PyMySQL, whose RSA logins load what they need when the first of them comes.

    Where it is imported already, or is laid out in a way that this does not know, it stays as it is.
    """
    if "pymysql" in sys.modules or f"{_HEAVY}.hazmat" in sys.modules:
        return
    # The import system does the rest, with its own locks: others may import the driver meanwhile, or do just this.
    sys.meta_path.insert(0, _Finder)
    try:
        importlib.import_module("pymysql")
    finally:
        sys.meta_path.remove(_Finder)


class _Finder:
    """Finds one module, and gives it a loader of ours."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == _LOGINS else None
        if spec is None or type(spec.loader) is not SourceFileLoader:
            return None
        spec.loader = _Light(spec.loader.name, spec.loader.path)
        return spec


class _Light(SourceFileLoader):
    """Runs a module as if cryptography were not installed, and again when it is asked for it."""

    def exec_module(self, module: ModuleType) -> None:
        # For the import statements of this one module alone: other threads may import the package meanwhile.
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": _import_light}
        super().exec_module(module)
        vars(module)["__builtins__"] = vars(builtins)
        encrypt = vars(module).get("sha2_rsa_encrypt")
        if callable(encrypt):
            vars(module)["sha2_rsa_encrypt"] = self._completing(module, encrypt)
        else:
            # Not as we know it: once more, and nothing is left for later.
            super().exec_module(module)

    def _completing(self, module: ModuleType, encrypt: Callable[..., Any]) -> Callable[..., Any]:
        def completing(*arguments: Any) -> Any:
            self._complete(module)
            vars(module)["sha2_rsa_encrypt"] = encrypt
            return encrypt(*arguments)

        return completing

    def _complete(self, module: ModuleType) -> None:
        """Add what a run with everything has besides: the parts of cryptography, and that they are there."""
        spec = importlib.util.spec_from_loader(self.name, self)
        assert spec is not None
        whole = importlib.util.module_from_spec(spec)
        super().exec_module(whole)
        missing = vars(whole).keys() - vars(module).keys()
        vars(module).update({name: vars(whole)[name] for name in (*missing, "_have_cryptography")})


def _import_light(name: str, *rest: Any) -> Any:
    if name.partition(".")[0] == _HEAVY:
        raise ImportError(f"{name} is loaded by the first login that needs it", name=name)
    return builtins.__import__(name, *rest)

"""PyMySQL without the package cryptography, 8 MB of every process, until a login needs it.

PyMySQL loads it at its own import, for one kind of password alone: MySQL's sha256 plugins without TLS, where the
password travels under the server's RSA key.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
from importlib.machinery import PathFinder
from pathlib import Path
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
    # Before its package, which takes what is there.
    logins = _load_logins()
    package = importlib.import_module("pymysql")
    if logins is not None:
        package.__dict__["_auth"] = logins


def _load_logins() -> ModuleType | None:
    path = _find_logins()
    spec = importlib.util.spec_from_file_location(_LOGINS, path) if path else None
    if spec is None:
        return None
    logins = importlib.util.module_from_spec(spec)
    # For the import statements of this one module alone: other threads may import the package meanwhile.
    logins.__dict__["__builtins__"] = {**vars(builtins), "__import__": _import_light}
    sys.modules[_LOGINS] = logins
    try:
        _execute(logins)
    except BaseException:
        del sys.modules[_LOGINS]
        raise
    _complete_at_first_use(logins)
    return logins


def _find_logins() -> Path | None:
    package = PathFinder.find_spec("pymysql")
    folders = package.submodule_search_locations if package else None
    return next((path for folder in folders or [] if (path := Path(folder, "_auth.py")).is_file()), None)


def _import_light(name: str, *rest: Any) -> Any:
    if name.partition(".")[0] == _HEAVY:
        raise ImportError(f"{name} is loaded by the first login that needs it", name=name)
    return builtins.__import__(name, *rest)


def _complete_at_first_use(logins: ModuleType) -> None:
    def encrypt(password: bytes, salt: bytes, public_key: bytes) -> Any:
        _complete(logins)
        return logins.sha2_rsa_encrypt(password, salt, public_key)

    if callable(getattr(logins, "sha2_rsa_encrypt", None)):
        logins.__dict__["sha2_rsa_encrypt"] = encrypt
    else:
        _complete(logins)


def _complete(logins: ModuleType) -> None:
    """Run the module once more, with everything there is."""
    logins.__dict__["__builtins__"] = vars(builtins)
    _execute(logins)


def _execute(module: ModuleType) -> None:
    assert module.__spec__ is not None
    assert module.__spec__.loader is not None
    module.__spec__.loader.exec_module(module)

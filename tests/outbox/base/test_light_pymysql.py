"""PyMySQL costs a process only what its logins need, and every login still works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_LOADED = "sorted({name.partition('.')[0] for name in sys.modules} & {'cryptography', 'pymysql'})"

_CONNECT = f"""
import sys
from outbox.base.db import create_engine_for

with create_engine_for(sys.argv[1]).connect() as conn:
    conn.exec_driver_sql("SELECT 1")
print(*{_LOADED})
"""

#: As a server that has the private half of the key would read it.
_LOG_IN_WITH_RSA = """
import sys
from outbox.base.light_pymysql import load_pymysql

load_pymysql()
assert "cryptography" not in sys.modules
import pymysql

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

key = rsa.generate_private_key(65537, 2048)
public = key.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)
scheme = padding.OAEP(mgf=padding.MGF1(hashes.SHA1()), algorithm=hashes.SHA1(), label=None)
salt = bytes(range(1, 21))
for login in ("first", "second"):
    sent = pymysql.connections._auth.sha2_rsa_encrypt(login.encode(), salt, public)
    print(bytes(a ^ b for a, b in zip(key.decrypt(sent, scheme), salt)))
assert pymysql._auth is pymysql.connections._auth is sys.modules["pymysql._auth"]
"""


def _import(before: str = "", after: str = "") -> str:
    return f"""
import sys
{before}
from outbox.base.light_pymysql import load_pymysql

load_pymysql()
import pymysql
print(*{_LOADED})
{after}
"""


def _run(script: str, *arguments: str, path: Path | None = None) -> list[str]:
    """The lines that ``script`` prints; what lies in ``path`` is found first."""
    places = [str(path)] if path else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*places, *filter(None, sys.path)])}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], env=environment, capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_connection_without_rsa_loads_no_cryptography(mariadb_url: str) -> None:
    assert _run(_CONNECT, mariadb_url) == ["pymysql"]


def test_a_login_with_rsa_works_whenever_it_comes() -> None:
    assert _run(_LOG_IN_WITH_RSA) == [repr(b"first\x00"), repr(b"second\x00")]


def test_a_driver_that_was_loaded_before_stays_as_it_is() -> None:
    script = _import("import pymysql\nhere = dict(vars(pymysql._auth))", "assert vars(pymysql._auth) == here")
    assert _run(script) == ["cryptography pymysql"]


def test_a_driver_of_another_layout_is_loaded_as_ever(tmp_path: Path) -> None:
    package = tmp_path / "pymysql"
    package.mkdir()
    package.joinpath("__init__.py").touch()
    assert _run(_import(), path=tmp_path) == ["pymysql"]

    package.joinpath("__init__.py").write_text("from . import _auth\n")
    package.joinpath("_auth.py").write_text(
        "try:\n import cryptography\n known = True\nexcept ImportError:\n known = False\n"
    )
    assert _run(_import(after="assert pymysql._auth.known"), path=tmp_path) == ["cryptography pymysql"]


def test_a_driver_that_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    package = tmp_path / "pymysql"
    package.mkdir()
    package.joinpath("__init__.py").write_text("from . import _auth\n")
    package.joinpath("_auth.py").write_text("raise RuntimeError('broken')\n")
    script = """
import sys
from outbox.base.light_pymysql import load_pymysql

finders = len(sys.meta_path)
try:
    load_pymysql()
except RuntimeError as error:
    print(error)
print("pymysql._auth" in sys.modules, len(sys.meta_path) == finders)
"""
    assert _run(script, path=tmp_path) == ["broken", "False True"]


#: Ours and a host's threads import the driver at the same moment, again and again.
_CROWD = """
import sys, threading
from outbox.base.light_pymysql import load_pymysql

def host():
    import pymysql
    assert pymysql.connections._auth.scramble_native_password(b"x", b"y" * 20)

def ours():
    load_pymysql()
    host()

def run(act, all_here, errors):
    all_here.wait()
    try:
        act()
    except BaseException as error:
        errors.append(repr(error))

sys.setswitchinterval(1e-5)
for _ in range(20):
    for name in [name for name in sys.modules if name.partition(".")[0] == "pymysql"]:
        del sys.modules[name]
    all_here, errors = threading.Barrier(4), []
    crowd = [threading.Thread(target=run, args=(act, all_here, errors)) for act in (host, ours, host, ours)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    if errors:
        sys.exit("; ".join(errors))
"""


def test_many_threads_may_load_the_driver_at_once() -> None:
    assert _run(_CROWD) == []


#: A host that has set something in the module, and one that reloads it, before the first login.
_MEDDLE = """
import importlib, sys
from outbox.base.light_pymysql import load_pymysql

load_pymysql()
from pymysql import _auth

_auth.DEBUG = "mine"
try:
    _auth.sha2_rsa_encrypt(b"secret", b"x" * 20, b"no key")
except ValueError:
    print(_auth.DEBUG, _auth._have_cryptography)
importlib.reload(_auth)
print(_auth.DEBUG, _auth._have_cryptography)
"""


def test_a_login_changes_nothing_that_others_have_set() -> None:
    assert _run(_MEDDLE) == ["mine True", "False True"]


def test_a_driver_that_is_loaded_anew_is_whole() -> None:
    script = _import(after="import importlib\nimportlib.reload(pymysql._auth)\nassert pymysql._auth._have_cryptography")
    assert _run(script) == ["pymysql"]
